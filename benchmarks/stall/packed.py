"""What leaves by WebSocket is packed, and takes long where nothing about it repeats."""

from __future__ import annotations

import contextlib
import random
import time

from benchmarks.stall.crowds import reading, say, say_together
from benchmarks.stall.inputs import TIMEOUT_S, Input, ask, consumer, publish, stream
from benchmarks.stall.wrapped import BY_WEBSOCKET, websockets
from benchmarks.wire import Wire

_PULLING, _PULLED = 40, 60  # clients, and messages for each
_PULLS_S = 8.0
_HEARING = 30


def _store(port: int) -> None:
    """Make stream S with messages of 500 KB at random, and a consumer for each client."""
    publish(1, _PULLED, random.Random(1).randbytes(500_000))(port)
    names = (f"c{number}" for number in range(_PULLING))
    ask(port, *(consumer(name, ack_policy="none", mem_storage=True) for name in names))


def _pull_while_flushed(port: int) -> None:
    """Pull all of it, while large messages are stored in another stream."""
    subscriptions = [b"SUB in%d 1\r\n" % number for number in range(_PULLING)]
    pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c%d in%d 2\r\n%d\r\n"
    with contextlib.ExitStack() as stack:
        stack.enter_context(reading(websockets(subscriptions, stack)))
        wire = stack.enter_context(Wire(port, TIMEOUT_S))
        wire.subscribe_inbox()
        wire.api(*stream("F", max_bytes=200 << 20))
        wire.sock.sendall(b"".join(pull % (n, n, _PULLED) for n in range(_PULLING)))
        until_s = time.monotonic() + _PULLS_S
        while time.monotonic() < until_s:
            wire.sock.sendall(b"PUB F.x 900000\r\n%b\r\n" % bytes(900_000))
            wire.ping()


def _hear(port: int) -> None:
    """Publish four messages of 1 MB for each client."""
    payload = random.Random(1).randbytes(1_000_000)
    message = b"PUB in%d 1000000\r\n%b\r\n"
    with contextlib.ExitStack() as stack:
        subscriptions = [b"SUB in%d 1\r\n" % number for number in range(_HEARING)]
        stack.enter_context(reading(websockets(subscriptions, stack)))
        say_together(port, [message % (number, payload) * 4 for number in range(_HEARING)])
        time.sleep(1)


def _hear_the_same(port: int) -> None:
    """Publish 60 messages of 200 KB that each of 9 clients hears."""
    message = b"PUB in 200000\r\n%b\r\n" % random.Random(1).randbytes(200_000)
    with contextlib.ExitStack() as stack:
        stack.enter_context(reading(websockets([b"SUB in 1\r\n"] * 9, stack)))
        say(port, [message] * 60)
        time.sleep(1)


PACKED = [
    Input(
        "40 clients of WebSocket pull 30 MB each, while others store",
        _pull_while_flushed,
        _store,
        config=BY_WEBSOCKET,
    ),
    Input("30 clients of WebSocket hear 4 MB each", _hear, config=BY_WEBSOCKET),
    Input("9 clients of WebSocket hear the same 12 MB", _hear_the_same, config=BY_WEBSOCKET),
]
