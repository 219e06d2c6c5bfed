"""One block: a file of records, and what is known of its messages.

A block is written from front to back while it is open (`BlockWriter`), then sealed and never
changed again, only replaced as a whole by a compacted one or removed. *Entries* are its messages in
order; deleting one clears its byte in `alive` (made by the first delete that is not at the front)
or moves `head` past it.

For a sealed block nothing is kept per message. Its bytes and entries (`Content`) are read from its
files when they are needed (`store/blocks/content_cache.py`). Between sealing and the flush that
carries the block to the disk, the content is pinned in memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jetstream_server.kernels import columns, filters, records
from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import SEQUENCE_MAX, SPAN_MAX, Buffer
from jetstream_server.store.blocks import erasure, tombstone
from jetstream_server.store.blocks import index as block_index
from jetstream_server.store.blocks.compressed_block import CompressedBlock
from jetstream_server.store.blocks.index import Entries, Summary
from jetstream_server.store.blocks.numbering import Names, Numbering
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.commit import BlockFile

BLOCK_SUFFIX = ".blk"
INDEX_SUFFIX = ".idx"
_ANY_COUNT = 1 << 62


class Content:
    """The bytes of a block and where its messages are.

    Attributes:
        buffer: the block; None until it is needed, and always None when it is compressed.
        compressed: the block, when it is compressed and has been needed.
        entries: one entry per message; subject ids are the block's own in a sealed block.
    """

    __slots__ = (
        "_generation",
        "_numbering",
        "_table_ids",
        "buffer",
        "compressed",
        "entries",
    )

    def __init__(
        self,
        buffer: Buffer | None,
        entries: Entries,
        table_ids: array[int],
        generation: int = 0,
        names: Callable[[], Names] | None = None,
        table: SubjectTable | None = None,
    ) -> None:
        """Make one.

        Args:
            table_ids: the block's subject ids to those of the store's table.
            generation: of the table when `table_ids` was made.
            names: gives the block's subjects, one behind the other, and the length of each. With
                it, `table_ids` is made when somebody asks: with many subjects that takes long, and
                a search for one message can do without.
            table: where these have their numbers.
        """
        self.buffer = buffer
        self.compressed: CompressedBlock | None = None
        self.entries = entries
        self._table_ids = table_ids
        self._generation = generation
        self._numbering = None
        if names is not None and table is not None:
            self._numbering = Numbering(names, table)

    @property
    def table_ids(self) -> array[int]:
        """Map the block's subject ids to those of the store's table; empty in an open block, where
        they are the same."""
        self.number(_ANY_COUNT)
        return self._table_ids

    def number(self, names_max: int) -> bool:
        """Number up to `names_max` more of the block's subjects; tell whether all are numbered, so
        that `table_ids` is there."""
        numbering = self._numbering
        if numbering is not None:
            if not numbering.go_on(names_max):
                return False
            self._table_ids, self._numbering = numbering.numbers, None
        return True

    @property
    def has_own_ids(self) -> bool:
        """Tell whether subject ids are the block's own, without making `table_ids`."""
        return self._numbering is not None or len(self._table_ids) > 0

    @property
    def is_numbered(self) -> bool:
        """Tell whether `table_ids` is there, or can be made at no cost."""
        return self._numbering is None

    def marked(self, patterns: tuple[bytes, ...]) -> bytes:
        """Return which of the block's own subjects the patterns match, one byte for each; only
        meant for content that is not numbered yet."""
        assert self._numbering is not None, "it is not numbered"
        return filters.mark_stored(*self._numbering.names(), patterns)

    def with_bytes(self, buffer: Buffer) -> Content:
        """Return content with the same entries and subjects, and other bytes."""
        other = Content(buffer, self.entries, self._table_ids, self._generation)
        if self._numbering is not None:
            other._numbering = self._numbering.again()
        return other

    def renumber(self, table_ids: array[int], generation: int) -> None:
        """Take note of a table with other numbers, in which the subjects have `table_ids`."""
        self._table_ids, self._generation, self._numbering = table_ids, generation, None

    def begin_numbering_again(self, generation: int) -> None:
        """Take note of a table with other numbers; only meant for content that is not numbered
        yet."""
        assert self._numbering is not None, "it is not numbered"
        self._generation, self._numbering = generation, self._numbering.again()

    def is_outdated(self, generation: int) -> bool:
        """Tell whether the numbers of the table have changed since."""
        return self.has_own_ids and self._generation != generation


