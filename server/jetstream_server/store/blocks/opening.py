"""Opening a file store: the parts of the store are given what recovery found.

`recovery.py` decides what on the disk may be believed; here blocks are numbered, compared with the
high-water mark and taken in, and then what their tombstones say is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.store.blocks import recovery, tombstone
from jetstream_server.store.blocks.block import Block
from jetstream_server.store.blocks.block_files import BlockFiles
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.block_log import BlockLog
from jetstream_server.store.blocks.block_pruning import BlockPruning
from jetstream_server.store.blocks.compaction import Compaction
from jetstream_server.store.blocks.health import ACCEPT_NAME, Health
from jetstream_server.store.blocks.high_water import HighWater, HighWaterLog, missing
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner


@dataclass(slots=True)
class Opening:
    """The parts of a store that is about to be opened and holds nothing yet.

    Attributes:
        folder: where the blocks are.
        commit: the queue to the disk.
        owner: is told how writing went.
        block_list, table: take in what is there.
        files, log, pruning, compaction: carry out what is left to do.
        high_water: how far the store had come.
        health: takes notes.
    """

    folder: Path
    commit: GroupCommit
    owner: Owner
    block_list: BlockList
    table: SubjectTable
    files: BlockFiles
    log: BlockLog
    pruning: BlockPruning
    compaction: Compaction
    high_water: HighWaterLog
    health: Health

    def run(self) -> None:
        """Take in what the folder holds.

        Raises:
            StoreError: it is damaged, or cannot be read.
        """
        high_water, trouble = self.high_water.load()
        findings = recovery.read_folder(self.folder, self.commit.disk, self.table, high_water)
        self.health.notes += [*([trouble] if trouble else []), *findings.notes]
        floor = last = 0
        for found in findings.blocks:
            last = _end(found.block, last)
            self._number_from(found)
            for stone in found.tombstones:
                if stone.kind in (tombstone.STARTED, tombstone.FLOOR):
                    is_start = stone.kind == tombstone.STARTED
                    floor = max(floor, stone.floor() if is_start else stone.sequence)
        self._compare(findings, high_water, floor)
        for found in findings.blocks:
            self._adopt(found, is_last=found is findings.blocks[-1])
        self._go_on_from(high_water)
        if findings.blocks:
            self.log.next_number = findings.blocks[-1].block.number + 1
            self._replay(findings, floor)
        if findings.accepts_loss:
            self._accept_loss(high_water)

    def _number_from(self, found: recovery.FoundBlock) -> None:
        """Move the last sequence and time to where a block leaves them."""
        block, numbers = found.block, self.block_list
        for stone in found.tombstones:
            if stone.kind == tombstone.STARTED:
                numbers.end_with(stone.sequence, stone.timestamp)
        if block.count:
            numbers.end_with(block.last_seq, block.last_ts)
        for stone in found.tombstones:
            if stone.kind == tombstone.SKIPPED and stone.sequence > numbers.last_seq:
                numbers.end_with(stone.sequence, stone.timestamp)
            elif stone.kind == tombstone.FLOOR:
                numbers.use_up(stone.sequence - 1)

    def _compare(self, findings: recovery.Findings, high_water: HighWater, floor: int) -> None:
        """Compare what was found with what was durable.

        Raises:
            StoreError: something is missing, and nobody has accepted that.
        """
        sizes = {found.block.number: found.block.size for found in findings.blocks}
        last_seq = max(self.block_list.last_seq, floor - 1)
        error = missing(high_water, sizes, last_seq, floor, self.folder)
        if error is not None and not findings.accepts_loss:
            raise error
        if error is not None:
            self.health.notes.append(f"accepted the loss: {error}")

    def _adopt(self, found: recovery.FoundBlock, *, is_last: bool) -> None:
        """Take a block in, with all its messages."""
        block, scan = found.block, found.scan
        self.block_list.adopt(block)
        if scan is None:
            return
        if found.redoes:
            self.files.redo(block, found.whole)
        elif found.rewrites:
            self.files.put_back(block, found.whole)
        if is_last and block.size <= recovery.REOPEN_BYTES and not block.is_compressed:
            self.log.resume(block, found.whole, scan)
        else:
            self.files.index_again(block, found.whole, scan, found.compressed_bytes)

    def _go_on_from(self, high_water: HighWater) -> None:
        # The mark may name a block that is still written to; before that block goes, the mark must
        # be replaced.
        sealed = {
            block.number: max(block.last_seq, high_water.sealed.get(block.number, 0))
            for block in self.block_list.blocks
            if not self.log.is_open(block) or block.number in high_water.sealed
        }
        self.high_water.adopt(high_water, sealed)

    def _replay(self, findings: recovery.Findings, floor: int) -> None:
        """Carry out what the tombstones say."""
        self.pruning.replay_floor(floor)
        for found in findings.blocks:
            for stone in found.tombstones:
                if stone.kind == tombstone.DELETED:
                    for start, stop in stone.ranges():
                        self.pruning.replay_range(start, stop, found.block.number)
        self.compaction.tidy(self.block_list.blocks)

    def _accept_loss(self, high_water: HighWater) -> None:
        """Go on behind all that was ever used."""
        log, numbers = self.log, self.block_list
        log.next_number = max(log.next_number, high_water.last_number + 1)
        if numbers.last_seq < high_water.last_seq:
            log.skip(high_water.last_seq - numbers.last_seq, numbers.last_ts)
            self.compaction.retire_emptied()
        self.high_water.restate()
        self.commit.remove(self.owner, self.folder / ACCEPT_NAME, waits=True)


def _end(block: Block, last: int) -> int:
    """Return the last sequence of the blocks up to this one.

    Args:
        last: of those before it.

    Raises:
        StoreError: it begins within them, so one of the files is another one's.
    """
    if not block.count:
        return last
    if block.first_seq <= last:
        reason = (
            f"a block begins with message {block.first_seq}, and one before it ends with {last}"
        )
        raise StoreError(reason, str(block.path), 0)
    return block.last_seq
