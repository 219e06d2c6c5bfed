"""Which key is due next, when deadlines move often.

A binary heap with lazy deletion: a moved or cancelled deadline stays in the heap until it surfaces
or until the stale entries outnumber the live ones, when the heap is rebuilt. It holds no clock.

Invariants: a heap entry is live exactly when it is the one that `_entries` holds for its key; the
first one of the heap is.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from jetstream_server.base.clock import NEVER

K = TypeVar("K", bound=Hashable)

_REBUILD_ENTRIES_MIN = 64


class DeadlineHeap(Generic[K]):
    """Keys with one deadline each, in nanoseconds.

    Args:
        sooner: called whenever a deadline is set that is earlier than all others.

    Attributes:
        next_at: the earliest deadline, `NEVER` when there is none.
        popped: how many keys were taken out so far because they were due.
    """

    def __init__(self, sooner: Callable[[], None] | None = None) -> None:
        self.next_at = NEVER
        self.popped = 0
        self._sooner = sooner
        # Deadline, order of scheduling, key: the order keeps keys from being compared.
        self._entries: dict[K, tuple[int, int, K]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._counter = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def schedule(self, key: K, deadline_ns: int) -> None:
        """Set the deadline of a key, in place of the one it had."""
        held = self._entries.get(key)
        if held is not None and held[0] == deadline_ns:
            return
        self._counter += 1
        entry = (deadline_ns, self._counter, key)
        self._entries[key] = entry
        heapq.heappush(self._heap, entry)
        if deadline_ns < self.next_at:
            self.next_at = deadline_ns
            if self._sooner is not None:
                self._sooner()
        elif held is not None and held[0] == self.next_at:
            self._advance()
        if len(self._heap) > 2 * len(self._entries) + _REBUILD_ENTRIES_MIN:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def cancel(self, key: K) -> None:
        """Forget a key; nothing happens when it is unknown."""
        held = self._entries.pop(key, None)
        if held is not None and held[0] == self.next_at:
            self._advance()

    def deadline(self, key: K) -> int | None:
        """Return the deadline of a key, None when it has none."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def next_deadline(self) -> int | None:
        """Return the earliest deadline, None when there is none."""
        return None if self.next_at == NEVER else self.next_at

    def pop_due(self, now: int, count_max: int = sys.maxsize) -> list[K]:
        """Take out and return the keys whose deadline is at or before `now`, earliest first, and no
        more than so many."""
        if now < self.next_at:
            return []
        due: list[K] = []
        heap = self._heap
        while heap and heap[0][0] <= now and len(due) < count_max:
            entry = heapq.heappop(heap)
            if self._is_live(entry):
                del self._entries[entry[2]]
                due.append(entry[2])
        self.popped += len(due)
        self._advance()
        return due

    def _advance(self) -> None:
        """Go on to the next deadline, as the earliest is gone."""
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heapq.heappop(heap)
        self.next_at = heap[0][0] if heap else NEVER

    def _is_live(self, entry: tuple[int, int, K]) -> bool:
        return self._entries.get(entry[2]) is entry