@dataclass(slots=True, eq=False)
class Block:
    """What is kept of every block.

    Attributes:
        number: of the file; later blocks have higher ones.
        path: the block file.
        first_seq: sequence that entries count from.
        last_seq: sequence of the last entry, `first_seq - 1` without entries.
        count: entries, deleted ones included.
        head: every entry before this one is gone.
        alive: one byte per entry, 0 for a deleted one; empty when none after `head` is deleted.
        live, accounted, recorded: messages, accounted bytes and record bytes not deleted.
        all_accounted, all_recorded: the same for all entries, deleted ones included.
        size: bytes of all records, which is the size of the file unless it is compressed.
        is_compressed: whether the file is compressed; it may still be plain after a full disk.
        first_ts, last_ts: times of the first and last entry.
        tombstones: the tombstone records in this block, as they stand.
        noted: numbers of the blocks that hold tombstones for entries of this one.
        summary: of the index, once sealed (without the per-subject columns).
        pinned: the content, while it cannot be read from the disk (yet).
        sealed_at: how many flushes had been taken when `pinned` was queued.
        version: rises when the file is replaced.
        is_verified: whether the checksum of the whole block has been checked since the start.
        is_gone: whether the file was removed.
    """

    number: int
    path: Path
    first_seq: int
    last_seq: int = 0
    count: int = 0
    head: int = 0
    alive: bytearray = field(default_factory=bytearray)
    live: int = 0
    accounted: int = 0
    recorded: int = 0
    all_accounted: int = 0
    all_recorded: int = 0
    size: int = 0
    first_ts: int = 0
    last_ts: int = 0
    tombstones: bytearray = field(default_factory=bytearray)
    noted: set[int] = field(default_factory=set)
    summary: Summary | None = None
    pinned: Content | None = None
    sealed_at: int = 0
    version: int = 0
    is_compressed: bool = False
    is_verified: bool = False
    is_gone: bool = False

    @property
    def index_path(self) -> Path:
        """Return the path of the index file."""
        return self.path.with_suffix(INDEX_SUFFIX)

    def at_or_after(self, content: Content, sequence: int) -> int:
        """Return the first entry, alive or not, at or after a sequence."""
        offset = sequence - self.first_seq
        if offset <= 0:
            return 0
        if sequence > self.last_seq:
            return self.count
        offsets = content.entries.offsets
        return bisect_left(offsets, offset) if len(offsets) else offset

    def sequence(self, content: Content, entry: int) -> int:
        """Return the sequence of an entry."""
        offsets = content.entries.offsets
        return self.first_seq + (offsets[entry] if len(offsets) else entry)

    def end(self, content: Content, entry: int) -> int:
        """Return where the bytes of an entry end, or what stands between it and the next."""
        return content.entries.positions[entry + 1] if entry + 1 < self.count else self.size

    def find(self, content: Content, sequence: int) -> int:
        """Return the live entry of a sequence, -1 when there is none."""
        entry = self.at_or_after(content, sequence)
        if entry >= self.count or not self.is_alive(entry):
            return -1
        return entry if self.sequence(content, entry) == sequence else -1

    def is_alive(self, entry: int) -> bool:
        """Tell whether an entry is still there."""
        return entry >= self.head and not (self.alive and not self.alive[entry])

    def bury(self, entry: int) -> None:
        """Mark a live entry as deleted."""
        if entry == self.head:
            self.head += 1
            self.skip_dead()
            return
        if not self.alive:
            self.alive = bytearray(b"\1" * self.count)
        self.alive[entry] = 0

    def skip_dead(self) -> None:
        """Move `head` to the first live entry."""
        if self.alive:
            found = self.alive.find(1, self.head)
            self.head = found if found >= 0 else self.count

    def dead_ranges(self, content: Content) -> list[tuple[int, int]]:
        """Return the sequences of deleted entries; gaps between entries join them."""
        dead = [entry for entry in range(self.count) if not self.is_alive(entry)]
        return tombstone.as_ranges(self.sequence(content, entry) for entry in dead)


