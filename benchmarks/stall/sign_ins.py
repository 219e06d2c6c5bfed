"""Clients that come by the clock: each connects, is told INFO, says CONNECT and PING, hears PONG.

None waits for the one before, and a wait is counted from when the client should have come: a server
that takes nobody in for a second has kept waiting all who came in that second.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.wire import CONNECT, LoadError

_PERIOD_NS = 5_000_000
_OPEN_MAX = 20_000


@dataclass(slots=True)
class _Client:
    sock: socket.socket
    due_ns: int
    heard: bytes = b""
    has_spoken: bool = False


class SignIns:
    """One stretch of signing in.

    Args:
        port: of the server.
        credentials: what CONNECT says besides.
        answer_s: within which the last client is let in.
    """

    def __init__(self, port: int, credentials: Mapping[str, str], answer_s: float) -> None:
        self._port = port
        self._greeting = b"CONNECT %b\r\nPING\r\n" % json.dumps({**CONNECT, **credentials}).encode()
        self._answer_s = answer_s
        self._selector = selectors.DefaultSelector()
        self._waits_ns: list[int] = []

    def run(self, is_over: Callable[[], bool]) -> list[int]:
        """Let clients come until it is over; return how long each waited, in nanoseconds.

        Raises:
            LoadError: one is not let in.
        """
        begun_ns, come, last_ns = time.monotonic_ns(), 0, 0
        with self._selector:
            while True:
                now_ns = time.monotonic_ns()
                if not last_ns and is_over():
                    last_ns = now_ns
                while not last_ns and begun_ns + come * _PERIOD_NS <= now_ns:
                    self._come(begun_ns + come * _PERIOD_NS)
                    come += 1
                if last_ns and come == len(self._waits_ns):
                    return self._waits_ns
                if last_ns and now_ns > last_ns + int(self._answer_s * 1e9):
                    raise LoadError("a client was not let in")
                next_ns = begun_ns + come * _PERIOD_NS
                for key, _ in self._selector.select(max(0.0, (next_ns - now_ns) / 1e9)):
                    self._read(key.data)

    def _come(self, due_ns: int) -> None:
        if len(self._selector.get_map()) > _OPEN_MAX:
            raise LoadError("too many clients wait to be let in")
        sock = socket.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", self._port))
        self._selector.register(sock, selectors.EVENT_READ, _Client(sock, due_ns))

    def _read(self, client: _Client) -> None:
        data = client.sock.recv(65536)
        if not data:
            raise LoadError("the server closed the connection")
        client.heard += data
        if not client.has_spoken and b"\r\n" in client.heard:
            client.sock.sendall(self._greeting)
            client.has_spoken = True
        if b"\r\n-ERR" in client.heard:
            raise LoadError(client.heard.rpartition(b"-ERR")[2].decode(errors="replace"))
        if b"\r\nPONG\r\n" in client.heard:
            self._waits_ns.append(time.monotonic_ns() - client.due_ns)
            self._selector.unregister(client.sock)
            client.sock.close()
