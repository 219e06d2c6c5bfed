"""One connection to a NATS server: the handshake and the JSON API, blocking and unhurried.

What is measured does not go through here: loads take over the socket (`sock`) once all is set up.
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

TIMEOUT_S = 30.0
STREAM = "BENCH"
INBOX_SID = 1
# The genuine server deletes files in the background, and cannot make the store of a stream of the
# same name while it does.
_STORE_NOT_MADE = "'err_code': 10049"
_STORE_MADE_WITHIN_S = 10.0
NOBODY: Mapping[str, str] = MappingProxyType({})
_SOCKET_BUFFER = 4 << 20
CONNECT: Mapping[str, object] = MappingProxyType(
    {
        "verbose": False,
        "pedantic": False,
        "headers": True,
        "no_responders": True,
        "lang": "benchmarks",
        "version": "1",
        "protocol": 1,
    }
)


class LoadError(Exception):
    """The server did not do what a load asks of it; the text says what it did instead."""


class Wire:
    """A connected socket with an inbox (`sid` 1).

    Args:
        port: of the server, on this machine.
        timeout_s: of every call.
        credentials: what CONNECT says besides.

    Raises:
        LoadError: the server does not let it in.
    """

    def __init__(
        self, port: int, timeout_s: float = TIMEOUT_S, credentials: Mapping[str, str] = NOBODY
    ) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
        self.inbox = b"_INBOX." + secrets.token_hex(8).encode()
        self._received = bytearray()
        self._requests = 0
        self._take_until(b"\r\n")
        connect = json.dumps({**CONNECT, **credentials}).encode()
        self.sock.sendall(b"CONNECT %b\r\nPING\r\n" % connect)
        self._take_until(b"PONG\r\n")

    def subscribe_inbox(self) -> None:
        """Receive what is sent to one token under the inbox."""
        self.sock.sendall(b"SUB %s.* %d\r\n" % (self.inbox, INBOX_SID))

    def subscribe(self, subject: bytes, sid: int) -> None:
        self.sock.sendall(b"SUB %s %d\r\n" % (subject, sid))

    def ping(self) -> None:
        """Wait until the server has seen everything sent so far."""
        self.sock.sendall(b"PING\r\n")
        self._take_until(b"PONG\r\n")

    def api(self, verb: str, body: object = None) -> dict[str, Any]:
        """Ask the JetStream API, e.g. `STREAM.INFO.BENCH`; the inbox must be subscribed.

        Raises:
            LoadError: it answers with an error, or has no JetStream.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        return self.request(f"$JS.API.{verb}", payload)

    def request(self, subject: str, payload: bytes) -> dict[str, Any]:
        """Send a message and wait for the JSON that answers it; the inbox must be subscribed.

        Raises:
            LoadError: the answer is an error, or nobody is there.
        """
        self._requests += 1
        reply = b"%s.api%d" % (self.inbox, self._requests)
        head = b"PUB %s %s %d" % (subject.encode(), reply, len(payload))
        self.sock.sendall(b"%s\r\n%s\r\n" % (head, payload))
        line = self._take_until(b"\r\n")
        while not line.startswith((b"MSG", b"HMSG")):
            if line.startswith(b"-ERR"):
                raise LoadError(f"{subject}: {line!r}")
            if line == b"PING\r\n":
                self.sock.sendall(b"PONG\r\n")
            line = self._take_until(b"\r\n")
        text = self._take(int(line.split()[-1]) + 2)
        if line.startswith(b"HMSG"):
            raise LoadError(f"{subject}: {text!r}")
        answer: dict[str, Any] = json.loads(text)
        if "error" in answer:
            raise LoadError(f"{subject}: {answer['error']}")
        return answer

    def next_message(self) -> tuple[bytes, bytes, bytes]:
        """Wait for a message; return its subject, its reply and its payload without headers."""
        while True:
            verb, *words = self._take_until(b"\r\n").split()
            if verb == b"PING":
                self.sock.sendall(b"PONG\r\n")
            elif verb == b"-ERR":
                raise LoadError(b" ".join(words).decode())
            elif verb in (b"MSG", b"HMSG"):
                numbers = 2 if verb == b"HMSG" else 1
                body = self._take(int(words[-1]) + 2)[:-2]
                reply = words[2] if len(words) == 3 + numbers else b""
                return words[0], reply, body[int(words[-2]) :] if numbers == 2 else body

    def create_stream(self, **settings: object) -> None:
        """Create the stream of all loads, on file, collecting `BENCH.>` unless told otherwise."""
        body = {"name": STREAM, "subjects": [f"{STREAM}.>"], "storage": "file", **settings}
        until_s = time.monotonic() + _STORE_MADE_WITHIN_S
        while True:
            try:
                self.api(f"STREAM.CREATE.{STREAM}", body)
                break
            except LoadError as error:
                if _STORE_NOT_MADE not in str(error) or time.monotonic() > until_s:
                    raise
                time.sleep(0.05)
        # It has been seen to find messages of the one before as well.
        if self.message_count():
            self.api(f"STREAM.PURGE.{STREAM}")

    def delete_stream(self) -> None:
        self.api(f"STREAM.DELETE.{STREAM}")

    def message_count(self) -> int:
        count: int = self.api(f"STREAM.INFO.{STREAM}")["state"]["messages"]
        return count

    def create_consumer(self, name: str, **settings: object) -> None:
        body = {"stream_name": STREAM, "config": {"durable_name": name, **settings}}
        self.api(f"CONSUMER.CREATE.{STREAM}.{name}", body)

    def delete_consumer(self, name: str) -> None:
        self.api(f"CONSUMER.DELETE.{STREAM}.{name}")

    def _take_until(self, end: bytes) -> bytes:
        while (found := self._received.find(end)) < 0:
            self._receive()
        return self._take(found + len(end))

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            self._receive()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _receive(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise LoadError("the server closed the connection")
        self._received += data

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
