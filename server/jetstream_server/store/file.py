"""Messages in files: appended to an open block, acknowledged when a flush has carried it to disk.

What is said to a store is true in memory at once and on disk after the next flush (`commit`); who
tells the outside waits for that. Appending is in `store/block_log.py`, removing in
`store/block_pruning.py`, with the invariants that recovery (`store/recovery.py`) relies on; here
are the limits, and how a store is opened.

Full disk: appends raise StoreError until there is room again; see `commit` for what happens to
what is queued. Deleting and purging go on, since they are what makes room. After any other failure
the store is offline for good: nothing is queued any more and everything raises.
"""

from __future__ import annotations

from array import array
from itertools import islice
from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.store import index as block_index
from jetstream_server.store import recovery, tombstone
from jetstream_server.store.block import (
    Block,
    BlockWriter,
    Scan,
    seal_block,
)
from jetstream_server.store.block_log import room_for
from jetstream_server.store.block_pruning import BlockPruning
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.compressed_block import CHUNK_BYTES
from jetstream_server.store.content_cache import ContentCache
from jetstream_server.store.high_water import HighWater, missing
from jetstream_server.store.index import Entries
from jetstream_server.store.ports import Limits

BLOCK_BYTES = 8 * 1024 * 1024  # as the genuine server; a larger single record gets its own block
# Before others get their turn: blocks, and messages of subjects that have far too many.
EXPIRED_AT_ONCE = 2
TRIMMED_AT_ONCE = 8
DELETED_AT_ONCE = 500
_ALL = 1 << 62


