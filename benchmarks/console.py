"""How quick the console is with much to show: 1,000 streams, 10,000 subjects, a million messages.

    python -m benchmarks.console [--genuine] [--messages N]

A real Chromium opens each page; measured is from the call until what is to be seen is there, the
median of five, and the largest memory of the console's process. Needs the extras `console` and
`test`, and Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import nats
from playwright.sync_api import Page, expect, sync_playwright

from jetstream_spark.embedded import JetStreamServer

STREAMS = 1_000
SUBJECTS = 10_000
ROUNDS = 5
PAYLOAD = b'{"id": 12345, "text": "something that is a hundred bytes long, more or less, as it is"}'


async def make(url: str, messages: int) -> None:
    """Make the streams, and the messages of one of them."""
    client = await nats.connect(url)
    js = client.jetstream()
    for number in range(STREAMS - 1):
        await js.add_stream(name=f"S{number:03}", subjects=[f"s{number}.>"])
    await js.add_stream(name="LARGE", subjects=["large.*"])
    _flood(url, messages)
    while (await js.stream_info("LARGE")).state.messages < messages:
        await asyncio.sleep(0.2)
    await client.close()


def _flood(url: str, messages: int) -> None:
    """Publish a thousand at a time, each when those before are stored."""
    host, port = url.removeprefix("nats://").split(":")
    with socket.create_connection((host, int(port))) as wire:
        wire.sendall(b'CONNECT {"verbose":false}\r\nSUB stored 1\r\n')
        for start in range(0, messages, 1_000):
            last = min(start + 1_000, messages) - 1
            wire.sendall(
                b"".join(
                    b"PUB large.%d %b%d\r\n%b\r\n"
                    % (number % SUBJECTS, b"stored " * (number == last), len(PAYLOAD), PAYLOAD)
                    for number in range(start, last + 1)
                )
            )
            heard = b""
            while b"MSG stored" not in heard:
                heard = heard[-16:] + wire.recv(65536)


def overview(page: Page, messages: int) -> None:
    """Wait for the overview."""
    expect(page.get_by_text(f"{messages:,}".replace(",", " "))).to_be_visible()


def streams(page: Page, messages: int) -> None:
    """Wait for the table of streams."""
    expect(page.get_by_text("1 000 of 1 000 streams")).to_be_visible()


def stream(page: Page, messages: int) -> None:
    """Wait for a stream, then for its subjects."""
    expect(page.get_by_text("Removed between")).to_be_visible()


def read(page: Page, messages: int) -> None:
    """Wait for the newest messages."""
    expect(page.get_by_text(f"{messages - 49} to {messages}")).to_be_visible()


def subjects(page: Page, messages: int) -> None:
    """Ask for all subjects of the large stream, and wait for them."""
    page.get_by_text("Subjects", exact=True).last.click()
    page.get_by_role("button", name="Show subjects").click()
    expect(page.get_by_text("10 000 subjects")).to_be_visible()


PAGES = (
    ("overview", "/", overview),
    ("streams", "/streams", streams),
    ("a stream", "/streams/LARGE", stream),
    ("its messages", "/streams/LARGE/messages", read),
)


def measure(address: str, messages: int) -> None:
    """Open each page some times, and print how long it took."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(base_url=address)
        expect.set_options(timeout=60_000)
        page.goto("/")
        overview(page, messages)
        for name, path, there in PAGES:
            taken = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                page.goto(path)
                there(page, messages)
                taken.append(time.perf_counter() - start)
            print(f"{name:15} {statistics.median(taken):6.2f} s", flush=True)
        taken = []
        for _ in range(ROUNDS):
            page.goto("/streams/LARGE")
            stream(page, messages)
            start = time.perf_counter()
            subjects(page, messages)
            taken.append(time.perf_counter() - start)
        print(f"{'its subjects':15} {statistics.median(taken):6.2f} s", flush=True)
        browser.close()


def main() -> None:
    """Start a server and a console, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--genuine", action="store_true", help="with nats-server")
    parser.add_argument("--messages", type=int, default=1_000_000)
    given = parser.parse_args()
    genuine = Path(sys.executable).with_name("nats-server")
    with JetStreamServer(command=[str(genuine), "-js"] if given.genuine else None) as server:
        asyncio.run(make(server.url, given.messages))
        command = [sys.executable, "-m", "jetstream_console", "--port", "0"]
        console = subprocess.Popen(
            [*command, "--servers", server.url], stdout=subprocess.PIPE, text=True
        )
        assert console.stdout is not None
        try:
            address = console.stdout.readline().split()[1]
            with socket.socket() as probe:
                port = int(address.rpartition(":")[2])
                while probe.connect_ex(("127.0.0.1", port)):
                    time.sleep(0.1)
            measure(address, given.messages)
            status = Path(f"/proc/{console.pid}/status").read_text()
            most = next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)
            print(f"{'memory, most':15} {int(most) / 1024:6.0f} MiB on {os.cpu_count()} cores")
        finally:
            console.terminate()
            console.wait()


if __name__ == "__main__":
    main()
