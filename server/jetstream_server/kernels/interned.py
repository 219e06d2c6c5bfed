"""Names that kernels number in the order in which they meet them.

A dictionary that grows copies all that is in it: at a million names that takes a twentieth of a
second. So names are spread over parts by their hashes, which they know already; the parts grow at
different times, each in a millisecond or two. As most collections stay small, there is one part
until it holds some thousand names.
"""

from __future__ import annotations

from collections.abc import Iterable

ALONE_MAX = 8192  # names in one part alone; to spread them takes two milliseconds
PARTS = 32  # a power of two; with many more, a new name takes a fifth longer


class Interned:
    """Names and their numbers.

    Args:
        names: different ones, that have the first numbers.
        count: how many there will be, as far as that is known.

    Attributes:
        names: by number. The kernels append to it.
        parts: the numbers in dictionaries, that of a name in the one at its hash modulo how many
            there are, which is a power of two. The kernels add to them.
    """

    __slots__ = ("names", "parts")

    def __init__(self, names: Iterable[bytes] = (), count: int = 0) -> None:
        self.names: list[bytes] = []
        self.parts: list[dict[bytes, int]] = [{} for _ in range(PARTS if count > ALONE_MAX else 1)]
        for name in names:
            self.number(name)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: bytes) -> int:
        return self._part(name)[name]

    def get(self, name: bytes) -> int:
        """Return the number of a name, -1 if it has none."""
        return self._part(name).get(name, -1)

    def number(self, name: bytes) -> int:
        """Return the number of a name, which gets one if it has none."""
        names = self.names
        number = self._part(name).setdefault(name, len(names))
        if number == len(names):
            names.append(name)
        return number

    def spread(self) -> None:
        """Spread names that are many over many parts, if they are in one."""
        if len(self.parts) > 1 or len(self.names) <= ALONE_MAX:
            return
        parts: list[dict[bytes, int]] = [{} for _ in range(PARTS)]
        for number, name in enumerate(self.names):
            parts[hash(name) % PARTS][name] = number
        self.parts = parts

    def _part(self, name: bytes) -> dict[bytes, int]:
        parts = self.parts
        return parts[hash(name) % len(parts)]
