"""Numbers of very many names, in parts that grow one after the other.

A dictionary that grows copies all that is in it: at seven hundred thousand names that takes a
twentieth of a second. Here names are spread over parts by their hashes, which they know already.
The parts grow at different times, each in less than a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable

_PARTS = 256  # a power of two
_MASK = _PARTS - 1


class PartedNumbers:
    """Names with a number each.

    Attributes:
        parts: the same in dictionaries; whoever holds one of these changes it.
    """

    def __init__(self) -> None:
        self.parts: list[dict[bytes, int]] = [{} for _ in range(_PARTS)]

    def note_all(self, names: Iterable[bytes], first: int) -> list[int]:
        """Give names the numbers from `first` on, but for those that have one; return the numbers
        that these were to have."""
        parts, taken = self.parts, list[int]()
        for number, name in enumerate(names, first):
            if parts[hash(name) & _MASK].setdefault(name, number) != number:
                taken.append(number)
        return taken

    def get(self, name: bytes) -> int | None:
        """Return the number of a name, None if it has none."""
        return self.parts[hash(name) & _MASK].get(name)
