"""One message or subscription more, where a table that holds what came before has no room left for
it; and what is made of very many subscriptions for one message.

Python's dictionaries are copied when two thirds of a power of two are in use.
"""

from __future__ import annotations

from benchmarks.stall.crowds import readers, say
from benchmarks.stall.inputs import Act, Input, publish

_FULL = 2 * (1 << 21) // 3  # 1,398,101
_BEFORE, _MORE = 500, 2_000


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
            say(port, [b"PUB reached 0\r\n\r\n"])

    return act


GROWTH = [
    _row("the 1,398,101st message, each of a new subject", _FULL + _MORE, "file"),
    _row("the 1,398,101st message in memory, each of a new subject", _FULL + _MORE, "memory"),
    _row("the 1,398,101st message of one subject in memory", 1, "memory"),
    Input("1,400,000 subscriptions of a client", _subscribe(_FULL + _MORE)),
    Input("a message for 100,000 subscriptions", _reach(b"SUB reached %d\r\n", 100_000)),
    Input("a message for 100,000 groups", _reach(b"SUB reached g%d %d\r\n", 100_000)),
]
