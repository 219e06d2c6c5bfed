"""How many messages of a set of subjects each block has, as far as that has been counted.

A consumer counts what is left after its position, and looks through blocks for what it wants. With
a rare subject in a long stream that means all blocks, and almost none of them changes before it
counts again.
"""

from __future__ import annotations

from typing import Protocol

_BLOCKS_MAX = 100_000  # then it starts over, as most of these blocks may be gone


class CountedBlock(Protocol):
    """What is asked of a block (`store/blocks/block.py`)."""

    number: int
    version: int
    count: int
    live: int


class BlockCounts:
    """Counts of messages by block; a block that has changed since counts as unknown."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[int, int, int], int]] = {}

    def of(self, block: CountedBlock) -> int | None:
        """Return how many wanted messages a block has, None when that is not known."""
        state, count = self._known.get(block.number, (None, 0))
        return count if state == _state(block) else None

    def note(self, block: CountedBlock, count: int) -> None:
        """Remember how many wanted messages a block has."""
        if len(self._known) >= _BLOCKS_MAX:
            self._known.clear()
        self._known[block.number] = _state(block), count


def _state(block: CountedBlock) -> tuple[int, int, int]:
    """Return what changes with every message that is added or removed."""
    return block.version, block.count, block.live
