"""Clients that do not read what they are sent, until they end, or are ended."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable

from benchmarks.stall.inputs import TIMEOUT_S, Act, Input
from benchmarks.wire import Wire

_FEW, _MANY = 20, 60  # clients
_LARGE = 40  # messages of 1 MB
_SMALL = 30_000  # messages, each in a turn of its own
_LEFT_S = 11.0  # after which what a closed client has not taken is given up (`write_deadline`)


def _unread(clients: int, messages: int, size: int, end: Callable[[Wire], None]) -> Act:
    """Publish messages to clients that do not read, and have these end together."""

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(port, TIMEOUT_S)) for _ in range(clients)]
            for wire in wires:
                wire.subscribe(b"unread", 1)
                wire.ping()
            publisher = stack.enter_context(Wire(port, TIMEOUT_S))
            payload = random.Random(1).randbytes(size)
            for _ in range(messages):
                publisher.sock.sendall(b"PUB unread %d\r\n%b\r\n" % (size, payload))
                publisher.ping()
            time.sleep(1)
            for wire in wires:
                end(wire)
            time.sleep(_LEFT_S)

    return act


def _say_a_wrong_word(wire: Wire) -> None:
    wire.sock.sendall(b"WRONG\r\n")


def _go(wire: Wire) -> None:
    wire.sock.close()


UNREAD = [
    Input(
        "60 clients with 40 MB each to read end by a wrong word",
        _unread(_MANY, _LARGE, 1_000_000, _say_a_wrong_word),
    ),
    Input(
        "60 clients with 40 MB each to read are gone",
        _unread(_MANY, _LARGE, 1_000_000, _go),
    ),
    Input(
        "20 clients with 30,000 small messages each to read are gone",
        _unread(_FEW, _SMALL, 100, _go),
    ),
]
