"""The sequences of a store in memory, in their order.

Messages leave anywhere, so among the live sequences there are dead ones, which whoever looks passes
over. Those in front are left out at once when they are very many, or more than the live ones; those
in between some at a time while more messages leave, as with half a million messages that takes 45
ms, and sooner, as they may have to be passed over all at once.
"""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.kernels.parts import PartedSequences
from jetstream_server.store.ports import Leftover, StoredMessage
from jetstream_server.structures.parted_numbers import PART, PartedNumbers

DEAD_MIN = 1024  # before any are left out
_SWEPT_FOR_ONE = 16  # sequences that are looked at when a message has left
_SWEPT_AT_ONCE = 20_000  # of them at most, which takes a few milliseconds
# Live ones are then so few that a list of them is made in that time.
_DEAD_FOR_EACH = 8
_LIVE_FOR_EACH = 4  # of those that are dead in between
_PASSED_FIRST, _PASSED_AT_ONCE = 8, 1024


class SequenceOrder:
    """Rising sequences, all of those that are live, from the place `head` on.

    Args:
        live: the messages of the store, by sequence.
        let_go: takes lists that are of no use any more.

    Attributes:
        sequences: in their order; some are dead. A live one, above all others, is added by
            appending it here.
        head: the place of the first live one, or beyond the last one.
    """

    def __init__(
        self, live: PartedSequences[StoredMessage], let_go: Callable[[Leftover], None]
    ) -> None:
        self._live = live
        self._let_go = let_go
        self.sequences = PartedNumbers()
        self.head = 0
        self._swept: PartedNumbers | None = None  # those to be kept, while dead ones are left out
        self._swept_to = 0  # the place from which on none was looked at for that

    def __len__(self) -> int:
        return len(self.sequences)

    def begin(self, live: PartedSequences[StoredMessage]) -> list[list[int]]:
        """Begin anew, without sequences; return what is to be let go."""
        before = self.sequences.parts
        self._live, self.sequences, self.head, self._swept = live, PartedNumbers(), 0, None
        return before

    def first(self) -> int:
        """Return the first live sequence; there has to be one."""
        return self.sequences[self.head]

    def oldest(self, count: int) -> list[int]:
        """Return the first live sequences: so many, or all of them."""
        found: list[int] = []
        for start in range(self.head, len(self.sequences), _PASSED_AT_ONCE):
            if len(found) >= count:
                break
            found += self._live.held(self.sequences.between(start, start + _PASSED_AT_ONCE))
        del found[count:]
        return found

    def live_between(self, start: int, stop: int) -> int:
        """Return how many live ones are in the places from `start` up to `stop`."""
        start = max(start, self.head)
        if len(self.sequences) - self.head == len(self._live):  # there are no dead ones
            return max(stop - start, 0)
        return sum(
            len(self._live.held(self.sequences.between(at, min(at + PART, stop))))
            for at in range(start, stop, PART)
        )

    def newest(self) -> int:
        """Return the last live sequence; there has to be one."""
        sequences = self.sequences
        while sequences.last not in self._live:
            sequences.pop()
        self._swept_to = min(self._swept_to, len(sequences))  # others come in their places
        return sequences.last

    def find(self, sequence: int) -> int:
        """Return the place of the first sequence, dead or alive, that is not below one."""
        return max(self.sequences.find(sequence), self.head)

    def first_at(self, timestamp: int) -> int | None:
        """Return the first live sequence of a time, or later, None if there is none; times have to
        rise."""
        sequences, live = self.sequences, self._live
        low, high = self.head, len(sequences)
        while low < high:
            middle = (low + high) // 2
            found = self._first_live(middle, high)
            if found is None or live[found].timestamp >= timestamp:
                high = middle
            else:
                low = min(sequences.find(found + 1), high)
        return self._first_live(low, len(sequences))

    def _first_live(self, place: int, stop: int) -> int | None:
        count = _PASSED_FIRST
        while place < stop:
            if held := self._live.held(self.sequences.between(place, min(place + count, stop))):
                return held[0]
            place, count = place + count, _PASSED_AT_ONCE
        return None

    def sweep(self, left: int = 1) -> None:
        """Some messages have left: keep the head on a live one, and not many more dead ones than
        live ones."""
        sequences, live = self.sequences, self._live
        if self.head < len(sequences) and sequences[self.head] not in live:
            self._pass_over_dead()
        if self.head >= PART:
            self._leave_out_front()
        if self._swept is None:
            dead = len(sequences) - len(live)
            # Those in between may have to be passed over together, when the one before them leaves.
            is_sparse = dead - self.head > len(live) // _LIVE_FOR_EACH + DEAD_MIN
            if not is_sparse and dead <= len(live) + DEAD_MIN:
                return
            if dead > _DEAD_FOR_EACH * len(live) + DEAD_MIN:
                self._replace(PartedNumbers(live))  # which are in their order as well
                return
            if 2 * self.head >= dead and not is_sparse:  # most of them are in front
                self._replace(PartedNumbers(sequences.between(self.head, len(sequences))))
                return
            self._swept, self._swept_to = PartedNumbers(), self.head
        stop = self._swept_to + min(left * _SWEPT_FOR_ONE, _SWEPT_AT_ONCE)
        self._swept.extend(live.held(sequences.between(self._swept_to, stop)))
        self._swept_to = stop
        if stop >= len(sequences):
            self._replace(self._swept)
            self._swept = None
            self.sweep(0)

    def _pass_over_dead(self) -> None:
        sequences, live = self.sequences, self._live
        for _ in range(_PASSED_FIRST):  # as mostly a message leaves from the front
            self.head += 1
            if self.head == len(sequences) or sequences[self.head] in live:
                return
        found = self._first_live(self.head, len(sequences))
        self.head = len(sequences) if found is None else self.find(found)

    def _leave_out_front(self) -> None:
        taken = self.sequences.take_front(self.head)
        places = len(taken) * PART
        self.head -= places
        self._swept_to = max(self._swept_to - places, 0)
        if taken:
            self._let_go(taken)

    def _replace(self, kept: PartedNumbers) -> None:
        self._let_go(self.sequences.parts)
        self.sequences, self.head = kept, 0
