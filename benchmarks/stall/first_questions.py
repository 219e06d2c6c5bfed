"""A million subjects, and the first one who asks about all of them."""

from __future__ import annotations

import random
import time

from benchmarks.stall.crowds import say
from benchmarks.stall.inputs import TIMEOUT_S, Act, Input, ask, consumer, publish
from benchmarks.wire import Wire

_MILLION = 1_000_000
_AT_ONCE = 5000
_SEED = 7
_IN_MEMORY: dict[str, object] = {"storage": "memory"}
_FRESH = publish(_MILLION, _MILLION)
_FRESH_IN_MEMORY = publish(_MILLION, _MILLION, **_IN_MEMORY)


def _last_of_each(port: int) -> None:
    """Make a consumer of the last message of each subject, to which nobody listens."""
    config = {"deliver_subject": "d", "deliver_policy": "last_per_subject", "ack_policy": "none"}
    ask(port, consumer("c", filter_subject="S.>", mem_storage=True, **config))


def _in_any_order(**settings: object) -> Act:
    """Make a stream with two messages of each subject, the later ones in any order."""

    def prepare(port: int) -> None:
        publish(_MILLION, _MILLION, **settings)(port)
        numbers = list(range(_MILLION))
        random.Random(_SEED).shuffle(numbers)
        for begin in range(0, _MILLION, _AT_ONCE):
            say(port, [b"PUB S.%d.x 0\r\n\r\n" % n for n in numbers[begin : begin + _AT_ONCE]])

    return prepare


def _changed(port: int) -> None:
    """Make a stream in memory of which somebody has asked, and then change all its subjects."""
    _FRESH_IN_MEMORY(port)
    _newest(port)
    for begin in range(0, _MILLION, _AT_ONCE):
        say(port, [b"PUB S.%d.x 0\r\n\r\n" % n for n in range(begin, begin + _AT_ONCE)])
    ask(port, ("STREAM.PURGE.S", {"keep": _MILLION * 3 // 2}))


def _newest(port: int) -> None:
    _direct(port, b'{"last_by_subj":"S.*.x"}')


def _none(port: int) -> None:
    _direct(port, b'{"seq":1,"next_by_subj":"S.*.y"}')


def _direct(port: int, body: bytes) -> None:
    """Ask for one message, and wait for it."""
    with Wire(port, TIMEOUT_S, {"headers": True}) as wire:
        wire.subscribe(b"i", 1)
        wire.sock.sendall(b"PUB $JS.API.DIRECT.GET.S i %d\r\n%b\r\n" % (len(body), body))
        wire.next_message()
    time.sleep(0.1)


FIRST_QUESTIONS = [
    Input("a consumer of the last of 1,000,000 new subjects", _last_of_each, _FRESH),
    Input(
        "a consumer of the last of 1,000,000 new subjects in memory",
        _last_of_each,
        _FRESH_IN_MEMORY,
    ),
    Input(
        "a consumer of the last of 1,000,000 subjects that came again in any order",
        _last_of_each,
        _in_any_order(),
    ),
    Input(
        "the last message of 1,000,000 subjects in memory that have changed since",
        _newest,
        _changed,
    ),
    Input("the next message of a subject that is none of 1,000,000", _none, _FRESH),
    Input(
        "the next message of a subject that is none of 1,000,000 in memory",
        _none,
        _FRESH_IN_MEMORY,
    ),
]
