"""Very many consumers of one stream that push: made, served, heard of often, and gone with it."""

from __future__ import annotations

import json
import time

from benchmarks.stall.crowds import readers, say
from benchmarks.stall.inputs import TIMEOUT_S, Act, Input, ask, stream
from benchmarks.wire import Wire

_CONSUMERS = 10_000
_AT_ONCE = 500
_HEARTBEAT_NS = 100_000_000
_EACH = b"".join(b"SUB d.%d %d\r\n" % (number, number + 10) for number in range(_CONSUMERS))
_ALL = b"SUB d.* 7\r\n"


def _make_stream(port: int) -> None:
    ask(port, stream(storage="memory", max_consumers=2 * _CONSUMERS))


def _make(count: int, **config: object) -> Act:
    """Make so many consumers, some with each write."""

    def act(port: int) -> None:
        for begin in range(0, count, _AT_ONCE):
            say(port, [_request(number, config) for number in range(begin, begin + _AT_ONCE)])
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            while wire.api("STREAM.INFO.S", {})["state"]["consumer_count"] < count:
                time.sleep(0.1)

    return act


def _request(number: int, config: dict[str, object]) -> bytes:
    name = f"c{number}"
    settings = {"name": name, "durable_name": name, "ack_policy": "none", "mem_storage": True}
    settings |= {"deliver_subject": f"d.{number}", **config}
    text = json.dumps({"stream_name": "S", "config": settings}).encode()
    return b"PUB $JS.API.CONSUMER.CREATE.S.%b r %d\r\n%b\r\n" % (name.encode(), len(text), text)


def _made(count: int = _CONSUMERS, **config: object) -> Act:
    make = _make(count, **config)
    return lambda port: (_make_stream(port), make(port))[0]


def _heard(heard: bytes, messages: int, seconds: float) -> Act:
    """Listen, publish so many messages in one write, and wait."""

    def act(port: int) -> None:
        with readers(port, heard):
            say(port, [b"PUB S.x 1\r\nx\r\n"] * messages)
            time.sleep(seconds)

    return act


def _make_heard(port: int) -> None:
    with readers(port, _EACH):
        _make(_CONSUMERS)(port)


def _delete_stream(port: int) -> None:
    with readers(port, _EACH):
        ask(port, ("STREAM.DELETE.S", None))


PUSH_CONSUMERS = [
    Input("10,000 push consumers made, with a subscriber each", _make_heard, _make_stream),
    Input(
        "a message for 10,000 push consumers and a subscriber each", _heard(_EACH, 1, 2), _made()
    ),
    Input("a message for 10,000 push consumers and one subscriber", _heard(_ALL, 1, 2), _made()),
    Input(
        "1,000 messages for 500 push consumers and one subscriber",
        _heard(_ALL, 1000, 2),
        _made(500),
    ),
    Input(
        "heartbeats of 10,000 push consumers each tenth of a second, for 3 s",
        _heard(_EACH, 0, 3),
        _made(idle_heartbeat=_HEARTBEAT_NS),
    ),
    Input("a stream with 10,000 push consumers deleted", _delete_stream, _made()),
]
