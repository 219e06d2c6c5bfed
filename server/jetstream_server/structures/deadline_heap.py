"""Which key is due next, when deadlines move often.

A binary heap with lazy deletion: a moved or cancelled deadline stays in the heap until it surfaces
or until the stale entries outnumber the live ones, when the heap is rebuilt. It holds no clock.

To rebuild the heap of half a million deadlines, or to have their dictionary grow, takes some 20 ms.
So once they are more than some thousand they are spread by their hashes over parts, each with a
heap of its own, and one more heap tells which part is next.

Those that are no more may surface all together: ten thousand clients left, and when the one that
was the next had left as well it took 39 ms to find the next. So some are passed over at a time.
Until that is done the time of the first one stands for the next deadline, which is not before it:
whoever waits for it wakes too soon, passes over some more, and waits again.

Invariants: a heap entry is live exactly when it is the one that `entries` holds for its key; the
first one of the part that is next is, if `_is_exact`. The first one of each part is among `_nexts`,
if there are several parts.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from jetstream_server.base.clock import NEVER

K = TypeVar("K", bound=Hashable)

_REBUILD_ENTRIES_MIN = 64
_ALONE_MAX = 8192  # keys in one part; to spread them takes some milliseconds
_PARTS = 64  # a power of two
_NEXTS_MAX = 4 * _PARTS  # first entries of parts, most of which are first no more
_PASSED_AT_ONCE = 200  # that are no more; each takes some three microseconds
_PASSED_FOR_ONE = 12  # when another deadline is set or cancelled, as very many may be in a turn


class _DeadlinePart(Generic[K]):
    """Some of the keys.

    Attributes:
        entries: deadline, order of scheduling, key; the order keeps keys from being compared.
        heap: of them, and of some that are no more.
    """

    __slots__ = ("entries", "heap")

    def __init__(self) -> None:
        self.entries: dict[K, tuple[int, int, K]] = {}
        self.heap: list[tuple[int, int, K]] = []

    def is_live(self, entry: tuple[int, int, K]) -> bool:
        """Tell whether an entry of the heap still holds."""
        return self.entries.get(entry[2]) is entry

    def rebuild(self) -> None:
        """Have nothing in the heap that is no more."""
        self.heap = list(self.entries.values())
        heapq.heapify(self.heap)


class DeadlineHeap(Generic[K]):
    """Keys with one deadline each, in nanoseconds.

    Args:
        sooner: called whenever a deadline is set that is earlier than all others.

    Attributes:
        next_at: before which none is due, `NEVER` when there is none: the earliest deadline, or an
            earlier one that is no more.
        popped: how many keys were taken out so far because they were due.
    """

    def __init__(self, sooner: Callable[[], None] | None = None) -> None:
        self.next_at = NEVER
        self.popped = 0
        self._sooner = sooner
        self._alone: _DeadlinePart[K] | None = _DeadlinePart()  # while there are no others
        self._parts: list[_DeadlinePart[K]] = []
        # Deadline and order of what was the first entry of a part, and may be still, and the part.
        self._nexts: list[tuple[int, int, _DeadlinePart[K]]] = []
        self._is_exact = True  # the earliest deadline is known
        self._count = 0
        self._counter = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: K) -> bool:
        return key in (self._alone or self._part(key)).entries

    def schedule(self, key: K, deadline_ns: int) -> None:
        """Set the deadline of a key, in place of the one it had."""
        part = self._alone or self._part(key)
        held = part.entries.get(key)
        if held is None:
            self._count += 1
            if self._count > _ALONE_MAX and self._alone is not None:
                self._spread(self._alone)
                part = self._part(key)
        elif held[0] == deadline_ns:
            return
        self._counter += 1
        entry = (deadline_ns, self._counter, key)
        part.entries[key] = entry
        heapq.heappush(part.heap, entry)
        if self._alone is None and part.heap[0] is entry:
            self._note_first(part)
        if deadline_ns < self.next_at:
            self.next_at, self._is_exact = deadline_ns, True
            if self._sooner is not None:
                self._sooner()
        elif not self._is_exact or (held is not None and held[0] == self.next_at):
            self._advance(_PASSED_FOR_ONE)
        if len(part.heap) > 2 * len(part.entries) + _REBUILD_ENTRIES_MIN:
            self._rebuild(part)

    def cancel(self, key: K) -> None:
        """Forget a key; nothing happens when it is unknown."""
        part = self._alone or self._part(key)
        held = part.entries.pop(key, None)
        if held is None:
            return
        self._count -= 1
        if len(part.heap) > 2 * len(part.entries) + _REBUILD_ENTRIES_MIN:
            self._rebuild(part)  # before all that is stale surfaces at once
        if not self._is_exact or held[0] == self.next_at:
            self._advance(_PASSED_FOR_ONE)

    def deadline(self, key: K) -> int | None:
        """Return the deadline of a key, None when it has none."""
        entry = (self._alone or self._part(key)).entries.get(key)
        return None if entry is None else entry[0]

    def next_deadline(self) -> int | None:
        """Return the earliest deadline, or an earlier one that is no more; None when there is
        none."""
        return None if self.next_at == NEVER else self.next_at

    def pop_due(self, now: int, count_max: int = sys.maxsize) -> list[K]:
        """Take out and return the keys whose deadline is at or before `now`, earliest first, and no
        more than so many. There may be more of them if `next_at` is not after `now` then."""
        if now < self.next_at:
            return []
        due: list[K] = []
        if not self._is_exact:
            self._advance(_PASSED_AT_ONCE)
        while self._is_exact and self.next_at <= now and len(due) < count_max:
            part = self._alone or self._nexts[0][2]
            key = heapq.heappop(part.heap)[2]
            del part.entries[key]
            due.append(key)
            self._count -= 1
            if self._alone is None:
                self._note_first(part)
            self._advance(_PASSED_AT_ONCE)
        self.popped += len(due)
        return due

    def _advance(self, most: int) -> None:
        """Go on to the next deadline, as the earliest is gone, or towards it: past so many that are
        no more."""
        alone = self._alone is not None
        self.next_at = self._pass_over_in_one(most) if alone else self._pass_over(most)

    def _pass_over_in_one(self, left: int) -> int:
        """Pass over first entries that are no more; return the deadline of that which is first
        then."""
        assert self._alone is not None, "there are no parts"
        heap, is_live = self._alone.heap, self._alone.is_live
        while heap and not (is_exact := is_live(heap[0])) and left:
            heapq.heappop(heap)
            left -= 1
        self._is_exact = not heap or is_exact
        return heap[0][0] if heap else NEVER

    def _pass_over(self, most: int) -> int:
        """Do the same with several parts."""
        for _ in range(most):
            if not self._nexts:
                self._is_exact = True
                return NEVER
            deadline, order, part = self._nexts[0]
            is_first = bool(part.heap) and part.heap[0][1] == order
            if is_first and part.is_live(part.heap[0]):
                self._is_exact = True
                return deadline
            heapq.heappop(self._nexts)
            if is_first:
                heapq.heappop(part.heap)
                self._note_first(part)
        self._is_exact = not self._nexts
        return self._nexts[0][0] if self._nexts else NEVER

    def _rebuild(self, part: _DeadlinePart[K]) -> None:
        """Rebuild the heap of a part, as most of it is no more."""
        first = part.heap[0]
        part.rebuild()
        if self._alone is None and part.heap and part.heap[0] is not first:
            self._note_first(part)

    def _note_first(self, part: _DeadlinePart[K]) -> None:
        """Have the first entry of a part among the next ones."""
        if len(self._nexts) > _NEXTS_MAX:
            firsts = [(each.heap[0], each) for each in self._parts if each.heap]
            self._nexts = [(deadline, order, each) for (deadline, order, _), each in firsts]
            heapq.heapify(self._nexts)
        elif part.heap:
            deadline, order, _ = part.heap[0]
            heapq.heappush(self._nexts, (deadline, order, part))

    def _part(self, key: K) -> _DeadlinePart[K]:
        """Return the part of a key, if there are several."""
        # Mixed once more: those of objects are so regular that all parts would grow at once.
        return self._parts[hash((key,)) % _PARTS]

    def _spread(self, alone: _DeadlinePart[K]) -> None:
        self._alone = None
        self._parts = [_DeadlinePart() for _ in range(_PARTS)]
        for key, entry in alone.entries.items():
            self._part(key).entries[key] = entry
        for part in self._parts:
            part.rebuild()
            self._note_first(part)
