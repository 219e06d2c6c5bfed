"""Which of many sequences are messages of a list of blocks."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from jetstream_server.kernels import columns
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_list import BlockList


def sort_out(
    block_list: BlockList, contents: BlockContents, sequences: array[int], start: int, stop: int
) -> tuple[array[int], array[int]]:
    """Sort sequences into those that are stored and the others.

    Args:
        sequences: `array('Q')`, never falling, of which [start, stop) are looked at.

    Returns:
        Those that are stored, `array('Q')`, and where in `sequences` the others are, `array('I')`.

    Raises:
        StoreError: a block turns out to be damaged, which takes the store offline.
    """
    held, gone = array("Q"), array("I")
    blocks = block_list.blocks
    while start < stop:
        index = block_list.index_of(sequences[start])
        if index == len(blocks):
            gone.extend(range(start, stop))
            break
        block = blocks[index]
        first = bisect_left(sequences, block.first_seq, start, stop)
        gone.extend(range(start, first))
        start = bisect_right(sequences, block.last_seq, first, stop)
        if first < start:
            # Where no sequence is left out the block itself knows which are alive.
            is_gapless = block.count == block.last_seq - block.first_seq + 1
            offsets = array("I") if is_gapless else contents.of(block).entries.offsets
            columns.living(
                sequences=sequences,
                start=first,
                stop=start,
                first_seq=block.first_seq,
                head=block.head,
                count=block.count,
                alive=block.alive,
                offsets=offsets,
                held=held,
                gone=gone,
            )
    return held, gone
