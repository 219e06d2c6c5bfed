"""A raw client connection: what goes over the socket, and nothing a client library would add."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

REPLY_SECONDS = 4.0
# What a busy machine may need, and an idle one never takes.
PATIENCE_SECONDS = 30.0
LATE_SECONDS = 0.05
CONNECT = (
    b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"name":"parity","lang":"raw","version":"1"}'
)


@dataclass
class Message:
    """One MSG or HMSG as read."""

    subject: str
    sid: str
    reply: str
    headers: bytes
    payload: bytes


class Wire:
    """A connection and its subscriptions.

    `taken` keeps every message that ever came; `inbox` those not yet read, by subscription.
    """

    def __init__(self, port: int, connect: bytes = CONNECT) -> None:
        self.connect = connect
        self.inbox: dict[str, list[Message]] = {}
        self.taken: list[Message] = []
        self.sid = 0
        self._subscriptions: dict[str, str] = {}
        self._open(port)

    def _open(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        # Of writes in a row, each one would wait for the ACK of the one before.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.buffer = b""
        self._awaited = 0  # PONGs
        self.info = self.line(PATIENCE_SECONDS).removeprefix(b"INFO ")
        if self.connect:
            self.write(b"CONNECT " + self.connect + b"\r\nPING\r\n")
            while self.line(PATIENCE_SECONDS) != b"PONG":
                pass

    def reopen(self, port: int) -> None:
        """Connect again and subscribe to the same, as client libraries do."""
        self.close()
        self._open(port)
        for line in self._subscriptions.values():
            self.write(line.encode())
        if self.connect:
            self.settle()  # another connection may count on the subscriptions

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _more(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.socket.settimeout(left)
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def line(self, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while b"\r\n" not in self.buffer:
            self._more(deadline)
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        if line == b"PONG" and self._awaited:
            self._awaited -= 1
        return line

    def subscribe(self, subject: str, queue: str = "") -> str:
        self.sid += 1
        sid = str(self.sid)
        self.inbox[sid] = []
        self._subscriptions[sid] = f"SUB {subject} {queue + ' ' if queue else ''}{sid}\r\n"
        self.write(self._subscriptions[sid].encode())
        return sid

    def unsubscribe(self, sid: str) -> None:
        self._subscriptions.pop(sid, None)
        self.write(f"UNSUB {sid}\r\n".encode())

    def publish(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> None:
        reply = reply + " " if reply else ""
        if headers:
            sizes = f"{len(headers)} {len(headers) + len(payload)}"
            head = f"HPUB {subject} {reply}{sizes}\r\n".encode() + headers
        else:
            head = f"PUB {subject} {reply}{len(payload)}\r\n".encode()
        self.write(head + payload + b"\r\n")

    def message(self, sid: str, seconds: float) -> Message | None:
        """Return the next message of a subscription, None when none comes in time."""
        deadline = time.monotonic() + seconds
        while not self.inbox[sid]:
            try:
                self._read_line(deadline)
            except TimeoutError:
                return None
        return self.inbox[sid].pop(0)

    def silence(self, sid: str, seconds: float) -> Message | None:
        """Return the next message of a subscription, None when none comes in that time.

        A silence counts only from an answer on: what a busy server is late with comes before it.
        """
        message = self.message(sid, seconds)
        for _ in range(2 if self.connect else 0):
            if message is None:
                self.settle()
                message = self.message(sid, LATE_SECONDS)
        return message

    def ping(self) -> None:
        """Have the server answer what it has seen by then, without waiting for it."""
        self._awaited += 1
        self.write(b"PING\r\n")

    def settle(self) -> None:
        """Wait until the server has seen what was written, and take what it had sent by then."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        self.ping()
        while self._awaited:
            self._read_line(deadline)

    def ending(self, seconds: float) -> list[str]:
        """Read until the server closes; return what it said besides messages."""
        deadline = time.monotonic() + seconds
        lines = []
        try:
            while True:
                line = self._read_line(deadline)
                if not line.startswith(("MSG ", "HMSG ", "PING", "PONG")):
                    lines.append(line)
        except ConnectionError:
            return [*lines, "the server closed the connection"]
        except TimeoutError:
            return [*lines, "silence"]

    def _read_line(self, deadline: float) -> str:
        line = self.line(max(0.0, deadline - time.monotonic())).decode("latin-1")
        verb, *words = line.split(" ")
        if verb in ("MSG", "HMSG"):
            self._take(verb, words, deadline)
        elif verb == "PING":
            self.write(b"PONG\r\n")
        return line

    def _take(self, verb: str, words: list[str], deadline: float) -> None:
        total = int(words[-1])
        head = int(words[-2]) if verb == "HMSG" else 0
        names = words[: -2 if verb == "HMSG" else -1]
        while len(self.buffer) < total + 2:
            self._more(deadline + 1)
        data, self.buffer = self.buffer[:total], self.buffer[total + 2 :]
        reply = names[2] if len(names) == 3 else ""
        message = Message(names[0], names[1], reply, data[:head], data[head:])
        self.taken.append(message)
        self.inbox.setdefault(names[1], []).append(message)

    def close(self) -> None:
        self.socket.close()
