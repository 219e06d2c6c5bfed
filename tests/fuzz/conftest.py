"""A server process under bad input, and a census of what it holds.

Every random choice comes from a seed that is part of the test's name; `FUZZ_ROUNDS` (1) says how
many times as much is tried, and `FUZZ_SEED` (0) where to begin. `make fuzz` is the long run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import nursery
from tests.ports import free_port

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
ANSWER_SECONDS = 60.0
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'


@dataclass(frozen=True)
class Census:
    """What a server holds that clients made."""

    connections: int
    subscriptions: int
    streams: int
    consumers: int


class FuzzedServer:
    """A server process with monitoring, its log, and maybe few file descriptors."""

    def __init__(self, folder: Path, *arguments: str, descriptors: int = 0) -> None:
        self.log = folder / "log"
        command = [*nursery.BUNDLED, "-a", "127.0.0.1", "-p", str(free_port())]
        command += ["-m", "-1", "-js", "-sd", str(folder / "store"), *arguments]
        self._file = self.log.open("w")
        if descriptors:
            command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
        self.process = nursery.start(command, self._file)
        deadline = time.monotonic() + ANSWER_SECONDS
        while "Server is ready" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.02)
        said = self.log.read_text()
        self.port = int(re.search(r"client connections on .*:(\d+)", said)[1])
        self.monitor = int(re.search(r"http monitor on .*:(\d+)", said)[1])

    def view(self, path: str) -> dict:
        """Return what monitoring says; also the proof that the server is not hung."""
        address = f"http://127.0.0.1:{self.monitor}{path}"
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:
            return json.loads(answer.read())

    def census(self) -> Census:
        jetstream = self.view("/jsz")
        return Census(
            self.view("/connz")["total"],
            self.view("/subsz")["num_subscriptions"],
            jetstream["streams"],
            jetstream["consumers"],
        )

    def settled(self, wanted: Census) -> Census:
        """Return the census once it is as wanted, or as it still is after a while."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (found := self.census()) != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def complaints(self) -> list[str]:
        """Return the lines of the log that no client's input may cause."""
        marks = ("Traceback", "FTL", "internal error", "Error:", "Exception", "  File ")
        return [line for line in self.log.read_text().splitlines() if any(m in line for m in marks)]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -1
        finally:
            self._file.close()


class Peer:
    """A raw connection that can say anything."""

    def __init__(self, port: int, greeting: bytes = CONNECT, inbox: bytes = b"_INBOX.fuzz") -> None:
        self.inbox = inbox
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        # Of writes in a row, each one would wait for the ACK of the one before.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.buffer = b""
        self.line()
        if greeting:
            self.say(greeting)

    def say(self, data: bytes) -> bool:
        """Send bytes; False when the server has hung up."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError):
            return False
        return True

    def _more(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def subscribe_answers(self) -> None:
        """Take every answer under one inbox."""
        self.say(b"SUB %b.* 1\r\nPING\r\n" % self.inbox)
        while self.line() != b"PONG":
            pass

    def messages(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield (subject, headers, payload) of all answers to what was asked so far.

        Answers wait for the disk and keep their order, so one more request marks the end.
        """
        self.say(b"PUB $JS.API.INFO %b.mark 0\r\n\r\n" % self.inbox)
        while True:
            line = self.line()
            words = line.split(b" ")
            if words[0] not in (b"MSG", b"HMSG"):
                assert words[0] in (b"-ERR", b"PING", b"PONG", b"INFO", b"+OK"), line[:200]
                continue
            size, head = int(words[-1]), int(words[-2]) if words[0] == b"HMSG" else 0
            while len(self.buffer) < size + 2:
                self._more()
            data, self.buffer = self.buffer[:size], self.buffer[size + 2 :]
            if words[1] == self.inbox + b".mark":
                return
            yield words[1], data[:head], data[head:]

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(scope="session")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedServer]:
    """One server for all of it: what one test leaves behind, the next one meets."""
    server = FuzzedServer(tmp_path_factory.mktemp("fuzz"))
    yield server
    code = server.end()
    assert server.complaints() == []
    assert code == 0


@pytest.fixture
def unharmed(fuzzed: FuzzedServer) -> Iterator[FuzzedServer]:
    """The server, which afterwards must serve, hold what it held, and have nothing to report."""
    before = fuzzed.census()
    yield fuzzed
    assert fuzzed.process.poll() is None, fuzzed.log.read_text()[-3000:]
    assert fuzzed.complaints() == []
    assert fuzzed.settled(before) == before


@pytest.fixture(scope="session")
def start_fuzzed() -> type[FuzzedServer]:
    """Return what starts servers of one's own."""
    return FuzzedServer


@pytest.fixture
def connect() -> type[Peer]:
    """Return what opens raw connections."""
    return Peer


@pytest.fixture(scope="session")
def rounds() -> int:
    """Return how many times as much as usual is tried."""
    return ROUNDS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests that ask for a seed two of them a round."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(SEED, SEED + 2 * ROUNDS))
