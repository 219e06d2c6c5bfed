"""Bytes that many stores hold together, without asking each of them."""

from __future__ import annotations


class Tally:
    """The bytes of the stores that count in it.

    Attributes:
        bytes: what they hold, as `StoreState.bytes` says of each.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Tallied:
    """A store that keeps the tally it counts in up to date."""

    def __init__(self) -> None:
        self._held_bytes = 0
        self._tally = Tally()

    def _hold(self, size: int) -> None:
        """Note that the store holds `size` bytes more."""
        self._held_bytes += size
        self._tally.bytes += size

    def count_in(self, tally: Tally | None) -> None:
        """Count in a tally from now on, and in no other; None for one of its own."""
        self._tally.bytes -= self._held_bytes
        self._tally = tally or Tally()
        self._tally.bytes += self._held_bytes
