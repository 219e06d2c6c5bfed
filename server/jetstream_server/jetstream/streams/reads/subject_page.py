"""A page of the subjects of a stream with very many: sorted, and counted at one moment.

Half a million subjects take half a second to look at and to sort, so it is done in slices. The
answer shows the moment at which it was begun, whatever is published meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from jetstream_server.kernels import filters
from jetstream_server.store.ports import Census

SLICE_NAMES = 4096  # a few milliseconds


class SubjectPage:
    """The matching subjects from a place on, in order of their names.

    Args:
        census: all subjects, with how many messages each has.
        pattern: which are wanted.
        offset: how many of these come before the page.
        limit: how many it holds.

    Attributes:
        total: how many match, once all slices are done.
        counts: messages by subject, those of the page.
    """

    def __init__(self, census: Census, pattern: bytes, offset: int, limit: int) -> None:
        self._census = census
        self._pattern = pattern
        self._offset = offset
        self._limit = limit
        self.total = 0
        self.counts: dict[str, int] = {}

    def slices(self) -> Iterator[None]:
        """Do all of it, with a pause after each slice."""
        names, counts = self._census.names, self._census.counts
        runs: list[list[int]] = []
        flags = bytearray(len(counts))
        for start in range(0, len(counts), SLICE_NAMES):
            stop = min(start + SLICE_NAMES, len(counts))
            filters.mark(names, start, stop, (self._pattern,), flags)
            numbers = [n for n in range(start, stop) if flags[n] and counts[n]]
            numbers.sort(key=names.__getitem__)
            if numbers:
                self.total += len(numbers)
                runs.append(numbers)
            yield
        ordered = merge(*runs, key=names.__getitem__)
        end = min(self._offset + self._limit, self.total)
        for start in range(0, end, SLICE_NAMES):
            stop = min(start + SLICE_NAMES, end)
            for at, number in enumerate(islice(ordered, stop - start), start):
                if at >= self._offset:
                    self.counts[names[number].decode(errors="replace")] = counts[number]
            yield
