"""Configurations of large streams that change, and what is stored all at once."""

from __future__ import annotations

import time

from benchmarks.stall.consequences import with_headers
from benchmarks.stall.crowds import say
from benchmarks.stall.inputs import TIMEOUT_S, Act, Input, ask, consumer, publish, stream
from benchmarks.wire import Wire

_MILLION = 1_000_000
_SUBJECTS = 300_000
_SECOND_NS = 10**9
_AFTER_S = 3.0  # while what is too much goes
_BATCHES, _OF_BATCH = 50, 1000


def _changed(**settings: object) -> Act:
    _, config = stream(**settings)

    def act(port: int) -> None:
        ask(port, ("STREAM.UPDATE.S", config))
        time.sleep(_AFTER_S)

    return act


def _grown_without_limit(**settings: object) -> Act:
    """Make a stream that held one message of each subject once, and then all."""

    def prepare(port: int) -> None:
        publish(_SUBJECTS, _SUBJECTS, **settings)(port)
        _changed(max_msgs_per_subject=1, **settings)(port)
        ask(port, ("STREAM.UPDATE.S", stream(**settings)[1]))
        with Wire(port, TIMEOUT_S) as wire:
            for begin in range(0, 2 * _SUBJECTS, 5000):
                numbers = (number % _SUBJECTS for number in range(begin, begin + 5000))
                wire.sock.sendall(b"".join(b"PUB S.%d.x 0\r\n\r\n" % n for n in numbers))
                wire.ping()

    return prepare


def _with_ids(count: int, window_ns: int) -> Act:
    """Make a stream of so many messages, whose ids are remembered."""

    def prepare(port: int) -> None:
        with Wire(port, TIMEOUT_S, {"headers": True}) as wire:
            wire.subscribe_inbox()
            wire.api(*stream(storage="memory", duplicate_window=window_ns))
            for begin in range(0, count, 5000):
                blocks = [
                    b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % number
                    for number in range(begin, begin + 5000)
                ]
                frames = (b"HPUB S.a %d %d\r\n%b\r\n" % (len(b), len(b), b) for b in blocks)
                wire.sock.sendall(b"".join(frames))
                wire.ping()

    return prepare


def _never_ending(count: int) -> Act:
    """Make a stream of so many messages that outlive its age."""

    def prepare(port: int) -> None:
        ask(port, stream(**_NEVER_ENDING))
        for _ in range(0, count, 5000):
            say(port, with_headers(lambda _: b"S.x", b"Nats-TTL: never", 5000))

    return prepare


def _of_interest(port: int) -> None:
    """Make a stream whose messages wait for one of two consumers each."""
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.api(*stream(storage="memory", retention="interest"))
        for name in "cd":
            wire.api(*consumer(name, filter_subject=f"S.{name}"))
        for _ in range(100):
            wire.sock.sendall(b"PUB S.c 1\r\nx\r\nPUB S.d 1\r\nx\r\n" * 2500)
            wire.ping()


def _delete_consumer(port: int) -> None:
    ask(port, ("CONSUMER.DELETE.S.c", {}))
    time.sleep(_AFTER_S)


def _commit_batches(port: int) -> None:
    with Wire(port, TIMEOUT_S, {"headers": True}) as wire:
        wire.subscribe_inbox()
        frames = []
        for number in range(1, _OF_BATCH + 1):
            commit = b"Nats-Batch-Commit: 1\r\n" if number == _OF_BATCH else b""
            for batch in range(_BATCHES):
                block = b"NATS/1.0\r\nNats-Batch-Id: b%d\r\nNats-Batch-Sequence: %d\r\n%b\r\n"
                block %= (batch, number, commit)
                frames.append(b"HPUB S.x %d %d\r\n%b\r\n" % (len(block), len(block), block))
        wire.sock.sendall(b"".join(frames))
        wire.ping()


_IN_MEMORY: dict[str, object] = {"storage": "memory"}
_AGE: dict[str, object] = {"max_age": _SECOND_NS, "duplicate_window": _SECOND_NS}
_NEVER_ENDING = {"allow_msg_ttl": True, "max_age": 24 * 3600 * _SECOND_NS} | _IN_MEMORY
_TWICE = publish(500_000, _MILLION, **_IN_MEMORY)

CHANGES = [
    Input(
        "a stream in memory of 500,000 subjects is to hold one message each",
        _changed(max_msgs_per_subject=1, **_IN_MEMORY),
        _TWICE,
    ),
    Input(
        "a stream of 500,000 subjects is to hold one message each",
        _changed(max_msgs_per_subject=1),
        publish(500_000, _MILLION),
    ),
    Input(
        "a stream in memory of 10 subjects is to hold one message each",
        _changed(max_msgs_per_subject=1, **_IN_MEMORY),
        publish(10, _MILLION, **_IN_MEMORY),
    ),
    Input(
        "a stream of 1,000,000 messages is to hold 10",
        _changed(max_msgs=10),
        publish(500_000, _MILLION),
    ),
    Input(
        "a stream of 1,000,000 messages is to hold 10 KB",
        _changed(max_bytes=10_000),
        publish(500_000, _MILLION),
    ),
    Input(
        "a stream in memory of 300,000 messages that never end is to hold 10",
        _changed(max_msgs=10, **_NEVER_ENDING),
        _never_ending(_SUBJECTS),
    ),
    *(
        Input(
            f"a stream{where} of 300,000 subjects is to hold one message each, once more",
            _changed(max_msgs_per_subject=1, **settings),
            _grown_without_limit(**settings),
        )
        for where, settings in (("", {}), (" in memory", _IN_MEMORY))
    ),
    Input(
        "a stream in memory of 1,000,000 messages is to hold 10",
        _changed(max_msgs=10, **_IN_MEMORY),
        publish(1000, _MILLION, **_IN_MEMORY),
    ),
    Input(
        "a stream in memory of 1,000,000 messages is to hold those of a second",
        _changed(**_AGE, **_IN_MEMORY),
        publish(1000, _MILLION, **_IN_MEMORY),
    ),
    Input(
        "500,000 ids are to be remembered for a tenth of a second",
        _changed(duplicate_window=_SECOND_NS // 10, **_IN_MEMORY),
        _with_ids(500_000, 3600 * _SECOND_NS),
    ),
    Input(
        "the filter of a consumer of 1,000,000 messages changed",
        lambda port: ask(port, consumer("c", filter_subject="S.*.x")),
        lambda port: (publish(500_000, _MILLION)(port), ask(port, consumer("c")))[1],
    ),
    Input(
        "a source added to a stream in memory of 1,000,000 messages",
        _changed(sources=[{"name": "O"}], **_IN_MEMORY),
        lambda port: (ask(port, stream("O")), publish(1000, _MILLION, **_IN_MEMORY)(port))[1],
    ),
    Input("a consumer for whom 250,000 messages wait deleted", _delete_consumer, _of_interest),
    Input(
        "50 batches of 1,000 messages committed at once",
        _commit_batches,
        lambda port: ask(port, stream(allow_atomic=True)),
    ),
]
