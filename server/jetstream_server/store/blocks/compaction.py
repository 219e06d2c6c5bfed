"""Blocks that are done with: empty ones are removed, mostly dead ones are rewritten.

Invariant that recovery (`store/blocks/recovery.py`) relies on: a tombstone outlives the record it
is about. Before a block is removed, those of its tombstones that older blocks still need are
repeated in the open one (`retire`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import islice

from jetstream_server.kernels import records
from jetstream_server.kernels.record_format import PREFIX
from jetstream_server.store.blocks import tombstone
from jetstream_server.store.blocks.block import Block, Scan, seal_rest
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_files import BlockFiles
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.block_log import BlockLog
from jetstream_server.store.blocks.high_water import HighWaterLog
from jetstream_server.store.blocks.index import Entries
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner

ABANDON_BYTES = 64 * 1024  # an open block with this many dead bytes and no message is left behind
COMPACT_MIN_BYTES = 256 * 1024  # smaller blocks are not worth a rewrite
COMPACTED_AT_ONCE = 1  # block, which takes some milliseconds


class Compaction:
    """Removes and rewrites the blocks of one store.

    Args:
        commit: the queue to the disk.
        owner: is told how writing went.
        block_list, contents, table: the blocks, and what stands in them.
        files: of sealed blocks.
        log: where tombstones are repeated.
        high_water: is told which blocks are removed.
        block_bytes: when a block is full.

    Attributes:
        worn: blocks that are to be rewritten when there is time.
    """

    def __init__(
        self,
        commit: GroupCommit,
        owner: Owner,
        block_list: BlockList,
        contents: BlockContents,
        table: SubjectTable,
        files: BlockFiles,
        log: BlockLog,
        high_water: HighWaterLog,
        *,
        block_bytes: int,
    ) -> None:
        self.worn: dict[Block, None] = {}
        self._commit = commit
        self._owner = owner
        self._list = block_list
        self._contents = contents
        self._table = table
        self._files = files
        self._log = log
        self._high_water = high_water
        self._min_bytes = min(COMPACT_MIN_BYTES, block_bytes // 2)  # smaller blocks are left alone
        self._rewritten: list[Block] = []  # and perhaps not on the disk yet

    def tidy(self, blocks: Iterable[Block]) -> None:
        """Remove blocks without messages and rewrite those that are mostly dead: the first one now,
        the others one after another, each when what was queued has reached the disk."""
        self.retire_emptied()
        left = COMPACTED_AT_ONCE
        for block in list(blocks):
            self.retire_emptied()  # by what removing the one before has noted
            if block.is_gone:
                continue
            if self._log.is_open(block):
                if not block.live and block.size > ABANDON_BYTES:
                    self._log.rotate()
                    self.retire_emptied()
            elif not block.live:
                self._list.remove(block)
                self.retire([block])
            elif self.is_worn(block):
                if left:
                    left -= 1
                    self.worn.pop(block, None)
                    self._rewrite(block)
                else:
                    self.worn[block] = None
        for block in list(islice(self.worn, left)):
            del self.worn[block]
            if not block.is_gone and block.live and self.is_worn(block):
                self._rewrite(block)

    def is_rewriting(self) -> bool:
        """Tell whether a rewritten block is not on the disk yet."""
        return any(map(_is_under_way, self._rewritten))

    def is_worn(self, block: Block) -> bool:
        """Tell whether a block is to be rewritten without its dead messages."""
        return (
            block is not self._list.blocks[0]  # which is soon gone as a whole
            and not self._log.is_open(block)
            and block.size > self._min_bytes
            and block.all_recorded - block.recorded > block.size // 2
        )

    # -- removing --------------------------------------------------------------------------

    def retire_emptied(self) -> None:
        """Remove the blocks that the log left behind without a message."""
        while self._log.emptied:
            self.retire([self._log.emptied.pop(0)])

    def retire(
        self, gone: list[Block], *, is_below_floor: bool = False, follows: bool = False
    ) -> None:
        """Remove sealed blocks without messages, which are no longer in the list.

        Their tombstones go with them, so those that other blocks need are repeated first. The
        removal then waits until these are durable, and until another block holds the numbers of the
        store. Nothing depends on blocks below a durable floor; they go when there is time.
        """
        for block in gone:
            self._contents.drop(block)
            block.is_gone = True
        self._log.begin()
        waiting = len(gone)  # from this block on they wait
        numbers = {block.number for block in gone}
        if self._repeat_tombstones(numbers):
            waiting = 0
        elif not self._is_outlived(gone[-1]):
            durable = [at for at, block in enumerate(gone) if block.pinned is None]
            waiting = durable[-1] if durable else 0
        self._high_water.forget(numbers, self._list.floor)
        commit, owner = self._commit, self._owner
        for at, block in enumerate(gone):
            if is_below_floor and at < waiting:
                voids = self._high_water.path
                commit.remove(owner, block.path, lazily=True, voids=voids, follows=follows)
                commit.remove(owner, block.index_path, lazily=True, follows=follows)
            else:
                commit.remove(owner, block.index_path, follows=follows)
                commit.remove(owner, block.path, waits=True)

    def _is_outlived(self, block: Block) -> bool:
        """Tell whether a newer block, which holds the numbers of the store, is on the disk."""
        for other in reversed(self._list.blocks):
            if other.number < block.number:
                continue
            if not self._log.is_open(other):
                if other.pinned is None:
                    return True
            elif self._log.is_begun_durably:
                return True
        return False

    def _repeat_tombstones(self, numbers: set[int]) -> bool:
        """Write again what the tombstones of some blocks say about blocks still there."""
        repeated = False
        for other in list(self._list.blocks):
            if not numbers.isdisjoint(other.noted):
                ranges = other.dead_ranges(self._contents.of(other))
                other.noted.clear()
                if ranges:
                    other.noted.add(self._log.note(tombstone.deleted(ranges)))
                    repeated = True
        return repeated

    # -- rewriting -------------------------------------------------------------------------

    def _rewrite(self, block: Block) -> None:
        """Rewrite a sealed block with its tombstones and live messages only.

        The last message of the store may go with it, so another block has to hold the store's
        numbers by then.
        """
        if block is self._list.blocks[-1]:
            self._log.begin()
        content = self._contents.of(block)
        positions, subject_ids, sequences = array("I"), array("I"), array("Q")
        smaller = bytearray(block.tombstones) + bytes(block.recorded)
        used = len(block.tombstones)
        for low, high in self._contents.pieces(block, content, block.head, block.count):
            used = records.gather(
                buffer=self._contents.buffer(block, content, low, high),
                positions=content.entries.positions,
                subject_ids=content.entries.subject_ids,
                alive=block.alive,
                start=low,
                stop=high,
                first_seq=block.first_seq,
                offsets=content.entries.offsets,
                target=smaller,
                used=used,
                out_positions=positions,
                out_ids=subject_ids,
                out_sequences=sequences,
            )
        block.first_seq, block.last_seq = sequences[0], sequences[-1]
        block.first_ts = PREFIX.unpack_from(smaller, positions[0])[3]
        block.last_ts = PREFIX.unpack_from(smaller, positions[-1])[3]
        block.count, block.head = len(positions), 0
        block.alive = bytearray()
        block.all_accounted, block.all_recorded = block.accounted, block.recorded
        block.noted.clear()
        block.version += 1
        self._contents.drop(block)
        entries = Entries(positions, subject_ids, Scan(sequences=sequences).offsets())
        index = seal_rest(block, smaller, entries, content, self._table)
        self._rewritten = list(filter(_is_under_way, self._rewritten))
        self._rewritten.append(block)
        self._high_water.replaced(block.number, block.last_seq)
        self._files.rewrite(block, index)


def _is_under_way(block: Block) -> bool:
    return block.pinned is not None and not block.is_gone
