"""Sequences that belong together, such as those of messages that leave a stream at once.

They are a few ranges of very many, or very many that hardly follow each other. Whoever has to look
for them among others does so range by range, or for all of them in one array that is made once for
everybody who asks.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import sub

_LONG = 16  # sequences in a range, on average, so that each is worth a call of its own


class SequenceSet:
    """Sequences, rising.

    Args:
        bounds: `array('Q')` of where half-open ranges begin and end, in turns. They rise.
    """

    __slots__ = ("_bounds", "_sequences", "count")

    count: int

    def __init__(self, bounds: array[int]) -> None:
        self._bounds = bounds
        self._sequences: array[int] | None = None
        self.count = sum(map(sub, bounds[1::2], bounds[::2]))

    @classmethod
    def joined(cls, ranges: Iterable[tuple[int, int]]) -> SequenceSet:
        """Return the sequences of half-open ranges in any order, which may touch each other."""
        bounds = array("Q")
        end = -1
        for start, stop in sorted(ranges):
            if start > end:
                bounds.extend((start, stop))
                end = stop
            elif stop > end:
                bounds[-1] = end = stop
        return cls(bounds)

    @classmethod
    def of(cls, sequences: Sequence[int]) -> SequenceSet:
        """Return the same sequences, which rise."""
        if not sequences:
            return cls(array("Q"))
        made = cls.between(sequences[0], sequences[-1] + 1)
        if made.count != len(sequences):  # they do not follow each other: the bounds are the outer
            made._sequences = array("Q", sequences)
            made.count = len(sequences)
        return made

    @classmethod
    def between(cls, start: int, stop: int) -> SequenceSet:
        """Return start <= sequence < stop."""
        return cls(array("Q", (start, stop) if start < stop else ()))

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def first(self) -> int:
        """Return the lowest; there must be one."""
        return self._bounds[0]

    @property
    def stop(self) -> int:
        """Return what follows the highest; there must be one."""
        return self._bounds[-1]

    @property
    def long_ranges(self) -> Iterable[tuple[int, int]] | None:
        """Return half-open ranges of which each is worth a call of its own, None if there are no
        such and `sequences` is what to ask for."""
        bounds = self._bounds
        if self._sequences is None and self.count * 2 >= _LONG * len(bounds):
            return zip(bounds[::2], bounds[1::2], strict=True)
        return None

    @property
    def sequences(self) -> array[int]:
        """Return all of them; not to be changed."""
        if self._sequences is None:
            bounds = self._bounds
            if self.count * 2 == len(bounds):
                self._sequences = bounds[::2]
            else:
                each = map(range, bounds[::2], bounds[1::2])
                self._sequences = array("Q", chain.from_iterable(each))
        return self._sequences
