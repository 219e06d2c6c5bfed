"""`jetstream-spark copy` from one server to another: copiers and servers are killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetstream_spark.embedded import JetStreamServer
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
ROWS = 1_000
# Rows wait for each other, so that there is time to kill somebody.
SLOW = "maxInFlight=10"
OUTAGE_S = 0.5


class Bundled:
    """The bundled server, which can be killed and comes back with what it had."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = JetStreamServer(folder, free_port()).start()
        self.url = self._server.url

    def kill(self) -> None:
        assert self._server.pid is not None
        os.kill(self._server.pid, signal.SIGKILL)
        self._server.stop()

    def start(self) -> None:
        port = int(self.url.rpartition(":")[2])
        self._server = JetStreamServer(self._folder, port).start()

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def bundled(tmp_path: Path) -> Iterator[Bundled]:
    server = Bundled(tmp_path / "bundled")
    yield server
    server.stop()


class Copier:
    """The command, as a process of its own."""

    def __init__(self, source: Any, target: Any, *words: str) -> None:
        command = [sys.executable, "-m", "jetstream_spark.command", "copy"]
        command += [f"stream:{source.name}", f"stream:{target.name}", "--chunk", "150"]
        command += [f"--from=servers={source.url}", f"--to=servers={target.url}", f"--to={SLOW}"]
        command += ["--rename", f"{source.subject}={target.subject}", "--json", *words]
        self._target = target
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def await_rows(self, count: int) -> None:
        """Return when so many rows have arrived, and more are on their way."""
        while self._target.count < count:
            assert self._process.poll() is None, self._process.communicate()
            time.sleep(0.01)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> str:
        """Wait for it; return what it printed."""
        out, errors = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, errors[-2000:]
        return out


def contents(stream: Any) -> list[tuple[str, tuple[bytes, ...], bytes]]:
    """All messages, without the ids of writes, and with subjects that can be compared."""
    return [
        (
            subject.removeprefix(stream.subject),
            tuple(line for line in block.split(b"\r\n") if line.startswith(b"a:")),
            data,
        )
        for subject, block, data in stream.messages()
    ]


@pytest.mark.parametrize("target_kind", ["bundled", "genuine"])
def test_a_copy_between_servers_is_exact_whoever_is_killed(
    bundled: Bundled,
    start_genuine: Callable[..., Any],
    make_stream: Callable[..., Any],
    target_kind: str,
) -> None:
    genuine = start_genuine()
    servers = {"bundled": bundled, "genuine": genuine}
    there = servers.pop(target_kind)
    [here] = servers.values()
    source, target = make_stream(here.url), make_stream(there.url)
    for number in range(ROWS):
        headers = b"NATS/1.0\r\na: %d\r\na: \xc3\xa9\r\nNats-Msg-Id: %d\r\n\r\n" % (number, number)
        frame = f"{source.subject}.{number % 7}", b"%d \xff\x00\r\n" % number, headers
        source.control.request_message(*frame)
    copier = Copier(source, target)
    for share, victim in ((0.2, there), (0.4, here)):
        copier.await_rows(int(ROWS * share))
        victim.kill()
        time.sleep(OUTAGE_S)  # what the copier does meanwhile is to wait
        victim.start()
    copier.await_rows(int(ROWS * 0.6))
    copier.kill()
    assert f'"rows": {ROWS}' in Copier(source, target).end()
    assert sorted(contents(target)) == sorted(contents(source))
    assert target.control.stream_state(target.name).next == ROWS + 1
