"""Numbers and counters of the subjects of a store in memory, for questions about very many of them.

The store keeps the sequences of each subject. Here they are counted when somebody asks, some at a
time, and again only those that have changed since: so messages that come and go cost nothing, and
kernels answer what is asked.

A number is a place in `names`. A subject that was gone and has come again stands there twice, and
its later place has no messages.

Nothing here takes long at once, whatever has changed since somebody asked: what has is taken over
as it is, and what is of no use any more is let go by somebody else.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TypeAlias

from jetstream_server.kernels import filters
from jetstream_server.kernels.parts import PartedNames, PartedSequences
from jetstream_server.store.ports import Census, Leftover

_SWEEP_MIN = 1024  # names of subjects that are gone, before they are left out
# Counters that are moved to larger room, in a millisecond; more are counted anew there, some
# at a time as well: to move a million, and have the system find memory for them, takes 20 ms each
# for counts, firsts and lasts.
_MOVED_MAX = 1 << 16
# Changes that are put together; more of them would be copied for milliseconds.
_TOGETHER_MAX = 16_384
_ANY_SEQ = (1 << 64) - 1
_NONE: dict[int, None] = {}  # of a subject that is gone

# The sequences of one subject, rising; those of a subject with very many come in parts.
Sequences: TypeAlias = "dict[int, None] | PartedSequences[None]"


class SubjectIndex:
    """What is known of the subjects of one store.

    Args:
        sequences: those of each subject that has messages, rising; kept by the store.
        let_go: takes collections that are of no use any more.

    Attributes:
        names: of subjects, each behind those that were there when it came; some are gone by now.
        listing: rises when numbers change their meaning.
    """

    def __init__(
        self, sequences: PartedNames[Sequences], let_go: Callable[[Leftover], None]
    ) -> None:
        self._sequences = sequences
        self._let_go = let_go
        self.names: list[bytes] = []
        self.listing = 0
        self._numbers: PartedNames[int] | None = None  # of those that were counted, if any
        # By number; those beyond so many were never counted, and there is room for some more.
        self._known = 0
        self._counts, self._firsts, self._lasts = array("Q"), array("Q"), array("Q")
        # To be counted again, in the order in which it was noted; a subject may be in several.
        self._changed: list[dict[bytes, None]] = []

    def add(self, name: bytes) -> bool:
        """List a subject that has messages now; tell whether those that have none were left out."""
        self.names.append(name)
        is_swept = len(self.names) > 2 * len(self._sequences) + _SWEEP_MIN
        if is_swept:
            self._list(list(self._sequences))
        return is_swept

    def begin(self, sequences: PartedNames[Sequences]) -> None:
        """Begin anew, without subjects.

        Args:
            sequences: as at the beginning.
        """
        self._sequences = sequences
        self._list([])

    def _list(self, names: list[bytes]) -> None:
        """List these subjects and no others."""
        self._let_go(self.names)
        self.names = names
        self.listing += 1
        if self._numbers is not None:
            self._let_go(self._numbers.parts)
            self._numbers = None
        self._start_over()

    def _start_over(self) -> None:
        self._known = 0
        for changed in self._changed:
            self._let_go(changed)
        self._changed = []

    def note(self, changed: dict[bytes, None]) -> None:
        """Note to which subjects messages have come, or of which some have gone.

        Args:
            changed: nobody else changes it any more.
        """
        if self._known and len(changed) + self._changes > len(self.names) + _TOGETHER_MAX:
            self._start_over()
        if self._known:
            self._note(changed)
        else:
            self._let_go(changed)  # all are yet to be counted

    def _note(self, changed: dict[bytes, None]) -> None:
        together = self._changed[-1] if self._changed else None
        if together is not None and len(together) + len(changed) <= _TOGETHER_MAX:
            together.update(changed)
        elif changed:
            self._changed.append(changed)

    @property
    def _changes(self) -> int:
        return sum(map(len, self._changed))

    def catch_up(self, subjects_max: int) -> bool:
        """Count the messages of up to so many subjects; tell whether all are counted."""
        if len(self._counts) < len(self.names):
            self._make_room()
        known = self._known
        stop = min(len(self.names), known + subjects_max)
        self._take_in(known, stop)
        if stop < len(self.names):
            return False
        self._renew(subjects_max - (stop - known))
        return not self._changed

    def _make_room(self) -> None:
        """Have room for all that are listed, and for as many again."""
        if self._known > _MOVED_MAX:
            self._start_over()
        size, known = 2 * len(self.names), self._known
        counts, firsts, lasts = filters.room(size), filters.room(size), filters.room(size)
        counts[:known] = self._counts[:known]
        firsts[:known] = self._firsts[:known]
        lasts[:known] = self._lasts[:known]
        self._counts, self._firsts, self._lasts = counts, firsts, lasts

    def _take_in(self, start: int, stop: int) -> None:
        if self._numbers is None:
            self._numbers = PartedNames()
        names, get = self.names[start:stop], self._sequences.get
        held = [get(name) or _NONE for name in names]
        self._counts[start:stop] = array("Q", map(len, held))
        self._firsts[start:stop] = array("Q", [next(iter(sequences), 0) for sequences in held])
        self._lasts[start:stop] = array("Q", [next(reversed(sequences), 0) for sequences in held])
        self._known = stop
        again: dict[bytes, None] = {}
        for number in self._numbers.number_all(names, start):  # these have one already
            again[names[number - start]] = None
            self._counts[number] = self._firsts[number] = self._lasts[number] = 0
        self._note(again)

    def _renew(self, subjects_max: int) -> None:
        left = subjects_max
        while left > 0 and self._changed:
            changed = self._changed[-1]
            count = min(left, len(changed))
            self._renew_some(changed, count)
            left -= count
            if not changed:
                self._changed.pop()

    def _renew_some(self, changed: dict[bytes, None], count: int) -> None:
        counts, firsts, lasts = self._counts, self._firsts, self._lasts
        assert self._numbers is not None, "they were counted before"
        number_of = self._numbers.get
        for _ in range(count):
            name, _ = changed.popitem()
            number = number_of(name)
            if number is None:  # it was gone when numbers changed their meaning
                continue
            sequences = self._sequences.get(name)
            if sequences is None:
                counts[number] = firsts[number] = lasts[number] = 0
            else:
                counts[number] = len(sequences)
                firsts[number] = next(iter(sequences))
                lasts[number] = next(reversed(sequences))

    def _catch_up(self) -> None:
        while not self.catch_up(max(len(self.names) + self._changes, 1)):
            continue

    def newest(self, flags: bytearray) -> int:
        """Return the last sequence of all subjects of a set, 0 when none has any."""
        self._catch_up()
        number = filters.newest(flags, self._counts, self._lasts)
        return self._lasts[number] if number >= 0 else 0

    def total(self, flags: bytearray) -> int:
        """Return how many messages the subjects of a set have."""
        self._catch_up()
        return filters.total(flags, self._counts)

    def since(self, flags: bytearray, start: int) -> int:
        """Return how many messages from a sequence on the subjects of a set have."""
        self._catch_up()
        begun = filters.present(flags, self._counts, self._firsts, start, _ANY_SEQ)
        whole = filters.among(begun, len(flags))
        found = filters.total(whole, self._counts)
        parted = self.present(flags, start)
        if len(parted) == len(begun):
            return found
        names, sequences = self.names, self._sequences
        held = (sequences[names[number]] for number in parted if not whole[number])
        return found + sum(sum(map(start.__le__, each)) for each in held)

    def present(self, flags: bytearray, low: int = 0) -> array[int]:
        """Return the numbers of the subjects of a set that have messages from `low` on."""
        self._catch_up()
        return filters.present(flags, self._counts, self._lasts, low, _ANY_SEQ)

    def begun(self, flags: bytearray, high: int) -> array[int]:
        """Return the numbers of the subjects of a set that have messages up to `high`."""
        self._catch_up()
        return filters.present(flags, self._counts, self._firsts, 0, high)

    def lasts(self, flags: bytearray) -> array[int]:
        """Return the last sequence of each subject of a set that has messages, rising."""
        self._catch_up()
        return filters.lasts_of(flags, self._counts, self._lasts)

    def counts(self, flags: bytearray) -> dict[bytes, int]:
        """Return how many messages each subject of a set has, without those that have none."""
        present, names, counts = self.present(flags), self.names, self._counts
        return {names[number]: counts[number] for number in present}

    def census(self) -> Census:
        """Return all subjects with their counts."""
        self._catch_up()
        # Whoever has it may look at it for long, and the list may be let go meanwhile.
        return Census(self.names[:], self._counts[: self._known])
