"""A raw client for crash tests, and the number of rounds."""

from __future__ import annotations

import os
import re
import socket
import threading

import pytest

_ACK = re.compile(rb'MSG _INBOX\.p\.(\d+) 1 \d+\r\n\{"stream":"S","seq":(\d+)\}\r\n')


class Raw:
    """A connection that asks and answers in bytes."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("nats://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.buffer = b""
        self.until(b"\r\n")
        self.write(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
            b"SUB _INBOX.r.* 9\r\nPING\r\n"
        )
        self.until(b"PONG\r\n")
        self._asked = 0

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def until(self, mark: bytes) -> bytes:
        """Read up to and with a mark."""
        while mark not in self.buffer:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError
            self.buffer += data
        head, _, self.buffer = self.buffer.partition(mark)
        return head + mark

    def request(self, subject: str, body: str = "") -> bytes:
        """Return the answer's payload; empty for a bare status."""
        self._asked += 1
        reply = f"_INBOX.r.{self._asked}"
        self.write(f"PUB {subject} {reply} {len(body)}\r\n{body}\r\n".encode())
        while True:
            line = self.until(b"\r\n").split()
            if line and line[0] in (b"MSG", b"HMSG"):
                size = int(line[-1])
                while len(self.buffer) < size + 2:
                    self.buffer += self.socket.recv(1 << 18)
                payload, self.buffer = self.buffer[:size], self.buffer[size + 2 :]
                if line[1].decode() == reply:
                    return payload[int(line[-2]) :] if line[0] == b"HMSG" else payload

    def close(self) -> None:
        self.socket.close()


class Publisher(threading.Thread):
    """Publishes numbered messages with a window until the server is gone.

    Attributes:
        acked: message number to the sequence its ack named.
    """

    def __init__(self, url: str, first: int, window: int) -> None:
        super().__init__(daemon=True)
        self.raw = Raw(url)
        self.raw.write(b"SUB _INBOX.p.* 1\r\n")
        self.acked: dict[int, int] = {}
        self.first = first
        self.sent = first
        self.window = window

    def run(self) -> None:
        try:
            while True:
                while self.sent - self.first - len(self.acked) < self.window:
                    self._send(min(self.window, 100))
                self._read()
        except OSError:
            pass

    def _send(self, count: int) -> None:
        frames = []
        for number in range(self.sent, self.sent + count):
            payload = b"%d:" % number + b"x" * (number % 300)
            frames.append(
                b"PUB s.%d _INBOX.p.%d %d\r\n%b\r\n" % (number % 7, number, len(payload), payload)
            )
        self.sent += count
        self.raw.write(b"".join(frames))

    def _read(self) -> None:
        data = self.raw.socket.recv(1 << 18)
        if not data:
            raise ConnectionError
        self.raw.buffer += data
        end = 0
        for found in _ACK.finditer(self.raw.buffer):
            self.acked[int(found[1])] = int(found[2])
            end = found.end()
        self.raw.buffer = self.raw.buffer[end:]


@pytest.fixture
def connect() -> type[Raw]:
    """Return what opens raw connections."""
    return Raw


@pytest.fixture
def publisher() -> type[Publisher]:
    """Return the maker of publishers."""
    return Publisher


@pytest.fixture(scope="session")
def crash_rounds() -> int:
    """Return how often to crash: a few times in the suite, many in a soak."""
    return int(os.environ.get("CRASH_ROUNDS", "3"))
