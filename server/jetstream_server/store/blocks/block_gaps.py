"""Which sequences are missing in the blocks of a store, as they are at one moment.

Where they are is known without a look at the disk but for blocks from which messages were left out
when they were rewritten. The entries of these are looked up beforehand, a block at a time, and do
not change; a copy of what says which entries are alive is made in no time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from jetstream_server.store.blocks.block import Block, Content
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.gaps import LOOKED_AT_ONCE, missing_among


class _Shot(NamedTuple):
    """One block as it was.

    Attributes:
        live: its messages, if nothing between them is missing.
        first_seq, offsets, alive: otherwise; of the entries from the head on. `alive` is empty
            where all are.
    """

    live: range
    first_seq: int = 0
    offsets: Sequence[int] = ()
    alive: bytes = b""


class BlockGaps:
    """The missing sequences of one store.

    Args:
        block_list: the blocks.
        contents: of the blocks.
    """

    def __init__(self, block_list: BlockList, contents: BlockContents) -> None:
        self._list = block_list
        self._contents = contents
        self._held: dict[int, tuple[Block, int, Content]] = {}  # by number

    def prepare(self) -> bool:
        """Look up the entries of one more block; tell whether nothing is left to look up.

        Raises:
            StoreError: it is damaged.
        """
        for block in self._list.blocks:
            if _has_gaps(block) and self._known(block) is None:
                self._held[block.number] = block, block.version, self._contents.of(block)
                return False
        return True

    def parts(self) -> Iterator[list[int]]:
        """Return the missing sequences as they are now, some at a time.

        Raises:
            StoreError: a block that was not prepared is damaged.
        """
        shots = [self._shot(block) for block in self._list.blocks if block.count]
        self._held.clear()
        first_seq = self._list.oldest()[0] if self._list.is_used else 1
        return missing_among(_live(shots), first_seq, self._list.last_seq)

    def _known(self, block: Block) -> Content | None:
        known = self._held.get(block.number)
        if known is None or known[0] is not block or known[1] != block.version:
            return None
        return known[2]

    def _shot(self, block: Block) -> _Shot:
        if not _has_gaps(block):
            return _Shot(range(block.first_seq + block.head, block.last_seq + 1))
        content = self._known(block) or self._contents.of(block)
        head, count = block.head, block.count
        offsets: Sequence[int] = content.entries.offsets
        if len(offsets):
            offsets = array("I", offsets[head:count])
        else:
            offsets = range(head, count)
        return _Shot(range(0), block.first_seq, offsets, bytes(block.alive[head:count]))


def _has_gaps(block: Block) -> bool:
    """Tell whether something is missing between the first message of a block and its end."""
    is_whole = block.last_seq - block.first_seq + 1 == block.count
    return not is_whole or block.live != block.count - block.head


def _live(shots: list[_Shot]) -> Iterator[Sequence[int]]:
    for shot in shots:
        if shot.live:
            yield shot.live
        for low in range(0, len(shot.offsets), LOOKED_AT_ONCE):
            entries = shot.offsets[low : low + LOOKED_AT_ONCE]
            alive = shot.alive[low : low + LOOKED_AT_ONCE]
            first_seq = shot.first_seq
            chosen = compress(entries, alive) if alive else entries
            yield [first_seq + offset for offset in chosen]