class BlockWriter:
    """The open block: a block under construction in memory.

    Attributes:
        block: what is known of it.
        file: where it is written.
        buffer: its bytes so far and room for more; replaced by another, never resized, since a
            flush may be reading it.
        used: bytes used.
        positions, subject_ids, offsets: its entries.
    """

    def __init__(self, block: Block, room: int) -> None:
        self.block = block
        self.file = BlockFile(block.path)
        self.buffer = records.unwritten(room)
        self.used = 0
        self.positions = array("I")
        self.subject_ids = array("I")
        self.offsets = array("I")
        block.pinned = Content(
            self.buffer,
            Entries(self.positions, self.subject_ids, self.offsets),
            array("I"),
        )

    def move(self, room: int) -> None:
        """Move to a buffer of another size."""
        other = records.unwritten(room)
        memoryview(other)[: self.used] = memoryview(self.buffer)[: self.used]
        self.buffer = other
        assert self.block.pinned is not None
        self.block.pinned.buffer = other

    def place(self, sequence: int) -> None:
        """Make ready for entries from `sequence` on, which may leave a gap."""
        block = self.block
        if not block.count:
            block.first_seq = sequence
        elif not self.offsets and sequence != block.first_seq + block.count:
            self.offsets.extend(range(block.count))

    def extended(self, sequence: int, used: int, timestamp: int) -> int:
        """Register entries that a kernel has appended, consecutive from `sequence`; return how
        many."""
        block = self.block
        added = len(self.positions) - block.count
        if not block.count:
            block.first_ts = timestamp
        if self.offsets:
            offset = sequence - block.first_seq
            self.offsets.extend(range(offset, offset + added))
        if block.alive:
            block.alive.extend(b"\1" * added)
        block.count += added
        block.live += added
        block.last_seq = sequence + added - 1
        block.last_ts = timestamp
        block.recorded += used - self.used
        block.all_recorded += used - self.used
        block.size = self.used = used
        return added

    def add_tombstone(self, record: bytes) -> None:
        """Append a tombstone; the caller has made room."""
        self.buffer[self.used : self.used + len(record)] = record
        self.used += len(record)
        self.block.size = self.used
        self.block.tombstones += record

    def seal(self, table: SubjectTable) -> list[Buffer]:
        """Turn the block's content into that of a sealed one; return its index file, in parts.

        The buffer goes with it although it has more room than the block needs: a copy would take
        longer than everything else here.
        """
        block = self.block
        with memoryview(self.buffer)[: self.used] as whole:
            entries = Entries(self.positions, self.subject_ids, self.offsets)
            index = seal_block(block, whole, entries, table)
        assert block.pinned is not None, "sealing pins the content"
        block.pinned.buffer = self.buffer
        return index


def seal_block(block: Block, whole: Buffer, entries: Entries, table: SubjectTable) -> list[Buffer]:
    """Pin the content of a complete block and return its index file, in parts.

    Args:
        block: with count, sequences, times and `all_` counters filled in.
        whole: the bytes of the file.
        entries: with the table's subject ids.
        table: the store's subjects.
    """
    local_ids = array("I")
    table_ids = columns.localize(entries.subject_ids, block.count, local_ids)
    sealed = Entries(entries.positions, local_ids, entries.offsets)
    content = Content(whole, sealed, table_ids, table.generation)
    return _seal(block, whole, content, _subject_columns(block, whole, sealed))


def seal_erased(block: Block, whole: Buffer, content: Content) -> list[Buffer]:
    """Do the same with other bytes of a sealed block, whose entries stay as they were in `content`:
    nothing is looked up, however many subjects it has."""
    return _seal(
        block, whole, content.with_bytes(whole), _subject_columns(block, whole, content.entries)
    )


def seal_rest(
    block: Block, whole: Buffer, entries: Entries, content: Content, table: SubjectTable
) -> list[Buffer]:
    """Do the same with what is left of a sealed block.

    Args:
        entries: with the block's own subject ids in `content`, of which some may be missing now.
        content: of the block as it was.
    """
    local_ids = array("I")
    kept = columns.localize(entries.subject_ids, block.count, local_ids)
    sealed = Entries(entries.positions, local_ids, entries.offsets)
    found = _subject_columns(block, whole, sealed)
    if content.is_numbered:
        table_ids = array("I", map(content.table_ids.__getitem__, kept))
        rest = Content(whole, sealed, table_ids, table.generation)
    else:  # and it can wait: the block has the names
        names = memoryview(found.names), memoryview(found.lengths)
        rest = Content(whole, sealed, array("I"), table.generation, lambda: names, table)
    return _seal(block, whole, rest, found)


class _SubjectColumns(NamedTuple):
    """What a summary says about the subjects of a block."""

    counts: array[int]
    firsts: array[int]
    lasts: array[int]
    names: bytes
    lengths: array[int]


def _subject_columns(block: Block, whole: Buffer, entries: Entries) -> _SubjectColumns:
    """Return what stands in a summary about subjects; `entries` number them as they appear."""
    # From the records, which stand together: the table's names are scattered over memory.
    names, lengths = columns.names_of(whole, entries.positions, entries.subject_ids, block.count)
    counts, firsts, lasts = columns.summary_of(entries.subject_ids, block.count, len(lengths))
    return _SubjectColumns(counts, firsts, lasts, names, lengths)


