"""How quick the console is with much to show: 1,000 streams, 10,000 subjects, a million messages.

    python -m benchmarks.console [--genuine] [--messages N] [--profile FILE]

A real Chromium opens each page. Of five times the median is printed: seconds from the call until
what is to be seen is there; processor seconds of the console, the server and the browser until the
page has come to rest, which other work on the machine hardly changes; messages that the server got;
KiB that the browser got. At the end, the largest memory of the console's process. Needs the extras
`console` and `test`, and Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import nats
from playwright.sync_api import CDPSession, Page, expect, sync_playwright

from jetstream_spark.embedded import JetStreamServer

STREAMS = 1_000
SUBJECTS = 10_000
OBJECTS = 200
ROUNDS = 5
REST_MS = 700
PAYLOAD = b'{"id": 12345, "text": "something that is a hundred bytes long, more or less, as it is"}'


async def make(url: str, messages: int) -> None:
    """Make the streams, and the messages of one of them."""
    client = await nats.connect(url)
    js = client.jetstream()
    for number in range(STREAMS - 3):
        await js.add_stream(name=f"S{number:03}", subjects=[f"s{number}.>"])
    await js.add_stream(name="LARGE", subjects=["large.*"])
    await js.create_key_value(bucket="KEYS")
    store = await js.create_object_store("FILES")
    for number in range(OBJECTS):
        await store.put(f"{number}.bin", PAYLOAD)
    _flood(url, "large.", messages)
    _flood(url, "$KV.KEYS.k", SUBJECTS)
    while (await js.stream_info("LARGE")).state.messages < messages:
        await asyncio.sleep(0.2)
    await client.close()


def _flood(url: str, prefix: str, messages: int) -> None:
    """Publish a thousand at a time, each when those before are stored."""
    host, port = url.removeprefix("nats://").split(":")
    with socket.create_connection((host, int(port))) as wire:
        wire.sendall(b'CONNECT {"verbose":false}\r\nSUB stored 1\r\n')
        for start in range(0, messages, 1_000):
            last = min(start + 1_000, messages) - 1
            wire.sendall(
                b"".join(
                    b"PUB %b%d %b%d\r\n%b\r\n"
                    % (
                        prefix.encode(),
                        number % SUBJECTS,
                        b"stored " * (number == last),
                        len(PAYLOAD),
                        PAYLOAD,
                    )
                    for number in range(start, last + 1)
                )
            )
            heard = b""
            while b"MSG stored" not in heard:
                heard = heard[-16:] + wire.recv(65536)


def overview(page: Page, messages: int) -> None:
    """Wait for the overview."""
    expect(page.get_by_text("no limit").first).to_be_visible()


def streams(page: Page, messages: int) -> None:
    """Wait for the table of streams."""
    expect(page.get_by_text("1 000 of 1 000 streams")).to_be_visible()
    expect(page.get_by_role("link", name="FILES")).to_be_visible()


def stream(page: Page, messages: int) -> None:
    """Wait for a stream."""
    expect(page.get_by_text("Removed between")).to_be_visible()


def read(page: Page, messages: int) -> None:
    """Wait for the newest messages."""
    expect(page.get_by_text(f"{messages - 49} to {messages}")).to_be_visible()
    expect(page.get_by_text(f"{messages} · large.")).to_be_visible()


def subjects(page: Page, messages: int) -> None:
    """Ask for all subjects of the large stream, and wait for them."""
    page.get_by_text("Subjects", exact=True).last.click()
    page.get_by_role("button", name="Show subjects").click()
    expect(page.get_by_text("10 000 subjects")).to_be_visible()


def seen(words: str) -> Callable[[Page, int], None]:
    """Return what waits for some words."""

    def there(page: Page, messages: int) -> None:
        expect(page.get_by_text(words).first).to_be_visible()

    return there


PAGES = (
    ("overview", "/", overview),
    ("streams", "/streams", streams),
    ("a stream", "/streams/LARGE", stream),
    ("its messages", "/streams/LARGE/messages", read),
    ("its subjects", "", subjects),
    ("buckets", "/buckets", seen("1 of 1 buckets")),
    ("a bucket", "/buckets/KEYS", seen("50 keys")),
    ("a key", "/buckets/KEYS/key?name=k9999", seen('"something that is')),
    ("object stores", "/stores", seen("1 of 1 stores")),
    ("a store", "/stores/FILES", seen("199.bin")),
    ("Spark", "/queries", seen("Writes, by the ledger")),
    ("connections", "/connections", seen("jetstream-console")),
    ("advisories", "/advisories", seen("0 came")),
    ("server", "/server", seen('"server_id"')),
)


# Of what a page costs.
HEADINGS = ("wall, s", "console, s", "server, s", "browser, s", "messages", "KiB")


def processor_s(pid: int) -> float:
    """Return the processor seconds of a process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def browser_s() -> dict[int, float]:
    """Return the processor seconds of each process of the browser."""
    above, names = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        names[int(pid)], _, rest = rest.rpartition(")")
        above[int(pid)] = int(rest.split()[1])
    found = {}
    for pid in above:
        lineage = pid
        while lineage not in (0, os.getpid()):
            lineage = above.get(lineage, 0)
        if lineage and "chrom" in names[pid]:
            try:
                found[pid] = processor_s(pid)
            except OSError:
                continue
    return found


