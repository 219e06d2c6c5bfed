"""The writing end of a file store: the open block, and what becomes of it at a flush.

Knows how messages and tombstones get into a block, when a block is full, and what a flush that went
well or badly means. What may be removed, and when, is `store/file.py`.

Invariants that recovery (`store/recovery.py`) relies on: a block begins with a STARTED record, and
has bytes on disk only once the block before it is durable; so the newest block always knows the
numbers of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns, records
from jetstream_server.kernels.record_format import PREFIX_BYTES, UNACCOUNTED_BYTES
from jetstream_server.protocol.ops import (
    HEADER_START,
    PAYLOAD_START,
    PAYLOAD_STOP,
    STRIDE,
    SUBJECT_START,
    SUBJECT_STOP,
    PubRun,
)
from jetstream_server.store import erasure, tombstone
from jetstream_server.store.block import BLOCK_SUFFIX, Block, BlockWriter, seal_block
from jetstream_server.store.block_subjects import BlockSubjects
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.compressed_block import compressed_bytes_max
from jetstream_server.store.compression import Compression, is_compressible
from jetstream_server.store.content_cache import ContentCache
from jetstream_server.store.high_water import HighWaterLog
from jetstream_server.store.restamp import restamp
from jetstream_server.store.tombstone import Tombstone

# A buffer begins small and doubles: most streams are small. One that has filled a block fills
# another, and begins with all the room; what is not written to costs no memory.
FIRST_ROOM_BYTES = 64 * 1024
MARK_BYTES = 256 * 1024  # how much may become durable before a DURABLE record says so
RESTING_SHARE = 4  # blocks that are not that part of full are not worth a file of their own
RENUMBER_MIN = 4096  # subjects without messages before they are forgotten
_OFFSET_MAX = 2**32 - 1


class BlockLog(BlockSubjects):
    """Messages that go into an open block, and from there to the disk.

    Args:
        folder: where the blocks are, or will be.
        commit: the queue to the disk.
        cache: contents of sealed blocks, shared with other stores.
        first_seq: the first sequence to be used; 0 for 1.
        block_bytes: when a block is full.
        chunk_bytes: how much of a block is compressed together.

    Attributes:
        compression: how blocks are kept from now on, `none` or `s2`; others stay as they are until
            they are rewritten for another reason.
    """

    def __init__(
        self,
        folder: Path,
        commit: GroupCommit,
        cache: ContentCache,
        first_seq: int,
        block_bytes: int,
        chunk_bytes: int,
    ) -> None:
        super().__init__(cache, first_seq, chunk_bytes)
        self.compression = "none"
        self._folder = folder
        self._commit = commit
        self._high_water = HighWaterLog(folder, commit, self)
        self._block_bytes = block_bytes
        self._open: BlockWriter | None = None
        self._pinned: list[Block] = []  # sealed, and perhaps not on the disk yet
        self._next_number = 1
        self._first_room = FIRST_ROOM_BYTES
        self._full = ""
        self._is_closed = False
        self._seen = (0, 0)  # the open block and its bytes, when `rest` looked
        self._floor = 0  # everything below was removed as a whole
        self._marked = 0  # bytes of the open block said to be durable
        self._durable = 0  # bytes of the open block that are
        self._epoch = 0  # flushes taken when something was last written to the open block
        self._epochs_used = (0, 0)  # bytes used at the end of the epoch before, and of this one
        self._per_subject_max = -1
        self._grown: dict[int, None] = {}  # subject ids appended to since `enforce` looked
        self._overfull: dict[int, None] = {}  # subject ids that a new limit is yet to reach

    # -- appending -------------------------------------------------------------------------

    def append_run(
        self,
        run: PubRun,
        start: int,
        stop: int,
        now: int,
        timestamps: Sequence[int] | None = None,
    ) -> int:
        """Store messages `start` up to `stop` of a run with consecutive sequences."""
        self._check_writable()
        first = sequence = self._last_seq + 1
        fields, index = run.fields, start
        if self._durable >= self._marked + MARK_BYTES and not self._commit.lazily_ns:
            self._mark()
        while index < stop:
            open_block = self._open or self._begin()
            if sequence + stop - index - open_block.block.first_seq > _OFFSET_MAX:
                self._rotate()
                open_block = self._open or self._begin()
            open_block.place(sequence)
            used, entries = open_block.used, open_block.block.count
            cut, used_now = records.encode_run(
                run.chunk,
                fields,
                index,
                stop,
                sequence,
                now,
                open_block.buffer,
                used,
                open_block.positions,
                open_block.subject_ids,
                self._table.ids,
            )
            if cut > index:
                at, end = index * STRIDE, cut * STRIDE
                plain = (
                    fields[at + HEADER_START : end : STRIDE]
                    == fields[at + PAYLOAD_START : end : STRIDE]
                )
                times = None if timestamps is None else timestamps[index - start : cut - start]
                if times is not None:
                    restamp(open_block.buffer, open_block.positions[entries:], times)
                first_ts, last_ts = (now, now) if times is None else (times[0], times[-1])
                self._appended(open_block, entries, sequence, used_now, last_ts, is_plain=plain)
                if not entries:
                    open_block.block.first_ts = first_ts
                sequence += cut - index
                index = cut
            if index < stop:
                self._make_room(_record_bytes(run, index))
        return first

    def append(
        self,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        timestamp: int,
        sequence: int | None = None,
    ) -> int:
        """Store one message; `sequence` may leave a gap."""
        self._check_writable()
        if sequence is not None and sequence != self._last_seq + 1:
            assert sequence > self._last_seq, "sequences rise"
            self._last_seq = sequence - 1
            self._is_used = True
        return self.append_run(PubRun.single(subject, b"", headers, payload), 0, 1, timestamp)

    def skip(self, count: int, now: int) -> int:
        """Use up `count` sequences."""
        self._check_writable()
        first = self._last_seq + 1
        if count > 0:
            self._note(Tombstone(tombstone.SKIPPED, self._last_seq + count, now))
            self._last_seq += count
            self._last_ts = now
            self._is_used = True
        return first

    def _appended(
        self,
        open_block: BlockWriter,
        entries: int,
        sequence: int,
        used: int,
        now: int,
        *,
        is_plain: bool,
    ) -> None:
        """Account for entries from `entries` on, which a kernel has just encoded."""
        block, table = open_block.block, self._table
        before = open_block.used
        added = open_block.extended(sequence, used, now)
        accounted = used - before - UNACCOUNTED_BYTES * added
        if not is_plain:
            accounted = records.measure(
                open_block.buffer, open_block.positions, b"", entries, block.count, added, 0, 0
            )[2]
        block.accounted += accounted
        block.all_accounted += accounted
        table.grow()
        table.present += columns.tally(
            open_block.subject_ids,
            entries,
            block.count,
            block.first_seq,
            open_block.offsets,
            table.counts,
            table.firsts,
            table.lasts,
        )
        if self._per_subject_max > 0:
            self._grown.update(dict.fromkeys(open_block.subject_ids[entries:]))
        if not self._messages:
            self._oldest = None
        self._messages += added
        self._held_bytes += accounted  # `_hold`, without the call
        self._tally.bytes += accounted
        self._last_seq = block.last_seq
        self._last_ts = now
        self._is_used = True
        self._write(open_block, before, used)

    def _write(self, open_block: BlockWriter, start: int, stop: int) -> None:
        commit = self._commit
        if self._epoch != commit.taken:
            self._epochs_used = (self._epochs_used[1], stop)
            self._epoch = commit.taken
        else:
            self._epochs_used = (self._epochs_used[0], stop)
        commit.write(self, open_block.file, open_block.buffer, start, stop)

    # -- the open block --------------------------------------------------------------------

    def _begin(self) -> BlockWriter:
        """Begin a new block."""
        number = self._next_number
        self._next_number += 1
        block = Block(number, self._folder / f"{number}{BLOCK_SUFFIX}", self._last_seq + 1)
        block.last_seq = self._last_seq
        block.first_ts = block.last_ts = self._last_ts  # blocks are searched by time
        self._open = open_block = BlockWriter(block, min(self._first_room, self._block_bytes))
        self._blocks.append(block)
        self._marked = self._durable = 0
        self._epoch, self._epochs_used = self._commit.taken, (0, 0)
        started = tombstone.started(self._last_seq, self._last_ts, self._floor)
        self._add(open_block, started.encode())
        return open_block

    def _make_room(self, size: int) -> BlockWriter:
        """Return an open block with room for a record of `size` bytes."""
        open_block = self._open or self._begin()
        needed = open_block.used + size
        if needed > self._block_bytes and open_block.block.count:
            self._rotate()
            open_block = self._open or self._begin()
            needed = open_block.used + size
        if needed > len(open_block.buffer):
            room = min(2 * len(open_block.buffer), self._block_bytes)
            open_block.move(max(room, needed))
        return open_block

    def _rotate(self) -> None:
        """Seal the open block."""
        open_block = self._open
        assert open_block is not None, "there is a block to seal"
        block = open_block.block
        is_filled = 2 * open_block.used > self._block_bytes
        self._first_room = self._block_bytes if is_filled else FIRST_ROOM_BYTES
        index = open_block.seal(self._table)
        self._open = None
        self._commit.seal(self, open_block.file)
        self._keep(block, index, is_written=True)
        self._pin(block)
        if block.live:  # else it is about to go
            self._high_water.sealed(block.number, block.last_seq)
        self._sealed(block)
        if self._table.absent > max(RENUMBER_MIN, self._table.present):
            self._renumber()

    def rest(self) -> bool:
        """Seal a large open block that nothing was written to since the last call: its file is
        mapped when somebody reads. A small one keeps no more room than it needs, and how far it
        came is noted."""
        open_block, seen = self._open, self._seen
        if open_block is None or self._offline or self._full or self._commit.full is not None:
            return False
        self._seen = (open_block.block.number, open_block.used)
        if self._seen != seen:
            return False
        if open_block.used * RESTING_SHARE >= self._block_bytes:
            self._rotate()
            return True
        is_noted = False
        if self._durable == open_block.used and not self._commit.lazily_ns:
            is_noted = self._high_water.reached(
                self._last_seq, open_block.block.number, open_block.used, lazily=True
            )
        room = room_for(open_block.used)
        if room >= len(open_block.buffer):
            return is_noted
        open_block.move(room)
        return True

    def _keep(self, block: Block, index: bytes, *, is_written: bool) -> None:
        """Queue the files of a block just sealed, compressed if that is wanted and worth it.

        The worker compresses, in the flush that carries the block. A block that is written
        already (`is_written`) stays plain when there is no room.
        """
        commit = self._commit
        assert block.pinned is not None, "sealing pins the content"
        assert block.pinned.buffer is not None, "that of a sealed block"
        whole = memoryview(block.pinned.buffer)[: block.size]
        if self.compression == "s2" and block.live and is_compressible(whole):
            block.is_compressed = True
            compression = Compression(whole, self._chunk_bytes)
            commit.replace(self, block.path, compression.file(), is_spare=is_written)
            commit.replace(self, block.index_path, compression.index(index), is_spare=True)
            return
        if not is_written:
            block.is_compressed = False
            commit.replace(self, block.path, [whole])
        commit.replace(self, block.index_path, [index], is_spare=True)

    def _pin(self, block: Block) -> None:
        """Keep the content of a block just sealed in memory until a flush has carried it."""
        block.sealed_at = self._commit.taken
        self._pinned.append(block)

    def _sealed(self, block: Block) -> None:
        """Hook: a block was sealed, perhaps without a live message."""
        raise NotImplementedError

    def _renumber(self) -> None:
        """Forget subjects without messages; no open block holds their numbers."""
        table = self._table
        pinned = [block.pinned for block in self._blocks if block.pinned]
        names = [[table.names[number] for number in content.table_ids] for content in pinned]
        table.renumber()
        self._grown.clear()
        self._overfull.clear()
        self._per_subject_max = -1  # so that `enforce` looks at every subject once
        for content, subjects in zip(pinned, names, strict=True):
            content.renumber(table.add(subjects), table.generation)

    def _note(self, stone: Tombstone) -> None:
        """Append a tombstone."""
        record = stone.encode()
        self._add(self._make_room(len(record)), record)

    def _mark(self) -> None:
        """Say how much of the open block is durable, for recovery to tell damage from a tear."""
        durable = self._durable
        self._note(Tombstone(tombstone.DURABLE, durable, payload=tombstone.DURABLE_PAYLOAD))
        if self._durable == durable:  # else the block was full, and a new one begins unmarked
            self._marked = durable

    def _add(self, open_block: BlockWriter, record: bytes) -> None:
        before = open_block.used
        open_block.add_tombstone(record)
        self._write(open_block, before, open_block.used)

    # -- erasing ---------------------------------------------------------------------------

    def _erase(self, block: Block, entries: list[int]) -> None:
        """Overwrite messages whose tombstones are queued."""
        content, commit = self._content(block), self._commit
        file = None
        if self._open is not None and block is self._open.block:
            whole, file = self._open.buffer, self._open.file
        else:
            whole = bytearray(memoryview(self._whole(block, content))[: block.size])
            commit.remove(self, block.index_path, waits=True)  # it was made for the other content
        for entry in entries:
            at = content.entries.positions[entry]
            head, stop = erasure.encode(whole, at)
            whole[at:stop] = head.ljust(stop - at, b"\0")
            if not block.is_compressed:
                commit.overwrite(self, block.path, file, at, head, stop)
        if file is None:
            if block.is_compressed:
                self._erase_compressed(block, bytes(whole))
            self._cache.drop(block)
            table_ids, table = content.table_ids, self._table
            index = seal_block(block, bytes(whole), content.entries, table_ids, table)
            self._pin(block)
            commit.replace(self, block.index_path, [index], is_spare=True)

    def _erase_compressed(self, block: Block, whole: bytes) -> None:
        """Make a compressed block a plain one, of whose old file nothing is left."""
        commit, redo = self._commit, block.path.with_suffix(erasure.REDO_SUFFIX)
        commit.replace(self, redo, [whole])
        commit.remove(self, block.index_path, waits=True)  # makes the new name durable as well
        self._redo(block, whole)

    def _redo(self, block: Block, whole: bytes) -> None:
        """Replace a compressed block by a plain one that a redo file has, as recovery does."""
        commit, redo = self._commit, block.path.with_suffix(erasure.REDO_SUFFIX)
        stop = compressed_bytes_max(block.size, self._chunk_bytes)
        commit.overwrite(self, block.path, None, 0, b"", stop)
        commit.replace(self, block.path, [whole])
        commit.remove(self, block.index_path, waits=True)
        commit.remove(self, redo, waits=True)
        block.is_compressed = False

    # -- how flushes went (commit.Owner) ---------------------------------------------------

    def flushed(self) -> None:
        """Everything queued before the flush is on disk."""
        self._full = ""
        taken = self._commit.taken
        waiting = []
        for block in self._pinned:
            if block.sealed_at < taken:
                block.pinned = None
            else:
                waiting.append(block)
        self._pinned = waiting
        self._durable = max(self._durable, self._epochs_used[self._epoch < taken])

    def stalled(self, error: StoreError) -> None:
        """The disk is full: refuse appends until it is not."""
        self._full = str(error)
        self._high_water.restart()

    def failed(self, error: StoreError) -> None:
        """The disk failed: go offline."""
        self._take_offline(error)

    def _check_writable(self) -> None:
        self._check_online()
        if full := self._full or str(self._commit.full or ""):
            raise StoreError(full)

    # -- life ------------------------------------------------------------------------------

    def close(self) -> None:
        """Queue what is left, with an index for the last block, so that it is not read again."""
        if self._open is not None and not self._offline and not self._is_closed:
            index = self._open.seal(self._table)
            self._commit.seal(self, self._open.file)
            self._commit.replace(self, self._open.block.index_path, [index], is_spare=True)
            self._high_water.reached(
                self._last_seq, self._open.block.number, self._open.used, lazily=False
            )
            self._open = None
        self._is_closed = True
        self._offline = self._offline or "the store is closed"

    def forsake(self, reason: str) -> None:
        """Go offline without an index of what memory says, which may be wrong."""
        self._take_offline(StoreError(reason))
        self._is_closed = True
        if self._open is not None:
            self._commit.seal(self, self._open.file)
            self._open = None

    def destroy(self) -> None:
        """Queue the removal of every block."""
        self._is_closed = True
        self._offline = self._offline or "the store is removed"
        self._commit.remove_tree(self, self._folder)


def room_for(used: int) -> int:
    """Return how large a buffer that is doubled when it is full is by now."""
    room = FIRST_ROOM_BYTES
    while room < used:
        room *= 2
    return room


def _record_bytes(run: PubRun, index: int) -> int:
    at = index * STRIDE
    fields = run.fields
    subject_bytes = fields[at + SUBJECT_STOP] - fields[at + SUBJECT_START]
    return PREFIX_BYTES + subject_bytes + fields[at + PAYLOAD_STOP] - fields[at + HEADER_START]
