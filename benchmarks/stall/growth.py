"""One message more, where a table that holds what came before has no room left for it.

Python's dictionaries are copied when two thirds of a power of two are in use.
"""

from __future__ import annotations

from benchmarks.stall.crowds import say
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


GROWTH = [
    _row("the 1,398,101st message, each of a new subject", _FULL + _MORE, "file"),
    _row("the 1,398,101st message in memory, each of a new subject", _FULL + _MORE, "memory"),
    _row("the 1,398,101st message of one subject in memory", 1, "memory"),
]
