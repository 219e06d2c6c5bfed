"""Clients that do not read what they are sent, until they end, or are ended."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.stall import surroundings
from benchmarks.stall.inputs import HTTP_PORT, TIMEOUT_S, USER, Act, Input, reload
from benchmarks.stall.wrapped import binary_frame, websockets
from benchmarks.wire import Wire

_FEW, _MANY = 20, 60  # clients
_LARGE = 40  # messages of 1 MB
_SMALL = 30_000  # messages, each in a turn of its own
_LEFT_S = 11.0  # after which what a closed client has not taken is given up (`write_deadline`)


Listening = Callable[[int, int, contextlib.ExitStack], list[socket.socket]]


def _unread(
    listen: Listening,
    clients: int,
    messages: int,
    size: int,
    end: Callable[[int, list[socket.socket]], None],
) -> Act:
    """Publish messages to clients that do not read, and have these end together."""

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            those = listen(port, clients, stack)
            publisher = stack.enter_context(Wire(port, TIMEOUT_S, USER))
            payload = random.Random(1).randbytes(size)
            for _ in range(messages):
                publisher.sock.sendall(b"PUB unread %d\r\n%b\r\n" % (size, payload))
                publisher.ping()
            time.sleep(1)
            end(port, those)
            time.sleep(_LEFT_S)

    return act


def _listen(port: int, clients: int, stack: contextlib.ExitStack) -> list[socket.socket]:
    wires = [stack.enter_context(Wire(port, TIMEOUT_S)) for _ in range(clients)]
    return _subscribed(wires)


def _listen_as_users(port: int, clients: int, stack: contextlib.ExitStack) -> list[socket.socket]:
    users = ({"user": f"u{number}", "pass": "s3cret"} for number in range(clients))
    return _subscribed([stack.enter_context(Wire(port, TIMEOUT_S, user)) for user in users])


def _subscribed(wires: list[Wire]) -> list[socket.socket]:
    for wire in wires:
        wire.subscribe(b"unread", 1)
        wire.ping()
    return [wire.sock for wire in wires]


def _listen_by_websocket(
    port: int, clients: int, stack: contextlib.ExitStack
) -> list[socket.socket]:
    return websockets([b"SUB unread 1\r\n"] * clients, stack)


def _say_a_wrong_word(port: int, those: list[socket.socket]) -> None:
    for sock in those:
        sock.sendall(b"WRONG\r\n")


def _frame_a_wrong_word(port: int, those: list[socket.socket]) -> None:
    for sock in those:
        sock.sendall(binary_frame(b"WRONG\r\n"))


def _go(port: int, those: list[socket.socket]) -> None:
    for sock in those:
        sock.close()


class _Removal:
    """Users in a file of their own, whom a reload finds removed."""

    def __init__(self, users: int) -> None:
        self._users = users
        self._file = Path()

    def config(self, folder: Path) -> str:
        """Write the file; return what includes it."""
        self._file = folder / "users.conf"
        self._write(self._users)
        return surroundings.users_of_file(self._file)

    def _write(self, users: int) -> None:
        self._file.write_text(surroundings.users(f"u{number}" for number in range(users)))

    def reload(self, port: int, those: list[socket.socket]) -> None:
        """Have the server find the file without them."""
        self._write(0)
        reload(port)


_REMOVAL = _Removal(_MANY)

UNREAD = [
    Input(
        "60 clients with 40 MB each to read end by a wrong word",
        _unread(_listen, _MANY, _LARGE, 1_000_000, _say_a_wrong_word),
    ),
    Input(
        "60 clients with 40 MB each to read are gone",
        _unread(_listen, _MANY, _LARGE, 1_000_000, _go),
    ),
    Input(
        "20 clients with 30,000 small messages each to read are gone",
        _unread(_listen, _FEW, _SMALL, 100, _go),
    ),
    Input(
        "60 clients of WebSocket with 40 MB each to read end by a wrong word",
        _unread(_listen_by_websocket, _MANY, _LARGE, 1_000_000, _frame_a_wrong_word),
        config=f"websocket {{ port: {HTTP_PORT}, no_tls: true }}\n",
    ),
    Input(
        "60 users with 40 MB each to read are removed by a reload",
        _unread(_listen_as_users, _MANY, _LARGE, 1_000_000, _REMOVAL.reload),
        config=_REMOVAL.config,
        credentials=tuple(USER.items()),
    ),
]
