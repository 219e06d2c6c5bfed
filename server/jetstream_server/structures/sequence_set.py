"""A set of sequences kept as runs: what was deleted, what was acknowledged.

Sequences cluster, so a run costs 16 bytes however long it is. The runs sit in chunks of bounded
length, because a store with a million holes must not move megabytes for each new one: adding and
taking out is two binary searches and a move within one chunk.

Invariants: runs are half-open, not empty, sorted, and do not touch; no chunk is empty;
`_firsts[n]` is where chunk `n` starts; `_Chunk.size` and `_length` count sequences.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

# A chunk is split in two when it gets longer. At 1024 runs a move within it is about as dear as
# the binary search that led to it.
CHUNK_RUNS_MAX = 1024


class _Chunk:
    __slots__ = ("size", "starts", "stops")

    def __init__(self, starts: array[int], stops: array[int]) -> None:
        self.starts = starts
        self.stops = stops
        self.size = sum(stops) - sum(starts)


class SequenceSet:
    """A set of integers from 0 to 2**64 - 2."""

    def __init__(self, sequences: Iterable[int] = ()) -> None:
        self._chunks: list[_Chunk] = []
        self._firsts: list[int] = []
        self._length = 0
        for sequence in sequences:
            self.add(sequence)

    def __len__(self) -> int:
        return self._length

    def __contains__(self, sequence: int) -> bool:
        at, index = self._locate(sequence)
        return at >= 0 and sequence < self._chunks[at].stops[index]

    def __iter__(self) -> Iterator[int]:
        for start, stop in self.ranges():
            yield from range(start, stop)

    def __repr__(self) -> str:
        return f"SequenceSet.of_ranges({list(self.ranges())})"

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> SequenceSet:
        """Return the union of half-open ranges."""
        made = cls()
        for start, stop in ranges:
            made.add_range(start, stop)
        return made

    @property
    def first(self) -> int | None:
        """The smallest member, None when there is none."""
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        """The largest member, None when there is none."""
        return self._chunks[-1].stops[-1] - 1 if self._chunks else None

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Iterate over the runs, half-open and rising; the set must not change meanwhile."""
        for chunk in self._chunks:
            yield from zip(chunk.starts, chunk.stops, strict=True)

    def add(self, sequence: int) -> bool:
        """Add one; False when it was there."""
        at, index = self._locate(sequence)
        touches_right = self._starts_run(at, index + 1, sequence + 1)
        if at >= 0 and sequence <= self._chunks[at].stops[index]:
            chunk = self._chunks[at]
            if sequence < chunk.stops[index]:
                return False
            if not touches_right:
                self._resize(chunk, chunk.stops, index, sequence + 1)
                return True
        elif not touches_right:
            self._insert_run(at, index + 1, sequence, sequence + 1)
            return True
        self.add_range(sequence, sequence + 1)
        return True

    def add_range(self, start: int, stop: int) -> int:
        """Add all from `start` up to `stop`; return how many were not there."""
        if start >= stop:
            return 0
        before = self._length
        at, index = self._locate(start)
        if at >= 0 and self._chunks[at].stops[index] >= start:
            start = self._chunks[at].starts[index]
        at, index = self._locate(stop)
        if at >= 0:
            stop = max(stop, self._chunks[at].stops[index])
        self.discard_range(start, stop)
        at, index = self._locate(start)
        self._insert_run(at, index + 1, start, stop)
        return self._length - before

    def discard(self, sequence: int) -> bool:
        """Take one out; False when it was not there."""
        return self.discard_range(sequence, sequence + 1) == 1

    def discard_range(self, start: int, stop: int) -> int:
        """Take out all from `start` up to `stop`; return how many were there."""
        if start >= stop:
            return 0
        before = self._length
        at, index = self._locate(start)
        if at >= 0:
            chunk = self._chunks[at]
            run_start, run_stop = chunk.starts[index], chunk.stops[index]
            if run_start < start < run_stop:
                self._resize(chunk, chunk.stops, index, start)
                if stop < run_stop:
                    self._insert_run(at, index + 1, stop, run_stop)
                    return before - self._length
        at = max(bisect_left(self._firsts, start) - 1, 0)
        while at < len(self._chunks) and self._firsts[at] < stop:
            if not self._discard_whole(at, start, stop):
                at += 1
        return before - self._length

    def clear(self) -> None:
        """Take out all."""
        self._chunks.clear()
        self._firsts.clear()
        self._length = 0

    def count(self, start: int, stop: int) -> int:
        """Return how many members are from `start` up to `stop`."""
        return max(self._rank(stop) - self._rank(start), 0)

    def _locate(self, sequence: int) -> tuple[int, int]:
        """Return chunk and place of the last run that starts at or before `sequence`.

        (-1, -1) when all runs start after it.
        """
        at = bisect_right(self._firsts, sequence) - 1
        return at, bisect_right(self._chunks[at].starts, sequence) - 1 if at >= 0 else -1

    def _starts_run(self, at: int, index: int, sequence: int) -> bool:
        """Tell whether the run at this place, which may be in the next chunk, starts here."""
        if at >= 0 and index < len(self._chunks[at].starts):
            return self._chunks[at].starts[index] == sequence
        return at + 1 < len(self._firsts) and self._firsts[at + 1] == sequence

    def _rank(self, sequence: int) -> int:
        """Return how many members are below `sequence`."""
        at, index = self._locate(sequence)
        if at < 0:
            return 0
        chunk = self._chunks[at]
        below = sum([other.size for other in self._chunks[:at]])
        below += sum(chunk.stops[:index]) - sum(chunk.starts[:index])
        return below + min(sequence, chunk.stops[index]) - chunk.starts[index]

    def _resize(self, chunk: _Chunk, bounds: array[int], index: int, bound: int) -> None:
        """Move one bound of a run."""
        change = bound - bounds[index] if bounds is chunk.stops else bounds[index] - bound
        bounds[index] = bound
        chunk.size += change
        self._length += change

    def _insert_run(self, at: int, index: int, start: int, stop: int) -> None:
        """Insert a run that touches no other at `index` of chunk `at` (-1: before all)."""
        self._length += stop - start
        if not self._chunks:
            self._chunks.append(_Chunk(array("Q", [start]), array("Q", [stop])))
            self._firsts.append(start)
            return
        at, index = (0, 0) if at < 0 else (at, index)
        chunk = self._chunks[at]
        chunk.starts.insert(index, start)
        chunk.stops.insert(index, stop)
        chunk.size += stop - start
        self._firsts[at] = chunk.starts[0]
        if len(chunk.starts) > CHUNK_RUNS_MAX:
            half = len(chunk.starts) // 2
            upper = _Chunk(chunk.starts[half:], chunk.stops[half:])
            self._chunks[at] = _Chunk(chunk.starts[:half], chunk.stops[:half])
            self._chunks.insert(at + 1, upper)
            self._firsts.insert(at + 1, upper.starts[0])

    def _discard_whole(self, at: int, start: int, stop: int) -> bool:
        """Take out of chunk `at` what is from `start` up to `stop`; True if the chunk is gone.

        No run reaches across `start`.
        """
        chunk = self._chunks[at]
        low = bisect_left(chunk.starts, start)
        high = bisect_right(chunk.stops, stop, low)
        gone = sum(chunk.stops[low:high]) - sum(chunk.starts[low:high])
        del chunk.starts[low:high]
        del chunk.stops[low:high]
        chunk.size -= gone
        self._length -= gone
        if not chunk.starts:
            del self._chunks[at]
            del self._firsts[at]
            return True
        if low < len(chunk.starts) and chunk.starts[low] < stop:
            self._resize(chunk, chunk.starts, low, stop)
        self._firsts[at] = chunk.starts[0]
        return False
