"""Values by name and by sequence, however many, in dictionaries none of which becomes large.

A dictionary that grows copies all that is in it: at seven hundred thousand entries that takes 25
to 40 ms, and twice as long at each doubling, in whichever turn the next one comes. A part grows in
less than a millisecond. The compiled twin makes the way to the part as short as that into a
dictionary.

Spread by their hashes names cannot be gone through in their order any more, which is the one in
which they lie in memory: to take leave of a hundred thousand subscriptions in another order takes a
third longer. So `PartedOrder` has a new dictionary follow each that is full.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

NamedT = TypeVar("NamedT")
SequencedT = TypeVar("SequencedT")
OrderedKeyT = TypeVar("OrderedKeyT")
OrderedT = TypeVar("OrderedT")

ALONE_MAX = 10_000  # names in one part alone; to spread them takes two milliseconds
PARTS = 256  # among which they are spread; a power of two
PART_MAX = 4096  # sequences in a part; a fourth of it is few
# Keys in a part of those that keep their order. A dictionary has room for so many once it holds
# half of them, and grows in two milliseconds then.
ORDERED_PART_MAX = 87_381


class PartedNames(Generic[NamedT]):
    """Values by name. There is one part, as most collections stay small; names that are more are
    spread over many by their hashes, so that these grow at different times.

    Args:
        alone_max: so many names are in one part.

    Attributes:
        parts: the values, in dictionaries; for whoever lets go of them.
    """

    __slots__ = ("_alone_max", "_count", "_mask", "parts")

    def __init__(self, alone_max: int = ALONE_MAX) -> None:
        self.parts: list[dict[bytes, NamedT]] = [{}]
        self._mask = 0  # the number of parts less one
        self._count = 0
        self._alone_max = alone_max

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self.parts)

    def __contains__(self, name: bytes) -> bool:
        return name in self._part(name)

    def __getitem__(self, name: bytes) -> NamedT:
        return self._part(name)[name]

    def __setitem__(self, name: bytes, value: NamedT) -> None:
        if not self._mask and self._count >= self._alone_max:
            self._spread()
        part = self._part(name)
        before = len(part)
        part[name] = value
        self._count += len(part) - before

    def __delitem__(self, name: bytes) -> None:
        del self._part(name)[name]
        self._count -= 1

    def get(self, name: bytes) -> NamedT | None:
        """Return the value of a name, None if it has none."""
        return self._part(name).get(name)

    def values(self) -> Iterator[NamedT]:
        """Iterate over the values."""
        return chain.from_iterable([part.values() for part in self.parts])

    def items(self) -> Iterator[tuple[bytes, NamedT]]:
        """Iterate over names and their values."""
        return chain.from_iterable([part.items() for part in self.parts])

    def number_all(self: PartedNames[int], names: Iterable[bytes], first: int) -> list[int]:
        """Give names the numbers from `first` on, but for those that have another one; return the
        numbers that these were to have."""
        taken: list[int] = []
        for number, name in enumerate(names, first):
            held = self.get(name)
            if held is None:
                self[name] = number
            elif held != number:
                taken.append(number)
        return taken

    def _part(self, name: bytes) -> dict[bytes, NamedT]:
        return self.parts[hash(name) & self._mask]

    def _spread(self) -> None:
        (alone,) = self.parts
        self._mask = PARTS - 1
        self.parts = [{} for _ in range(PARTS)]
        for name, value in alone.items():
            self._part(name)[name] = value


class PartedSequences(Generic[SequencedT]):
    """Values by sequence; each is added above all that are there, and they leave anywhere.

    The last part takes what is new until it is full. Neighbours that have few left are put
    together, so that there are never many parts with little in them, as a dictionary keeps the room
    that it had.

    Args:
        part_max: so many sequences are in a part.

    Attributes:
        parts: the values, in dictionaries by rising sequences; for whoever lets go of them.
    """

    # _firsts: the first sequence that each part may hold. _others: how many are in all parts but
    # the last. Only the last may be empty.
    __slots__ = ("_few", "_firsts", "_last", "_others", "_part_max", "parts")

    def __init__(self, part_max: int = PART_MAX) -> None:
        self._last: dict[int, SequencedT] = {}
        self.parts = [self._last]
        self._firsts = [0]
        self._others = 0
        self._part_max, self._few = part_max, part_max // 4

    def __len__(self) -> int:
        return self._others + len(self._last)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.parts)

    def __reversed__(self) -> Iterator[int]:
        return chain.from_iterable(map(reversed, reversed(self.parts)))

    def __contains__(self, sequence: int) -> bool:
        return sequence in self.parts[self._place(sequence)]

    def __getitem__(self, sequence: int) -> SequencedT:
        return self.parts[self._place(sequence)][sequence]

    def __setitem__(self, sequence: int, value: SequencedT) -> None:
        if len(self._last) >= self._part_max:
            self._others += len(self._last)
            self._last = {}
            self.parts.append(self._last)
            self._firsts.append(sequence)
        self._last[sequence] = value

    def extend(self, sequences: Iterable[int], value: SequencedT) -> None:
        """Give a value to each of rising sequences."""
        for sequence in sequences:
            self[sequence] = value

    def __delitem__(self, sequence: int) -> None:
        place = self._place(sequence)
        part = self.parts[place]
        before = len(part)
        del part[sequence]
        self._settle(place, before)

    def get(self, sequence: int) -> SequencedT | None:
        """Return the value of a sequence, None if it has none."""
        return self.parts[self._place(sequence)].get(sequence)

    def pop(self, sequence: int) -> SequencedT | None:
        """Take out a value and return it, None if there is none."""
        place = self._place(sequence)
        part = self.parts[place]
        before = len(part)
        value = part.pop(sequence, None)
        self._settle(place, before)
        return value

    def pop_all(self, sequences: Iterable[int]) -> list[SequencedT]:
        """Take out the values of those of some sequences that have one, and return these."""
        found = map(self.pop, sequences)
        return [value for value in found if value is not None]

    def values(self) -> Iterator[SequencedT]:
        """Iterate over the values, by rising sequences."""
        return chain.from_iterable([part.values() for part in self.parts])

    def held(self, sequences: Sequence[int]) -> list[int]:
        """Return those of rising sequences that have a value."""
        held: list[int] = []
        for part, some in self._stretches(sequences):
            held += filter(part.__contains__, some)
        return held

    def values_of(self, sequences: Sequence[int]) -> list[SequencedT]:
        """Return the values of those of rising sequences that have one."""
        values: list[SequencedT] = []
        for part, some in self._stretches(sequences):
            values += [part[each] for each in some if each in part]
        return values

    def _place(self, sequence: int) -> int:
        """Return the place of the part that alone may hold a sequence."""
        return bisect_right(self._firsts, sequence) - 1

    def _stretches(
        self, sequences: Sequence[int]
    ) -> Iterator[tuple[dict[int, SequencedT], Sequence[int]]]:
        """Yield parts, and those of rising sequences that may be in each."""
        start, stop = 0, len(sequences)
        while start < stop:
            place, end = bisect_right(self._firsts, sequences[start]), stop
            if place < len(self._firsts):
                end = bisect_left(sequences, self._firsts[place], start, stop)
            yield self.parts[place - 1], sequences[start:end]
            start = end

    def _settle(self, place: int, before: int) -> None:
        """A part that held so many sequences may hold fewer."""
        parts, firsts = self.parts, self._firsts
        part = parts[place]
        count = len(part)
        if part is self._last:
            return
        self._others -= before - count
        if not count:
            del parts[place], firsts[place]
            firsts[0] = 0
        elif count == self._few < before:
            if place and len(parts[place - 1]) <= self._few:
                parts[place - 1 : place + 1] = [parts[place - 1] | part]
                del firsts[place]
            elif parts[place + 1] is not self._last and len(parts[place + 1]) <= self._few:
                parts[place : place + 2] = [part | parts[place + 1]]
                del firsts[place + 1]
            else:
                parts[place] = dict(part)  # in no more room than it needs


class PartedOrder(Generic[OrderedKeyT, OrderedT]):
    """Values by key in the order in which they came, however many; they leave anywhere.

    To find a key all parts are asked, the oldest first, as a client mostly takes back what it has
    had for longest; that is 17 parts for 1.4 million keys, in less than a microsecond. Of two
    neighbours one has more than a third of what it could, or they are put together, so there are
    never more than six for what would fill one.

    Args:
        entries: those there are already, no more than a part may have; nobody else may use them.
        part_max: so many keys are in a part.

    Attributes:
        parts: the values, in dictionaries by their order; for whoever takes leave of them, or goes
            through some at a time.
    """

    # _others: how many keys are in all parts but the last. Only the last may be empty.
    __slots__ = ("_few", "_last", "_others", "_part_max", "parts")

    def __init__(
        self,
        entries: dict[OrderedKeyT, OrderedT] | None = None,
        *,
        part_max: int = ORDERED_PART_MAX,
    ) -> None:
        self._last = {} if entries is None else entries
        self.parts = [self._last]
        self._others = 0
        self._part_max, self._few = part_max, part_max // 3

    def __len__(self) -> int:
        return self._others + len(self._last)

    def __iter__(self) -> Iterator[OrderedKeyT]:
        if len(self.parts) == 1:  # as nearly always; `chain` takes half as long again
            return iter(self._last)
        return chain.from_iterable(self.parts)

    def __contains__(self, key: OrderedKeyT) -> bool:
        for part in self.parts:  # noqa: SIM110 - `any` takes twice as long
            if key in part:
                return True
        return False

    def __getitem__(self, key: OrderedKeyT) -> OrderedT:
        for part in self.parts:
            if key in part:
                return part[key]
        raise KeyError(key)

    def __setitem__(self, key: OrderedKeyT, value: OrderedT) -> None:
        for part in self.parts:
            if key in part:
                part[key] = value
                return
        self.add(key, value)

    def __delitem__(self, key: OrderedKeyT) -> None:
        if not self.discard(key):
            raise KeyError(key)

    def get(self, key: OrderedKeyT) -> OrderedT | None:
        """Return the value of a key, None if it has none."""
        for part in self.parts:
            if key in part:
                return part[key]
        return None

    def add(self, key: OrderedKeyT, value: OrderedT) -> None:
        """Give a value to a key that has none."""
        if len(self._last) >= self._part_max:
            self._others += len(self._last)
            self._last = {}
            self.parts.append(self._last)
        self._last[key] = value

    def discard(self, key: OrderedKeyT) -> bool:
        """Take a key out; tell whether it was there."""
        for part in self.parts:
            if key in part:
                del part[key]
                if part is not self._last:
                    self._settle(part)
                return True
        return False

    def values(self) -> Iterator[OrderedT]:
        """Iterate over the values."""
        return chain.from_iterable([part.values() for part in self.parts])

    def items(self) -> Iterator[tuple[OrderedKeyT, OrderedT]]:
        """Iterate over keys and their values."""
        return chain.from_iterable([part.items() for part in self.parts])

    def _settle(self, part: dict[OrderedKeyT, OrderedT]) -> None:
        """A part that is not the last has one key fewer."""
        self._others -= 1
        count = len(part)
        if count and count != self._few:
            return
        parts = self.parts
        place = next(place for place, each in enumerate(parts) if each is part)
        if not count:
            del parts[place]
        elif place and len(parts[place - 1]) <= self._few:
            parts[place - 1 : place + 1] = [parts[place - 1] | part]
        elif parts[place + 1] is not self._last and len(parts[place + 1]) <= self._few:
            parts[place : place + 2] = [part | parts[place + 1]]
