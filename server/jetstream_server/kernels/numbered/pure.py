"""A number for each of some sequences, however many: counts, deadlines, places in a queue; and
sequences by the numbers they have.

A consumer whose reader has died may hold a million messages that are to go out again. Three
dictionaries of a million numbers are 300 MB, each copies all that is in it when it grows, and to
save them each number is taken out one by one; all of it keeps everybody waiting. Here they are in
pages by rising sequences, which the compiled twin keeps as plain memory: 16 bytes for each, a page
grows by itself, and to copy them all is to copy memory.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import compress

PAGE_MAX = 1024  # sequences in a page


class NumberedSequences:
    """Numbers by sequence. None is 0, which stands for having none.

    What is given together is an array (`"Q"`) in any order, quickest when it rises.

    Args:
        page_max: so many sequences are in a page, 2 to `PAGE_MAX`.
    """

    __slots__ = ("_count", "_page_max", "_pages")

    def __init__(self, page_max: int = PAGE_MAX) -> None:
        if not 2 <= page_max <= PAGE_MAX:
            raise ValueError(f"a page of {page_max}")
        self._pages: dict[int, dict[int, int]] = {}  # by sequence // page_max; none is empty
        self._page_max = page_max
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __sizeof__(self) -> int:
        own = object.__sizeof__(self) + sys.getsizeof(self._pages)
        return own + sum(map(sys.getsizeof, self._pages.values()))

    def __iter__(self) -> Iterator[int]:
        """Iterate over the sequences as they are now, rising."""
        return iter(self.columns()[0])

    def __contains__(self, sequence: int) -> bool:
        return self.get(sequence) != 0

    def get(self, sequence: int) -> int:
        """Return the number of a sequence, 0 if it has none."""
        page = self._pages.get(sequence // self._page_max)
        return 0 if page is None else page.get(sequence, 0)

    def numbers(self, sequences: array[int]) -> array[int]:
        """Return the numbers of sequences, 0 for one that has none."""
        return array("Q", map(self.get, sequences))

    def without(self, sequences: array[int]) -> array[int]:
        """Return those of some sequences that have no number."""
        return array("Q", (each for each in sequences if each not in self))

    def numbered(self, sequences: array[int], number: int) -> array[int]:
        """Return those of some sequences that have a certain number."""
        return array("Q", (each for each in sequences if self.get(each) == number))

    def follow(self, sequences: array[int], first: int) -> bytes:
        """Return for each of some sequences 1 if its number is `first`, `first + 1` and so on, and
        otherwise 0."""
        return bytes(self.get(each) == number for number, each in enumerate(sequences, first))

    def following(self, sequences: array[int], first: int) -> array[int]:
        """Return those of some sequences whose number is `first`, `first + 1` and so on."""
        return array("Q", compress(sequences, self.follow(sequences, first)))

    def columns(self) -> tuple[array[int], array[int]]:
        """Return all sequences, rising, and their numbers."""
        sequences, numbers = array("Q"), array("Q")
        for _, page in sorted(self._pages.items()):
            some = array("Q", sorted(page))
            sequences += some
            numbers.extend(map(page.__getitem__, some))
        return sequences, numbers

    def within(self, start: int, stop: int) -> tuple[array[int], array[int]]:
        """Return the sequences with start <= sequence < stop, rising, and their numbers."""
        sequences = array("Q")
        first, last = start // self._page_max, (stop - 1) // self._page_max
        for place in sorted(place for place in self._pages if first <= place <= last):
            page = self._pages[place]
            sequences.extend(sorted(each for each in page if start <= each < stop))
        return sequences, self.numbers(sequences)

    def number_all(self, sequences: array[int], number: int) -> None:
        """Give one number to each."""
        for each in sequences:
            self._set(each, number)

    def number_on(self, sequences: array[int], first: int) -> None:
        """Give them the numbers from `first` on."""
        for number, each in enumerate(sequences, first):
            self._set(each, number)

    def assign(self, sequences: array[int], numbers: array[int]) -> None:
        """Give each sequence its number; one whose number is 0 keeps what it has.

        Raises:
            ValueError: there are not as many of these as of those.
        """
        for each, number in zip(sequences, numbers, strict=True):
            if number:
                self._set(each, number)

    def pop_all(self, sequences: array[int]) -> tuple[array[int], array[int]]:
        """Take out those of some sequences that have a number; return them and their numbers."""
        found, numbers = array("Q"), array("Q")
        for each in sequences:
            place = each // self._page_max
            page = self._pages.get(place)
            if page is None or each not in page:
                continue
            found.append(each)
            numbers.append(page.pop(each))
            self._count -= 1
            if not page:
                del self._pages[place]
            elif len(page) == self._page_max // 4:
                self._pages[place] = dict(page)  # in no more room than it needs
        return found, numbers

    def drop_all(self, sequences: array[int]) -> None:
        """Take out those of some sequences that have a number."""
        self.pop_all(sequences)

    def copied(self) -> NumberedSequences:
        """Return a copy, which does not change with this."""
        copy = NumberedSequences(self._page_max)
        copy._pages = {place: dict(page) for place, page in self._pages.items()}
        copy._count = self._count
        return copy

    def clear(self) -> None:
        """Forget all."""
        self._pages.clear()
        self._count = 0

    def _set(self, sequence: int, number: int) -> None:
        page = self._pages.setdefault(sequence // self._page_max, {})
        before = len(page)
        page[sequence] = number
        self._count += len(page) - before


class RankedSequences:
    """Sequences by a number each of them has, say a deadline; a sequence may be there with several.

    Args:
        page_max: so many are in a page, 2 to `PAGE_MAX`.
    """

    __slots__ = ("_count", "_page_max", "_pages")

    def __init__(self, page_max: int = PAGE_MAX) -> None:
        if not 2 <= page_max <= PAGE_MAX:
            raise ValueError(f"a page of {page_max}")
        # Pairs of a number and a sequence, rising in and from page to page; no page is empty.
        self._pages: list[list[tuple[int, int]]] = []
        self._page_max = page_max
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __sizeof__(self) -> int:
        pairs = sum(map(len, self._pages))
        return object.__sizeof__(self) + sum(map(sys.getsizeof, self._pages)) + 56 * pairs

    def first_number(self) -> int | None:
        """Return the lowest number, None if there is no sequence."""
        return self._pages[0][0][0] if self._pages else None

    def add_all(self, sequences: array[int], number: int) -> None:
        """Add sequences that have one number."""
        for each in sequences:
            self._add((number, each))

    def add_each(self, sequences: array[int], numbers: array[int]) -> None:
        """Add sequences, each with its number.

        Raises:
            ValueError: there are not as many of these as of those.
        """
        for pair in zip(numbers, sequences, strict=True):
            self._add(pair)

    def discard_all(self, sequences: array[int], numbers: array[int]) -> None:
        """Drop each sequence with its number, if it is there.

        Raises:
            ValueError: there are not as many of these as of those.
        """
        for pair in zip(numbers, sequences, strict=True):
            place = self._place(pair)
            page = self._pages[place] if place < len(self._pages) else []
            at = bisect_left(page, pair)
            if at == len(page) or page[at] != pair:
                continue
            del page[at]
            self._count -= 1
            self._settle(place)

    def pop_through(self, number: int, count_max: int) -> array[int]:
        """Take out the sequences with a number up to one, so many at most; return them in their
        order."""
        popped: array[int] = array("Q")
        while self._pages and len(popped) < count_max:
            page = self._pages[0]
            stop = bisect_left(page, (number + 1, 0), 0, min(len(page), count_max - len(popped)))
            if not stop:
                break
            popped.extend(sequence for _, sequence in page[:stop])
            del page[:stop]
            if not page:
                del self._pages[0]
        self._count -= len(popped)
        return popped

    def clear(self) -> None:
        """Forget all."""
        self._pages.clear()
        self._count = 0

    def _place(self, pair: tuple[int, int]) -> int:
        """Return the place of the page in which a pair is or would be."""
        return max(bisect_left(self._pages, True, key=lambda page: page[0] > pair) - 1, 0)

    def _add(self, pair: tuple[int, int]) -> None:
        if not self._pages:
            self._pages.append([pair])
            self._count = 1
            return
        place = self._place(pair)
        page = self._pages[place]
        at = bisect_left(page, pair)
        if at < len(page) and page[at] == pair:
            return
        if len(page) >= self._page_max:
            is_last = place + 1 == len(self._pages) and at == len(page)
            half = len(page) if is_last else len(page) // 2
            self._pages.insert(place + 1, page[half:])
            del page[half:]
            page = page if at <= half and not is_last else self._pages[place + 1]
        insort(page, pair)
        self._count += 1

    def _settle(self, place: int) -> None:
        """Something of a page was dropped: put it together with a neighbour if both are small."""
        few = self._page_max // 4
        for first in (place, place - 1):
            some = self._pages[max(first, 0) : first + 2]
            if len(some) == 2 and max(map(len, some)) <= few:
                self._pages[first : first + 2] = [some[0] + some[1]]
                return
        if not self._pages[place]:
            del self._pages[place]
