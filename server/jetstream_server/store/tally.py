"""Bytes that many stores hold together, known without asking each of them."""

from __future__ import annotations


class Tally:
    """The bytes of all stores that are counted in it.

    Attributes:
        bytes: what they hold, as `StoreState.bytes` says of each.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Holding:
    """The bytes one store holds, and the tally they are counted in.

    Attributes:
        bytes: of this store alone.
        tally: where they are counted as well.
    """

    __slots__ = ("bytes", "tally")

    def __init__(self) -> None:
        self.bytes = 0
        self.tally = Tally()

    def add(self, size: int) -> None:
        """Note that the store holds `size` bytes more."""
        self.bytes += size
        self.tally.bytes += size

    def count_in(self, tally: Tally | None) -> None:
        """From now on add to a tally, and to no other; None for one of its own."""
        self.tally.bytes -= self.bytes
        self.tally = tally or Tally()
        self.tally.bytes += self.bytes
