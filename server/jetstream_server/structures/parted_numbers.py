"""Rising numbers, however many, in lists none of which becomes large.

A list that grows is copied, to memory that the system has to find: at a million numbers that takes
15 to 50 ms, in whichever turn the next one comes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain

_SHIFT = 15
PART = 1 << _SHIFT  # numbers in each list but the last; it grows in less than a millisecond


class PartedNumbers:
    """Rising numbers by their places, which begin with 0.

    Args:
        numbers: the first ones.
    """

    __slots__ = ("_last", "_parts")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._last: list[int] = []
        self._parts: list[list[int]] = [self._last]  # there is always one; only the last grows
        self.extend(numbers)

    def __len__(self) -> int:
        return ((len(self._parts) - 1) << _SHIFT) + len(self._last)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._parts)

    def __getitem__(self, place: int) -> int:
        return self._parts[place >> _SHIFT][place & (PART - 1)]

    @property
    def parts(self) -> list[list[int]]:
        """Return the lists, for whoever lets go of them."""
        return self._parts

    @property
    def last(self) -> int:
        """Return the last number; there has to be one."""
        return self._last[-1]

    def append(self, number: int) -> None:
        """Add a number above all others."""
        last = self._last
        if len(last) == PART:
            last = self._last = []
            self._parts.append(last)
        last.append(number)

    def extend(self, numbers: Iterable[int]) -> None:
        """Add rising numbers above all others."""
        rising = list(numbers)
        begin = 0
        while begin < len(rising):
            if len(self._last) == PART:
                self._last = []
                self._parts.append(self._last)
            end = begin + PART - len(self._last)
            self._last += rising[begin:end]
            begin = end

    def pop(self) -> int:
        """Take out the last number, and return it; there has to be one."""
        number = self._last.pop()
        if not self._last and len(self._parts) > 1:
            self._parts.pop()
            self._last = self._parts[-1]
        return number

    def between(self, start: int, stop: int) -> list[int]:
        """Return the numbers with start <= place < stop, as far as there are any."""
        if start >= stop:
            return []
        first, last = start >> _SHIFT, (stop - 1) >> _SHIFT
        begin, end = start & (PART - 1), ((stop - 1) & (PART - 1)) + 1
        parts = self._parts
        if first == last and first < len(parts):
            return parts[first][begin:end]
        found: list[int] = []
        for number in range(first, min(last + 1, len(parts))):
            its_end = end if number == last else PART
            found += parts[number][begin if number == first else 0 : its_end]
        return found

    def find(self, number: int) -> int:
        """Return the place of the first number that is not below this one."""
        parts = self._parts
        # The first part whose last number is not below it.
        low, high = 0, len(parts) - 1
        while low < high:
            middle = (low + high) // 2
            if parts[middle][-1] < number:
                low = middle + 1
            else:
                high = middle
        return (low << _SHIFT) + bisect_left(parts[low], number)

    def take_front(self, count: int) -> list[list[int]]:
        """Take out whole lists of what is first, no more than so many numbers, and not the last
        list; return them. All other places fall by how many numbers they hold."""
        parts = self._parts
        whole = min(count >> _SHIFT, len(parts) - 1)
        taken = parts[:whole]
        del parts[:whole]
        return taken
