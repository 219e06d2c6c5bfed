"""The writing end of a file store: the open block, and what becomes of it at a flush.

Knows how messages and tombstones get into a block, when a block is full, and what a flush that went
well or badly means for the next message.

Invariants that recovery (`store/blocks/recovery.py`) relies on: a block begins with a STARTED
record, and has bytes on disk only once the block before it is durable; so the newest block always
knows the numbers of the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns, records
from jetstream_server.kernels.record_format import (
    HEADER_ACCOUNTED_BYTES,
    PREFIX_BYTES,
    SEQUENCE_MAX,
    SPAN_MAX,
    UNACCOUNTED_BYTES,
)
from jetstream_server.protocol.ops import (
    HEADER_START,
    PAYLOAD_STOP,
    STRIDE,
    SUBJECT_START,
    SUBJECT_STOP,
    PubRun,
)
from jetstream_server.store.blocks import erasure, tombstone
from jetstream_server.store.blocks.block import BLOCK_SUFFIX, Block, BlockWriter, Scan
from jetstream_server.store.blocks.block_files import BlockFiles
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.health import Health
from jetstream_server.store.blocks.high_water import HighWaterLog
from jetstream_server.store.blocks.restamp import restamp
from jetstream_server.store.blocks.subjects import RECENT_MAX, SubjectTable
from jetstream_server.store.blocks.tombstone import Tombstone
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner
from jetstream_server.store.ports import Times

# A buffer begins small and doubles: most streams are small. A stream that has filled one block will
# fill another, so that one begins with all its room; what is never written to costs no memory.
FIRST_ROOM_BYTES = 64 * 1024
MARK_BYTES = 256 * 1024  # how much may become durable before a DURABLE record says so
RESTING_SHARE = 4  # a block filled to less than this part is not worth a file of its own
RENUMBER_MIN = 4096  # subjects without messages before they are forgotten
# Subjects gone through for that, of a store that is written to and of one at rest: cold ones take
# more than a microsecond each.
PASSED_AT_ONCE, PASSED_AT_REST = 2000, 10_000


class BlockLog:
    """Messages that go into an open block, and from there to the disk.

    Args:
        folder: where the blocks are, or will be.
        commit: the queue to the disk.
        owner: is told how writing went.
        block_list: gets the open block as its last.
        table: the store's subjects.
        files: of sealed blocks.
        high_water: is told how far the blocks came.
        health: whether anything may be written.
        block_bytes: when a block is full.

    Attributes:
        emptied: blocks that were sealed without a live message and are no longer in the list. The
            caller takes them and has them removed.
        next_number: of the next block.
    """

    def __init__(
        self,
        folder: Path,
        commit: GroupCommit,
        owner: Owner,
        block_list: BlockList,
        table: SubjectTable,
        files: BlockFiles,
        high_water: HighWaterLog,
        health: Health,
        *,
        block_bytes: int,
    ) -> None:
        self.emptied: list[Block] = []
        self.next_number = 1
        self._folder = folder
        self._commit = commit
        self._owner = owner
        self._list = block_list
        self._table = table
        self._files = files
        self._high_water = high_water
        self._health = health
        self._block_bytes = block_bytes
        self._open: BlockWriter | None = None  # the last block of the list, if not sealed
        self._first_room = FIRST_ROOM_BYTES  # bytes of buffer with which the next block begins
        self._full = ""  # why a flush stalled, until one succeeds; appends are refused
        self._seen = (0, 0)  # the open block and its bytes, when `rest` looked
        self._marked = 0  # bytes of the open block said to be durable
        self._durable = 0  # bytes of the open block that are durable
        self._epoch = 0  # flushes taken when something was last written to the open block
        # Bytes used and the last sequence at the end of the epoch before, and of this one.
        self._ends = ((0, 0), (0, 0))

    # -- appending -------------------------------------------------------------------------

    def append_run(self, run: PubRun, start: int, stop: int, now: int, times: Times = None) -> int:
        """Store messages `start` up to `stop` of a run; see `MessageStore`."""
        if self._health.offline or self._full or self._commit.full is not None:
            self._refuse()
        first = sequence = self._list.last_seq + 1
        self._check_room(first + stop - start - 1)
        fields, index = run.fields, start
        if self._durable >= self._marked + MARK_BYTES and not self._commit.lazily_ns:
            self._mark()
        while index < stop:
            open_block = self._open or self._begin()
            if sequence + stop - index - open_block.block.first_seq > SPAN_MAX:
                self.rotate()
                open_block = self._begin()
            open_block.place(sequence)
            used, entries = open_block.used, open_block.block.count
            cut, used_now = records.encode_run(
                chunk=run.chunk,
                fields=fields,
                start=index,
                stop=stop,
                first_seq=sequence,
                timestamp=now,
                buffer=open_block.buffer,
                used=used,
                positions=open_block.positions,
                subject_ids=open_block.subject_ids,
                interned=self._table.ids,
            )
            if cut > index:
                headed = records.count_headed(fields, index, cut)
                first_ts = last_ts = now
                if times is not None:
                    own = times[index - start : cut - start]
                    restamp(open_block.buffer, open_block.positions[entries:], own)
                    first_ts, last_ts = own[0], own[-1]
                self._appended(open_block, entries, sequence, used_now, last_ts, headed)
                if not entries:
                    open_block.block.first_ts = first_ts
                sequence += cut - index
                index = cut
            if index < stop:
                self._make_room(_record_bytes(run, index))
        return first

    def append(
        self, subject: bytes, headers: bytes, payload: bytes, timestamp: int, sequence: int = 0
    ) -> int:
        """Store one message under the next sequence, or under `sequence`, which may leave a gap."""
        self._check_writable()
        if sequence and sequence != self._list.last_seq + 1:
            self._check_room(sequence)
            assert sequence > self._list.last_seq, "sequences rise"
            self._list.use_up(sequence - 1)
        return self.append_run(PubRun.single(subject, b"", headers, payload), 0, 1, timestamp)

    def skip(self, count: int, now: int) -> int:
        """Use up `count` sequences."""
        self._check_writable()
        first = self._list.last_seq + 1
        if count > 0:
            last_seq = first + count - 1
            self._check_room(last_seq)
            self.note(Tombstone(tombstone.SKIPPED, last_seq, now))
            self._list.end_with(last_seq, now)
        return first

    def note(self, stone: Tombstone) -> int:
        """Append a tombstone; return the number of the block it stands in."""
        record = stone.encode()
        open_block = self._make_room(len(record))
        self._add(open_block, record)
        return open_block.block.number

    def erase(self, entries: list[int]) -> None:
        """Overwrite messages of the open block whose tombstones are queued."""
        open_block = self._open
        assert open_block is not None, "the messages are in it"
        block, file = open_block.block, open_block.file
        for entry in entries:
            at = open_block.positions[entry]
            head, stop = erasure.erase(open_block.buffer, at)
            self._commit.overwrite(self._owner, block.path, file, at, head, stop)

    def _check_writable(self) -> None:
        if self._health.offline or self._full or self._commit.full is not None:
            self._refuse()

    def _check_room(self, last_seq: int) -> None:
        """Refuse sequences with which the blocks could not be opened again."""
        if last_seq > SEQUENCE_MAX:
            reason = f"there is no sequence above {SEQUENCE_MAX}: go on in a new stream"
            raise StoreError(reason, str(self._folder))

    def _refuse(self) -> NoReturn:
        """Say why nothing can be written."""
        self._health.check()
        raise StoreError(self._full or str(self._commit.full))

    def _appended(
        self,
        open_block: BlockWriter,
        entries: int,
        sequence: int,
        used: int,
        now: int,
        headed: int,
    ) -> None:
        """Account for entries from `entries` on, which a kernel has just encoded; so many of them
        have headers."""
        block, table = open_block.block, self._table
        before = open_block.used
        added = open_block.extended(sequence, used, now)
        accounted = used - before - UNACCOUNTED_BYTES * added + HEADER_ACCOUNTED_BYTES * headed
        block.accounted += accounted
        block.all_accounted += accounted
        if len(table.names) > len(table.counts):
            table.grow()
        table.present += columns.add_to_counters(
            open_block.subject_ids,
            entries,
            block.count,
            block.first_seq,
            open_block.offsets,
            table.counts,
            table.firsts,
            table.lasts,
        )
        if table.recent is not None and len(table.recent) <= RECENT_MAX:
            table.recent.update(dict.fromkeys(open_block.subject_ids[entries:]))
        self._list.appended(added, accounted, block.last_seq, now)
        self._write(open_block, before, used)

    def _add(self, open_block: BlockWriter, record: bytes) -> None:
        before = open_block.used
        open_block.add_tombstone(record)
        self._write(open_block, before, open_block.used)

    def _write(self, open_block: BlockWriter, start: int, stop: int) -> None:
        commit = self._commit
        before = self._ends[self._epoch != commit.taken]
        self._ends = (before, (stop, self._list.last_seq))
        self._epoch = commit.taken
        commit.write(self._owner, open_block.file, open_block.buffer, start, stop)

    def _mark(self) -> None:
        """Say how much of the open block is durable, so that recovery can tell damage from a torn
        tail."""
        durable = self._durable
        self.note(Tombstone(tombstone.DURABLE, durable, payload=tombstone.DURABLE_PAYLOAD))
        if self._durable == durable:  # else the block was full, and a new one begins unmarked
            self._marked = durable

    # -- the open block --------------------------------------------------------------------

    def is_open(self, block: Block) -> bool:
        """Tell whether a block is the one that is written to."""
        return self._open is not None and block is self._open.block

    @property
    def is_begun_durably(self) -> bool:
        """Tell whether the open block holds the numbers of the store on disk as well."""
        return self._open is not None and self._durable > 0 and not self._commit.lazily_ns

    def begin(self) -> None:
        """Begin a block, unless one is open."""
        if self._open is None:
            self._begin()

    def _begin(self) -> BlockWriter:
        numbers = self._list
        number = self.next_number
        self.next_number += 1
        block = Block(number, self._folder / f"{number}{BLOCK_SUFFIX}", numbers.last_seq + 1)
        block.last_seq = numbers.last_seq
        block.first_ts = block.last_ts = numbers.last_ts  # blocks are searched by time
        self._open = open_block = BlockWriter(block, min(self._first_room, self._block_bytes))
        numbers.begin(block)
        self._marked = self._durable = 0
        self._epoch, self._ends = self._commit.taken, ((0, 0), (0, 0))
        started = tombstone.started(numbers.last_seq, numbers.last_ts, numbers.floor)
        self._add(open_block, started.encode())
        return open_block

    def resume(self, block: Block, whole: bytes, scan: Scan) -> None:
        """Write on in a block that recovery has read."""
        self._open = open_block = BlockWriter(block, _room_for(len(whole)))
        open_block.buffer[: len(whole)] = whole
        open_block.used = self._durable = self._marked = len(whole)
        if self._commit.queued(block.path) is not None:  # a full disk has yet to take it
            self._durable = self._marked = 0
        end = len(whole), self._list.last_seq
        self._epoch, self._ends = self._commit.taken, (end, end)
        open_block.positions.extend(scan.positions)
        open_block.subject_ids.extend(scan.subject_ids)
        open_block.offsets.extend(scan.offsets())

    def _make_room(self, size: int) -> BlockWriter:
        """Return an open block with room for a record of `size` bytes."""
        open_block = self._open or self._begin()
        needed = open_block.used + size
        if needed > self._block_bytes and open_block.block.count:
            self.rotate()
            open_block = self._begin()
            needed = open_block.used + size
        if needed > len(open_block.buffer):
            room = min(2 * len(open_block.buffer), self._block_bytes)
            if needed > self._block_bytes < 2 * open_block.used:
                # Of tombstones alone there may be more than fills a block, and each is small.
                room = needed + needed // 4
            open_block.move(max(room, needed))
        return open_block

    def rotate(self) -> None:
        """Seal the open block; where most subjects are gone, forget them, or begin to."""
        self._seal_open()
        self._forget_absent(PASSED_AT_ONCE)

    def _seal_open(self) -> None:
        open_block = self._open
        assert open_block is not None, "there is a block to seal"
        block = open_block.block
        is_filled = 2 * open_block.used > self._block_bytes
        self._first_room = self._block_bytes if is_filled else FIRST_ROOM_BYTES
        index = open_block.seal(self._table)
        self._open = None
        self._commit.seal(self._owner, open_block.file)
        self._files.keep(block, index, is_written=True)
        if block.live:
            self._high_water.sealed(block.number, block.last_seq)
        else:
            self._list.remove(block)
            self.emptied.append(block)

    @property
    def _has_many_absent(self) -> bool:
        return self._table.absent > max(RENUMBER_MIN, self._table.present)

    def _forget_absent(self, names_max: int) -> bool:
        """If most subjects have no messages, forget them, or go on with it; tell whether there was
        anything to do. No block is open."""
        if not (self._table.is_renumbering or self._has_many_absent):
            return False
        if self._table.prepare_to_renumber(names_max):
            self._renumber()
        return True

    def _renumber(self) -> None:
        """Forget subjects without messages, as is prepared; no open block holds their numbers."""
        table = self._table
        # Of what was just left behind without a message, something may be yet to be erased.
        blocks = (*self._list.blocks, *self.emptied)
        pinned = [block.pinned for block in blocks if block.pinned]
        numbered = [content for content in pinned if content.is_numbered]
        unnumbered = [content for content in pinned if not content.is_numbered]
        moved = table.renumber()
        nobody = table.nobody() if numbered else 0
        for content in numbered:  # the messages of those that are nobody now are gone
            content.renumber(columns.carry(content.table_ids, moved, nobody), table.generation)
        for content in unnumbered:
            content.begin_numbering_again(table.generation)

    def rest(self) -> bool:
        """Let go of memory if nothing was written since the last call; tell whether anything
        changed.

        A large open block is sealed, so that its file is mapped when it is read. A small one is cut
        down to the room it needs, and how far it came is noted. Subjects that are gone are
        forgotten by the next call, as both take long.
        """
        open_block, seen = self._open, self._seen
        if self._health.offline or self._full:
            return False
        if open_block is None:
            return self._forget_absent(PASSED_AT_REST)
        if self._commit.full is not None:
            return False
        self._seen = (open_block.block.number, open_block.used)
        if self._seen != seen:
            return False
        if open_block.used * RESTING_SHARE >= self._block_bytes:
            self._seal_open()
            return True
        is_noted = False
        if self._durable == open_block.used and not self._commit.lazily_ns:
            is_noted = self._high_water.reached(
                self._list.last_seq, open_block.block.number, open_block.used, lazily=True
            )
        room = _room_for(open_block.used)
        if room >= len(open_block.buffer):
            return is_noted
        open_block.move(room)
        return True

    # -- how flushes went ------------------------------------------------------------------

    def flushed(self) -> None:
        """Everything queued before the flush is on disk."""
        self._full = ""
        used, last_seq = self._ends[self._epoch < self._commit.taken]
        if used <= self._durable:
            return
        self._durable = used
        if self._open is not None and not (self._commit.lazily_ns or self._health.offline):
            self._high_water.confirm(last_seq, self._open.block.number, used)

    def stalled(self, error: StoreError) -> None:
        """The disk is full: refuse appends until it is not."""
        self._full = str(error)

    # -- life ------------------------------------------------------------------------------

    def close(self) -> None:
        """Seal the open block where it stands, so that it is not read again."""
        if (open_block := self._open) is None:
            return
        index = open_block.seal(self._table)
        block = open_block.block
        self._commit.seal(self._owner, open_block.file)
        self._commit.replace(self._owner, block.index_path, index, is_spare=True)
        self._high_water.reached(self._list.last_seq, block.number, open_block.used, lazily=False)
        self._open = None

    def abandon(self) -> None:
        """Give up the open block without an index."""
        if self._open is not None:
            self._commit.seal(self._owner, self._open.file)
            self._open = None


def _room_for(used: int) -> int:
    """Return the size of a buffer that was doubled until `used` bytes had room."""
    room = FIRST_ROOM_BYTES
    while room < used:
        room *= 2
    return room


def _record_bytes(run: PubRun, index: int) -> int:
    at = index * STRIDE
    fields = run.fields
    subject_bytes = fields[at + SUBJECT_STOP] - fields[at + SUBJECT_START]
    return PREFIX_BYTES + subject_bytes + fields[at + PAYLOAD_STOP] - fields[at + HEADER_START]