class FileStore(BlockPruning):
    """A sequence of messages in a folder of blocks.

    Args:
        folder: where the blocks are, or will be.
        commit: the queue to the disk.
        cache: contents of sealed blocks, shared with other stores.
        first_seq: the first sequence to be used, if nothing is there; 0 for 1.
        is_fresh: nothing is there, whatever the folder says: its removal is queued.
        block_bytes: when a block is full; for tests.
        chunk_bytes: how much of a block is compressed together; for tests.

    Attributes:
        notes: what recovery had to do, for the operator's log.
    """

    def __init__(
        self,
        folder: Path,
        commit: GroupCommit,
        cache: ContentCache | None = None,
        *,
        first_seq: int = 0,
        is_fresh: bool = False,
        block_bytes: int = BLOCK_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        cache = cache or ContentCache(commit.disk)
        super().__init__(folder, commit, cache, first_seq, block_bytes, chunk_bytes)
        if not is_fresh:
            try:
                self._recover()
            except StoreError as error:
                self._take_offline(error)

    # -- limits ----------------------------------------------------------------------------

    def enforce(self, limits: Limits, now: int) -> list[tuple[int, int]]:
        """Remove the oldest messages until `limits` hold: age, then per subject, count, bytes."""
        removed: list[tuple[int, int]] = []
        if self._offline:
            return removed
        if limits.max_age_ns > 0 and self._messages:
            expired_at = now - limits.max_age_ns
            if self._find_oldest()[1] <= expired_at:
                is_all = self._blocks[-1].last_ts <= expired_at  # which is quick however many
                most = len(self._blocks) if is_all else EXPIRED_AT_ONCE
                self._trim(0, 0, expired_at, removed, most)
        if limits.max_msgs_per_subject > 0:
            self._enforce_per_subject(limits.max_msgs_per_subject, removed)
            if self._overfull:  # what it is yet to remove makes room for messages in front
                return removed
        messages = self._messages - limits.max_msgs if limits.max_msgs >= 0 else 0
        accounted = self._held_bytes - limits.max_bytes if limits.max_bytes >= 0 else 0
        if self._messages and (messages > 0 or accounted > 0):
            self._trim(
                max(messages, 0),
                max(accounted, 0),
                -_ALL,
                removed,
                TRIMMED_AT_ONCE,
                gives_way=True,
            )
        return removed

    def exceeds(self, limits: Limits) -> bool:
        """Return whether `enforce` left something for another call."""
        return not self._offline and (
            0 <= limits.max_msgs < self._messages
            or 0 <= limits.max_bytes < self._held_bytes
            or (
                limits.max_msgs_per_subject > 0
                and (bool(self._overfull) or limits.max_msgs_per_subject != self._per_subject_max)
            )
        )

    def _trim(
        self,
        messages: int,
        accounted: int,
        expired_at: int,
        removed: list[tuple[int, int]],
        blocks_max: int,
        *,
        gives_way: bool = False,
    ) -> None:
        """Remove from the front until that much is gone and nothing has expired, or so many blocks
        have been emptied."""
        start = self.first_seq
        target = self._last_seq + 1
        for number, block in enumerate(self._blocks):
            if number == blocks_max:
                target = block.first_seq
                break
            if not block.live:
                continue
            if block.live > messages and block.accounted > accounted and block.last_ts > expired_at:
                content = self._content(block)
                entry, *_ = self._measure(
                    block, content, block.count, messages, accounted, expired_at
                )
                if entry < block.count:
                    target = block.sequence(content, entry)
                    break
            messages -= block.live
            accounted -= block.accounted
        self.truncate_front(target, gives_way=gives_way)
        removed.append((start, target))

    def _enforce_per_subject(self, limit: int, removed: list[tuple[int, int]]) -> None:
        table, counts = self._table, self._table.counts
        if limit != self._per_subject_max:
            self._per_subject_max = limit
            self._overfull = dict.fromkeys(n for n, count in enumerate(counts) if count > limit)
        gone: list[int] = []
        overfull = self._overfull
        trimmed = [n for n in self._grown if counts[n] > limit and n not in overfull]
        for number in trimmed:
            excess = counts[number] - limit
            if excess == 1 and self._holds(table.firsts[number], number):
                gone.append(table.firsts[number])
            else:
                gone.extend(islice(self._sequences_of(number), excess))
        self._grown.clear()
        if overfull and self._is_rewriting():  # lest rewrites pile up in a flush
            overfull = {}
        while overfull and len(gone) < DELETED_AT_ONCE:
            number = next(iter(overfull))
            excess = max(counts[number] - limit, 0)  # others may have removed some meanwhile
            count = min(excess, DELETED_AT_ONCE - len(gone))
            if count:
                gone.extend(islice(self._sequences_of(number), count))
            if count == excess:
                del overfull[number]
                trimmed += [number] if excess else []
        if not gone:
            return
        if limit == 1:  # the one that stays is known: spare the next call the search for it
            for number in trimmed:
                table.firsts[number] = self._last_of(number)
        self.delete(gone)
        removed.extend((sequence, sequence + 1) for sequence in gone)

    # -- damage ----------------------------------------------------------------------------

    def _take_offline(self, error: StoreError) -> None:
        if error.offset >= 0 and not self._offline:
            self.notes.append(recovery.REMEDY)
            marker = self._folder / recovery.DAMAGED_NAME
            self._commit.replace(self, marker, [f"{error}\n".encode()])
        super()._take_offline(error)

    # -- recovery --------------------------------------------------------------------------

    def _recover(self) -> None:
        high_water, trouble = self._high_water.load()
        findings = recovery.read_folder(self._folder, self._commit.disk, self._table, high_water)
        self.notes = [*([trouble] if trouble else []), *findings.notes]
        floor = 0
        for found in findings.blocks:
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
            self._is_used = True
            self._next_number = findings.blocks[-1].block.number + 1
            self._replay(findings, floor)
        if findings.accepts_loss:
            self._accept_loss(high_water)

    def _compare(self, findings: recovery.Findings, high_water: HighWater, floor: int) -> None:
        """Hold what was found against what was durable.

        Raises:
            StoreError: something is missing, and nobody has accepted that.
        """
        sizes = {found.block.number: found.block.size for found in findings.blocks}
        last_seq = max(self._last_seq, floor - 1)
        error = missing(high_water, sizes, last_seq, floor, self._folder)
        if error is not None and not findings.accepts_loss:
            raise error
        if error is not None:
            self.notes.append(f"accepted the loss: {error}")

    def _go_on_from(self, high_water: HighWater) -> None:
        # A block that is written on may stand in the mark: it must not go without a new one.
        sealed = {
            block.number: max(block.last_seq, high_water.sealed.get(block.number, 0))
            for block in self._blocks
            if self._open is None
            or block is not self._open.block
            or block.number in high_water.sealed
        }
        self._high_water.adopt(high_water, sealed)

    def _accept_loss(self, high_water: HighWater) -> None:
        """Go on behind all that was ever used."""
        self._next_number = max(self._next_number, high_water.last_number + 1)
        if self._last_seq < high_water.last_seq:
            self.skip(high_water.last_seq - self._last_seq, self._last_ts)
        self._high_water.restate()
        self._commit.remove(self, self._folder / recovery.ACCEPT_NAME, waits=True)

    def _number_from(self, found: recovery.FoundBlock) -> None:
        """Move the last sequence and time to where a block leaves them."""
        block = found.block
        for stone in found.tombstones:
            if stone.kind == tombstone.STARTED:
                self._last_seq, self._last_ts = stone.sequence, stone.timestamp
        if block.count:
            self._last_seq, self._last_ts = block.last_seq, block.last_ts
        for stone in found.tombstones:
            if stone.kind == tombstone.SKIPPED and stone.sequence > self._last_seq:
                self._last_seq, self._last_ts = stone.sequence, stone.timestamp
            elif stone.kind == tombstone.FLOOR:
                self._last_seq = max(self._last_seq, stone.sequence - 1)

    def _adopt(self, found: recovery.FoundBlock, *, is_last: bool) -> None:
        """Take a block in, with all its messages."""
        block, scan = found.block, found.scan
        self._blocks.append(block)
        self._messages += block.live
        self._hold(block.accounted)
        if scan is None:
            return
        if found.redoes:
            self._redo(block, found.whole)
        elif found.rewrites:
            self._commit.replace(self, block.path, [found.whole])
        if is_last and block.size <= recovery.REOPEN_BYTES and not block.is_compressed:
            self._reopen(block, found.whole, scan)
        else:
            entries = Entries(scan.positions, scan.subject_ids, scan.offsets())
            index = seal_block(block, found.whole, entries, array("I"), self._table)
            self._pin(block)
            end = [block_index.end(found.compressed_bytes)] if found.compressed_bytes else []
            self._commit.replace(self, block.index_path, [index, *end], is_spare=True)

    def _reopen(self, block: Block, whole: bytes, scan: Scan) -> None:
        self._open = open_block = BlockWriter(block, room_for(len(whole)))
        open_block.buffer[: len(whole)] = whole
        open_block.used = self._durable = self._marked = len(whole)
        if self._commit.queued(block.path) is not None:  # a full disk has yet to take it
            self._durable = self._marked = 0
        self._epoch, self._epochs_used = self._commit.taken, (len(whole), len(whole))
        open_block.positions.extend(scan.positions)
        open_block.subject_ids.extend(scan.subject_ids)
        open_block.offsets.extend(scan.offsets())

    def _replay(self, findings: recovery.Findings, floor: int) -> None:
        """Carry out what the tombstones say."""
        self._floor = floor
        self._last_seq = max(self._last_seq, floor - 1)
        self._drop_below(floor)
        for found in findings.blocks:
            for stone in found.tombstones:
                if stone.kind == tombstone.DELETED:
                    for start, stop in stone.ranges():
                        self._replay_range(start, stop, found.block.number)
        self._tidy(self._blocks)

    def _replay_range(self, start: int, stop: int, number: int) -> None:
        self._oldest = None
        for index in range(self._block_index(start), len(self._blocks)):
            block = self._blocks[index]
            if block.first_seq >= stop:
                break
            content = self._content(block)
            entry = max(block.at_or_after(content, start), block.head)
            while entry < block.count and block.sequence(content, entry) < stop:
                if block.is_alive(entry):
                    self._bury(block, content, entry)
                    block.noted.add(number)
                entry += 1
