"""Bytes that many stores hold together, known without asking each of them."""

from __future__ import annotations


class Tally:
    """The bytes of the stores that count in it.

    Attributes:
        bytes: what they hold, as `StoreState.bytes` says of each.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Holding:
    """The bytes one store holds, and the tally it counts them in.

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
        """Count in a tally from now on, and in no other; None for one of its own."""
        self.tally.bytes -= self.bytes
        self.tally = tally or Tally()
        self.tally.bytes += self.bytes
