"""One message or subscription more, where a table that holds what came before has no room left for
it; and what is made of very many subscriptions for one message.

Python's dictionaries are copied when two thirds of a power of two are in use.
"""

from __future__ import annotations

from benchmarks.stall.crowds import readers, say
from benchmarks.stall.inputs import (
    TIMEOUT_S,
    Act,
    Input,
    ask,
    await_messages,
    consumer,
    publish,
    stream,
)
from benchmarks.wire import Wire

_FULL = 2 * (1 << 21) // 3  # 1,398,101
_BEFORE, _MORE = 500, 2_000
_MANY = 700_000


def _go_on(subjects: int) -> Act:
    """Publish behind those that are there, round as many subjects."""

    def act(port: int) -> None:
        numbers = range(_FULL - _BEFORE, _FULL + _MORE)
        say(port, [b"PUB S.%d.x 0\r\n\r\n" % (n % subjects) for n in numbers])

    return act


def _row(name: str, subjects: int, storage: str) -> Input:
    prepare = publish(subjects, _FULL - _BEFORE, storage=storage)
    return Input(name, _go_on(subjects), prepare)


def _subscribe(count: int) -> Act:
    """Come with so many subscriptions, and go."""
    return lambda port: say(port, [b"SUB a.%d %d\r\n" % (n, n) for n in range(count)])


def _reach(line: bytes, count: int) -> Act:
    """Publish a message for so many subscriptions of a client."""

    def act(port: int) -> None:
        with readers(port, b"".join(line % ((n,) * line.count(b"%")) for n in range(count))):
            say(port, [b"PUB reached.x 0\r\n\r\n"])

    return act


def _make_stream(port: int) -> None:
    ask(port, stream())


def _push_to_many(port: int) -> None:
    """Have a consumer push a message to so many subscriptions."""
    with Wire(port, TIMEOUT_S) as listener:
        listener.sock.sendall(b"".join(b"SUB pushed %d\r\n" % n for n in range(_MANY)))
        listener.ping()
        ask(port, consumer("C", deliver_subject="pushed", ack_policy="none"))
        say(port, [b"PUB S.x 0\r\n\r\n"])
        await_messages(listener, b"MSG S.x", _MANY)


def _ack_to_many(port: int) -> None:
    """Publish to a stream, whose ack goes to so many subscriptions."""
    with Wire(port, TIMEOUT_S) as listener:
        listener.sock.sendall(b"".join(b"SUB told %d\r\n" % n for n in range(_MANY)))
        listener.ping()
        say(port, [b"PUB S.x told 0\r\n\r\n"])
        await_messages(listener, b"MSG told", _MANY)


GROWTH = [
    _row("the 1,398,101st message, each of a new subject", _FULL + _MORE, "file"),
    _row("the 1,398,101st message in memory, each of a new subject", _FULL + _MORE, "memory"),
    _row("the 1,398,101st message of one subject in memory", 1, "memory"),
    Input("1,400,000 subscriptions of a client", _subscribe(_FULL + _MORE)),
    Input("a message for 100,000 subscriptions", _reach(b"SUB reached.x %d\r\n", 100_000)),
    Input("a message for 100,000 groups", _reach(b"SUB reached.x g%d %d\r\n", 100_000)),
    Input("a message for 700,000 subscriptions", _reach(b"SUB reached.x %d\r\n", 700_000)),
    Input("a message for 700,000 groups", _reach(b"SUB reached.x g%d %d\r\n", 700_000)),
    Input("a message for one group of 700,000", _reach(b"SUB reached.x g %d\r\n", 700_000)),
    Input(
        "a message for 200,000 groups that listen to two patterns each",
        _reach(b"SUB reached.* g%d %d\r\nSUB reached.> g%d b%d\r\n", 200_000),
    ),
    Input("a pushed message for 700,000 subscriptions", _push_to_many, _make_stream),
    Input("an ack for 700,000 subscriptions", _ack_to_many, _make_stream),
]
