"""The missing sequences of a store at one moment, found in parts, as there may be millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

LOOKED_AT_ONCE = 50_000  # sequences, in some ten milliseconds


def missing_among(
    live: Iterable[Sequence[int]], expected: int, last_seq: int
) -> Iterator[list[int]]:
    """Yield the missing sequences from `expected` to `last_seq`, some at a time.

    Args:
        live: those that are there, rising, some at a time; where all are there as a `range`.
    """
    for some in live:
        missing: list[int] = []
        for sequence in some[:1] if isinstance(some, range) else some:
            if sequence - expected > LOOKED_AT_ONCE:
                yield missing
                yield from _whole(expected, sequence)
                missing = []
            elif sequence != expected:
                missing.extend(range(expected, sequence))
            expected = sequence + 1
        if isinstance(some, range) and some:
            expected = some.stop
        yield missing
    yield from _whole(expected, last_seq + 1)


def _whole(start: int, stop: int) -> Iterator[list[int]]:
    for low in range(start, stop, LOOKED_AT_ONCE):
        yield list(range(low, min(low + LOOKED_AT_ONCE, stop)))


def pieces(live: Sequence[int]) -> Iterator[Sequence[int]]:
    """Cut sequences into as many as are looked at at once."""
    for start in range(0, len(live), LOOKED_AT_ONCE):
        yield live[start : start + LOOKED_AT_ONCE]