def _seal(block: Block, whole: Buffer, content: Content, subjects: _SubjectColumns) -> list[Buffer]:
    """Pin the content of a block, and return its index file, in parts."""
    summary = Summary(
        first_seq=block.first_seq,
        last_seq=block.last_seq,
        entries=block.count,
        accounted=block.all_accounted,
        recorded=block.all_recorded,
        block_bytes=len(whole),
        block_crc=records.checksum(whole),
        first_ts=block.first_ts,
        last_ts=block.last_ts,
        sparse=len(content.entries.offsets) > 0,
        counts=subjects.counts,
        firsts=subjects.firsts,
        lasts=subjects.lasts,
        names=subjects.names,
        lengths=subjects.lengths,
        tombstones=bytes(block.tombstones),
    )
    index = block_index.encode(summary, content.entries)
    block.summary = without_columns(summary)
    block.size = len(whole)
    block.pinned = content
    block.is_verified = False
    return index


def without_columns(summary: Summary) -> Summary:
    """Drop what is only needed once, when a store is opened."""
    summary.counts = summary.firsts = summary.lasts = array("I")
    summary.names, summary.lengths = b"", array("H")
    summary.tombstones = b""
    return summary


@dataclass(slots=True)
class Scan:
    """What reading a block from front to back found.

    Attributes:
        positions, subject_ids: `array('I')`, an entry a message.
        sequences: `array('Q')`, likewise.
        tombstones: in order, with the number of entries before each; one for each erased message.
        tombstone_bytes: the same records as they stand.
        stop: where the last sound record ends.
    """

    positions: array[int] = field(default_factory=lambda: array("I"))
    subject_ids: array[int] = field(default_factory=lambda: array("I"))
    sequences: array[int] = field(default_factory=lambda: array("Q"))
    tombstones: list[tuple[int, tombstone.Tombstone]] = field(default_factory=list)
    tombstone_bytes: bytearray = field(default_factory=bytearray)
    stop: int = 0

    def cut(self, count: int) -> None:
        """Keep the first `count` messages; from the next one on, nothing counts as sound."""
        self.stop = self.positions[count]
        del self.positions[count:], self.subject_ids[count:], self.sequences[count:]

    def offsets(self) -> array[int]:
        """Return offsets from the first sequence, empty when they are simply 0, 1, 2..."""
        if not self.sequences or self.sequences[-1] - self.sequences[0] + 1 == len(self.sequences):
            return array("I")
        first = self.sequences[0]
        return array("I", [sequence - first for sequence in self.sequences])


def scan_block(content: Buffer, ids: Interned) -> Scan:
    """Read records until the end or the first that is not whole and sound."""
    scan = Scan()
    whole = content if isinstance(content, bytes | bytearray) else bytes(content)
    while scan.stop < len(whole):
        scan.stop = records.scan_records(
            whole,
            scan.stop,
            len(whole),
            scan.positions,
            scan.subject_ids,
            scan.sequences,
            ids,
        )
        if scan.sequences and scan.sequences[-1] > SEQUENCE_MAX:
            scan.cut(bisect_right(scan.sequences, SEQUENCE_MAX))
            break
        found = tombstone.decode(whole, scan.stop, len(whole))
        if found is None and (erased := _erased(whole, scan)) is not None:
            scan.positions.append(scan.stop)
            scan.subject_ids.append(ids.number(erased.subject))
            scan.sequences.append(erased.sequence)
            scan.stop = erased.stop
            # If it was erased before it was written, its tombstone may be lost while the record is
            # not.
            stone = tombstone.deleted([(erased.sequence, erased.sequence + 1)])
            scan.tombstones.append((len(scan.positions), stone))
            scan.tombstone_bytes += stone.encode()
            continue
        if found is None:
            break
        scan.tombstones.append((len(scan.positions), found[0]))
        scan.tombstone_bytes += whole[scan.stop : found[1]]
        scan.stop = found[1]
    return scan


def _erased(whole: Buffer, scan: Scan) -> erasure.Erased | None:
    """Return the erased message at the place a scan has come to, None when there is none, or one
    that cannot follow the messages before it."""
    found, before = erasure.decode(whole, scan.stop), scan.sequences
    if found is None or found.sequence > SEQUENCE_MAX:
        return None
    if not before or before[-1] < found.sequence <= before[0] + SPAN_MAX:
        return found
    return None


def damage(whole: bytes) -> int:
    """Return where the first unsound record of a damaged block begins."""
    return scan_block(whole, Interned()).stop
