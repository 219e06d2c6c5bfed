"""Uploads that are broken off: nothing is left of them, and they are never in memory.

With UPLOAD_MIB=1024 they are as large as that.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Served
from tests.console.in_browser.conftest import Visit, apart, expand
from tests.console.test_cli import end, get, start
from tests.patient_client import connect
from tests.proxy import Proxy

pytestmark = pytest.mark.timeout(300)  # of a browser, on however busy a machine

MIB = int(os.environ.get("UPLOAD_MIB", "24"))
MEMORY_MIB_MAX = 300
PATIENCE_S = 60 + MIB / 2


async def make(port: int) -> None:
    """Make a store."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    await client.jetstream().create_object_store("FILES")
    await client.close()


async def until(port: int, is_so: Callable[[int], bool]) -> None:
    """Return once the store holds as many messages as it should."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await client.request("$JS.API.STREAM.INFO.OBJ_FILES")
            if is_so(json.loads(answer.data)["state"]["messages"]):
                break
            await asyncio.sleep(0.05)
    await client.close()


def filled(messages: int) -> bool:
    return messages > 0


def emptied(messages: int) -> bool:
    return messages == 0


def files_in(folder: Path) -> list[Path]:
    """Return what browsers have sent, as far as it has a name."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


def opened(pid: int) -> list[str]:
    """Return what a process has open."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(each.readlink()))
        except FileNotFoundError:
            continue
    return found


def sockets(pid: int) -> int:
    """Return how many sockets a process has."""
    return sum(name.startswith("socket:") for name in opened(pid))


def settle(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    ends_at = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def open_store(page: Page) -> None:
    """Go where files are chosen."""
    page.goto("/stores/FILES")
    expand(page, "Upload")


def send(page: Page, file: Path, between: Proxy) -> None:
    """Choose a file, and return when the server has some of it and is told nothing more."""
    open_store(page)
    between.stall_after(2 << 20)
    page.locator("input[type=file]").set_input_files(file)
    settle(lambda: between.is_stalled)


def test_nothing_is_left_of_them(
    served: Callable[[str], Served], visiting: Callable[[str], Visit], tmp_path: Path
) -> None:
    server = served("genuine")
    apart(make(server.port))
    file, sent = tmp_path / "file", tmp_path / "sent"
    sent.mkdir()
    with file.open("wb") as content:
        content.truncate(MIB << 20)
    between = Proxy(server.port)
    process, address = start(between, "--writable", TMPDIR=str(sent))
    get(address)

    def is_tidy() -> bool:
        nameless = [name for name in opened(process.pid) if name.startswith(f"{sent}/")]
        return not files_in(sent) and not any("(deleted)" in name for name in nameless)

    # The tab is closed while the browser sends it.
    tab = visiting(address).page
    open_store(tab)
    wire = tab.context.new_cdp_session(tab)
    limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": MIB << 17}
    wire.send("Network.emulateNetworkConditions", {"offline": False, **limits})
    tab.locator("input[type=file]").set_input_files(file)
    settle(lambda: not is_tidy())
    assert not files_in(sent)
    tab.close()
    settle(is_tidy)

    # The tab is closed while the console sends it on.
    tab = visiting(address).page
    send(tab, file, between)
    apart(until(server.port, filled))
    before = sockets(process.pid)
    tab.close()
    settle(lambda: sockets(process.pid) < before)
    between.go_on()
    apart(until(server.port, emptied))
    settle(is_tidy)

    # The server is killed.
    tab = visiting(address).page
    send(tab, file, between)
    apart(until(server.port, filled))
    server.kill()
    expect(tab.get_by_text("It was not put.")).to_be_visible()
    server.start()
    between.go_on()
    apart(until(server.port, emptied))
    settle(is_tidy)

    status = Path(f"/proc/{process.pid}/status").read_text()
    most = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
    assert most < MEMORY_MIB_MAX << 10
    tab.close()
    end(process)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_console_that_is_ended_takes_its_folder_with_it(
    genuine_server: Served, tmp_path: Path, kind: signal.Signals
) -> None:
    process, address = start(genuine_server, TMPDIR=str(tmp_path))
    get(address)
    assert [*tmp_path.iterdir()]
    process.send_signal(kind)
    _, said = process.communicate(timeout=30)
    assert "Traceback" not in said
    assert not [*tmp_path.iterdir()]