class Meter:
    """Tells what has been spent since it was made."""

    def __init__(self, console: int, server: int, monitor: str, wire: CDPSession) -> None:
        self._console = console
        self._server = server
        self._monitor = monitor
        self._received = 0
        wire.send("Network.enable")
        wire.on("Network.dataReceived", lambda event: self._receive(event["encodedDataLength"]))
        wire.on(
            "Network.webSocketFrameReceived",
            lambda event: self._receive(len(event["response"]["payloadData"])),
        )

    def _receive(self, size: int) -> None:
        self._received += size

    def of(self, page: Page, act: Callable[[], None]) -> tuple[float, ...]:
        """Return what an action costs, in the order of the headings."""
        page.wait_for_timeout(REST_MS)
        processors, requests, received = self._processors(), self._requests(), self._received
        start = time.perf_counter()
        act()
        wall_s = time.perf_counter() - start
        page.wait_for_timeout(REST_MS)
        after, before = self._processors(), processors
        return (
            wall_s,
            after[0] - before[0],
            after[1] - before[1],
            sum(spent - before[2].get(pid, 0.0) for pid, spent in after[2].items()),
            self._requests() - requests,
            (self._received - received) / 1024,
        )

    def _processors(self) -> tuple[float, float, dict[int, float]]:
        return processor_s(self._console), processor_s(self._server), browser_s()

    def _requests(self) -> int:
        with urlopen(f"{self._monitor}/varz") as answer:
            return int(json.load(answer)["in_msgs"])


def measure(address: str, messages: int, console: int, server: int, monitor: str) -> None:
    """Open each page some times, and print what it cost."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(base_url=address)
        expect.set_options(timeout=60_000)
        meter = Meter(console, server, monitor, page.context.new_cdp_session(page))
        page.goto("/")
        overview(page, messages)
        print(f"{'':14}" + "".join(f"{name:>11}" for name in HEADINGS), flush=True)
        for name, path, there in PAGES:
            costs = []
            for _ in range(ROUNDS):
                if not path:
                    page.goto("/streams/LARGE")
                    stream(page, messages)

                def act(path: str = path, there: Callable[..., None] = there) -> None:
                    if path:
                        page.goto(path)
                    there(page, messages)

                costs.append(meter.of(page, act))
            medians = map(statistics.median, zip(*costs, strict=True))
            print(f"{name:14}" + "".join(f"{each:11.2f}" for each in medians), flush=True)
        browser.close()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Start a server and a console, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--genuine", action="store_true", help="with nats-server")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--profile", help="where to write what the console's functions cost")
    given = parser.parse_args()
    genuine = Path(sys.executable).with_name("nats-server")
    command = [str(genuine), "-js"] if given.genuine else None
    monitoring = free_port()
    monitor = f"http://127.0.0.1:{monitoring}"
    with JetStreamServer(command=command, arguments=["-m", str(monitoring)]) as server:
        asyncio.run(make(server.url, given.messages))
        profile = ["-m", "cProfile", "-o", given.profile] if given.profile else []
        command = [sys.executable, *profile, "-m", "jetstream_console", "--port", "0"]
        command += ["--servers", server.url, "--monitor", monitor]
        console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert console.stdout is not None and server.pid is not None
        try:
            address = console.stdout.readline().split()[1]
            with socket.socket() as probe:
                port = int(address.rpartition(":")[2])
                while probe.connect_ex(("127.0.0.1", port)):
                    time.sleep(0.1)
            measure(address, given.messages, console.pid, server.pid, monitor)
            status = Path(f"/proc/{console.pid}/status").read_text()
            most = next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)
            print(f"{'memory, most':15} {int(most) / 1024:6.0f} MiB on {os.cpu_count()} cores")
        finally:
            console.terminate()
            console.wait()


if __name__ == "__main__":
    main()
