"""Opening a folder of blocks: what is there, and what may be believed.

The index of a sealed block is believed; a block without a valid index is read as a whole. The last
block has no index, unless the store was closed in order, and is read. What cannot be read to its
end is either

- a torn tail: the last block ends in bytes that no flush completed, so nobody was told that they
  were stored. They are cut off, and a note says so;
- damage: a sealed block (compressed ones always are), or bytes that a DURABLE mark after them, an
  index, or the high-water mark (`store/blocks/high_water.py`) says were safe. What to do is for a
  human to decide: StoreError names file and offset, and the store stays offline.

Damage in a sealed block is found when it is read; it is then noted in a file
(`health.DAMAGED_NAME`), so that a restart does not serve the stream again until the block is
repaired.

A gap between blocks is damage when the high-water mark names a block in it, as a block is only
removed with its last message.

An operator who would rather go on with what is left says so with a file (`health.ACCEPT_NAME`):
damaged blocks are then cut down to what is sound, and sequences go on after the last one ever used.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns, records
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.store.blocks import erasure, tombstone
from jetstream_server.store.blocks import index as block_index
from jetstream_server.store.blocks.block import (
    BLOCK_SUFFIX,
    INDEX_SUFFIX,
    Block,
    Scan,
    damage,
    scan_block,
    without_columns,
)
from jetstream_server.store.blocks.compressed_block import MAGIC as COMPRESSED_MAGIC
from jetstream_server.store.blocks.compressed_block import inflate_whole, is_compressed
from jetstream_server.store.blocks.health import ACCEPT_NAME, DAMAGED_NAME
from jetstream_server.store.blocks.high_water import HighWater
from jetstream_server.store.blocks.index import Summary
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.disk import FULL_ERRNOS, TEMPORARY_SUFFIX, Disk

# A last block up to this size is read and written on; a larger one is sealed, so that a server
# with many idle streams does not hold a buffer for each.
REOPEN_BYTES = 1024 * 1024


@dataclass(slots=True)
class FoundBlock:
    """A block on disk, its messages counted in the table of subjects.

    Attributes:
        whole, scan: the bytes and entries, when it had no index and was read.
        tombstones: of this block, in order.
        rewrites: whether the disk was too full to mend the file; `whole` is to replace it.
        redoes: whether `whole` comes from a redo file that could not be carried out on a full disk.
        compressed_bytes: of the file of a block that was read, 0 when it is not compressed.
    """

    block: Block
    tombstones: list[tombstone.Tombstone]
    whole: bytes = b""
    scan: Scan | None = None
    rewrites: bool = False
    redoes: bool = False
    compressed_bytes: int = 0


@dataclass(slots=True)
class Findings:
    """What a folder holds."""

    blocks: list[FoundBlock] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    accepts_loss: bool = False


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where a block may end: `confirmed_bytes` were durable; the last one may have a torn tail."""

    confirmed_bytes: int
    is_last: bool


def read_folder(
    folder: Path, disk: Disk, table: SubjectTable, high_water: HighWater | None = None
) -> Findings:
    """Read every block of a folder, and count their messages by subject.

    Raises:
        StoreError: damage, or the system refuses to read.
    """
    try:
        return _read_folder(folder, disk, table, high_water or HighWater())
    except OSError as error:
        path = str(error.filename or folder)
        raise StoreError(f"recovery failed: {error.strerror or error}", path) from error


def _read_folder(folder: Path, disk: Disk, table: SubjectTable, high_water: HighWater) -> Findings:
    redone: dict[Path, bytes] = {}
    for name in disk.names(folder):
        if name.endswith(erasure.REDO_SUFFIX):
            path = (folder / name).with_suffix(BLOCK_SUFFIX)
            if (whole := erasure.redo(path, disk)) is not None:
                redone[path] = whole
    names = {*disk.names(folder), *(path.name for path in redone)}
    numbers = sorted(
        unsigned(name.removesuffix(BLOCK_SUFFIX))
        for name in names
        if name.endswith(BLOCK_SUFFIX) and unsigned(name.removesuffix(BLOCK_SUFFIX)) >= 0
    )
    for name in sorted(names):
        is_orphan = name.endswith(INDEX_SUFFIX) and Path(name).stem + BLOCK_SUFFIX not in names
        if is_orphan or name.endswith(TEMPORARY_SUFFIX):
            disk.remove(folder / name)
    findings = Findings(accepts_loss=ACCEPT_NAME in names)
    for number in numbers:
        path = folder / f"{number}{BLOCK_SUFFIX}"
        is_last = number == numbers[-1]
        if (whole := redone.get(path)) is not None:
            findings.blocks.append(_from_redo(path, number, whole, table))
            continue
        if findings.accepts_loss and not _cut_damage(path, disk, findings.notes):
            continue
        found = _from_index(path, number, disk, table, is_last=is_last)
        if DAMAGED_NAME in names and found is not None:
            _check(path, disk)
        if found is None:
            confirmed = 0 if findings.accepts_loss else high_water.confirmed_bytes(number)
            ends = _Ends(confirmed, is_last=is_last)
            found = _from_block(path, number, disk, table, findings.notes, ends)
        if found is not None:
            findings.blocks.append(found)
    if DAMAGED_NAME in names:
        findings.notes.append(f"{folder} was damaged and is sound again")
        disk.remove(folder / DAMAGED_NAME)
    return findings


def _indexed_bytes(path: Path, disk: Disk) -> int:
    """Return how large a block was when its index was made, 0 without an index.

    A block that was written to since then is larger.
    """
    try:
        content = disk.map(path.with_suffix(INDEX_SUFFIX))
    except FileNotFoundError:
        return 0
    summary = block_index.decode(content, with_subjects=False)
    return summary.block_bytes if summary is not None else 0


def _cut_damage(path: Path, disk: Disk, notes: list[str]) -> bool:
    """Cut a block to what is sound, or remove it when nothing is; tell whether it is still
    there."""
    try:
        whole, compressed_bytes = _read(path, disk)
        stop = damage(whole)
    except StoreError:
        whole, compressed_bytes, stop = b"", 0, 0
    if stop == len(whole) and stop:
        return True
    notes.append(f"accepted the loss of what stood in {path} from byte {stop} on")
    disk.remove(path.with_suffix(INDEX_SUFFIX))
    if not stop:
        disk.remove(path)
    elif compressed_bytes:
        disk.replace(path, [whole[:stop]])
    else:
        disk.truncate(path, stop)
    disk.sync_folder(path.parent)
    return stop > 0


def _check(path: Path, disk: Disk) -> None:
    """Read a sealed block to its end.

    Raises:
        StoreError: it is damaged.
    """
    whole, _ = _read(path, disk)
    if (stop := damage(whole)) < len(whole):
        raise StoreError("a stored record is damaged", str(path), stop)


def _read(path: Path, disk: Disk) -> tuple[bytes, int]:
    """Return the content of a block, and the size of its file when it is compressed, else 0.

    Raises:
        StoreError: it is compressed and damaged.
    """
    file = disk.read(path) or b""
    if is_compressed(file):
        return inflate_whole(file, path), len(file)
    return file, 0


def _from_index(
    path: Path, number: int, disk: Disk, table: SubjectTable, *, is_last: bool
) -> FoundBlock | None:
    size = disk.size(path)
    try:
        content = disk.map(path.with_suffix(INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    summary = block_index.decode(content)
    if summary is None or summary.file_bytes != size:
        return None
    if is_last and size <= REOPEN_BYTES and not summary.compressed_bytes:
        return None
    block = Block(number, path, summary.first_seq, summary.last_seq)
    block.count = block.live = summary.entries
    block.accounted = block.all_accounted = summary.accounted
    block.recorded = block.all_recorded = summary.recorded
    block.size = summary.block_bytes
    block.is_compressed = summary.compressed_bytes > 0
    block.first_ts, block.last_ts = summary.first_ts, summary.last_ts
    block.tombstones += summary.tombstones
    stones = list(_decode_all(summary.tombstones))
    # At once: with many subjects, the columns of all blocks together are larger than the store.
    merge_summary(summary, table)
    block.summary = without_columns(summary)
    return FoundBlock(block, stones)


def _decode_all(stored: bytes) -> Iterator[tombstone.Tombstone]:
    at = 0
    while at < len(stored):
        found = tombstone.decode(stored, at, len(stored))
        assert found is not None, "checked with the summary"
        yield found[0]
        at = found[1]


def _from_block(
    path: Path, number: int, disk: Disk, table: SubjectTable, notes: list[str], ends: _Ends
) -> FoundBlock | None:
    whole, compressed_bytes = _read(path, disk)
    rewrites = False
    scan = _scan(whole, table)
    if scan.stop < max(ends.confirmed_bytes, _indexed_bytes(path, disk)):
        what = "a stored record is damaged" if scan.stop < len(whole) else "the file is cut short"
        raise StoreError(what, str(path), scan.stop)
    if scan.stop < len(whole) or not scan.tombstones:
        was_compressed = not scan.tombstones and whole.endswith(COMPRESSED_MAGIC)
        if not ends.is_last or was_compressed or _is_marked_durable(whole, scan.stop):
            raise StoreError("a stored record is damaged", str(path), scan.stop)
        if not scan.tombstones:
            disk.remove(path)  # its first record never reached the disk, so nothing did
            disk.sync_folder(path.parent)
            return None
        notes.append(
            f"cut {len(whole) - scan.stop} unfinished bytes off {path} at byte {scan.stop}"
        )
        rewrites = not _mend(path, disk, scan.stop)
        whole = whole[: scan.stop]
    else:
        rewrites = not _mend(path, disk)
    found = _found(path, number, whole, scan, table)
    found.rewrites, found.compressed_bytes = rewrites, compressed_bytes
    found.block.is_compressed = compressed_bytes > 0
    return found


def _from_redo(path: Path, number: int, whole: bytes, table: SubjectTable) -> FoundBlock:
    scan = _scan(whole, table)
    if scan.stop < len(whole) or not scan.tombstones:
        redo = path.with_suffix(erasure.REDO_SUFFIX)
        raise StoreError("a stored record is damaged", str(redo), scan.stop)
    found = _found(path, number, whole, scan, table)
    found.redoes = True
    return found


def _scan(whole: bytes, table: SubjectTable) -> Scan:
    scan = scan_block(whole, table.ids)
    table.grow()
    return scan


def _found(path: Path, number: int, whole: bytes, scan: Scan, table: SubjectTable) -> FoundBlock:
    block = Block(number, path, 0)
    block.size = len(whole)
    block.tombstones += scan.tombstone_bytes
    _fill(block, whole, scan)
    merge_scan(block, scan, table)
    return FoundBlock(block, [found for _, found in scan.tombstones], whole, scan)


def _fill(block: Block, whole: bytes, scan: Scan) -> None:
    count = len(scan.positions)
    if not count:
        started = scan.tombstones[0][1]
        block.first_seq, block.last_seq = started.sequence + 1, started.sequence
        block.first_ts = block.last_ts = started.timestamp
        return
    block.first_seq, block.last_seq = scan.sequences[0], scan.sequences[-1]
    block.count = block.live = count
    _, _, accounted, recorded = records.measure(whole, scan.positions, b"", 0, count, count, 0, 0)
    block.accounted = block.all_accounted = accounted
    block.recorded = block.all_recorded = recorded
    block.first_ts = PREFIX.unpack_from(whole, scan.positions[0])[3]
    block.last_ts = PREFIX.unpack_from(whole, scan.positions[-1])[3]


def _is_marked_durable(whole: bytes, damaged_at: int) -> bool:
    """Tell whether a sound DURABLE mark behind the damage covers it."""
    at = whole.find(tombstone.DURABLE_PAYLOAD, damaged_at)
    while at >= 0:
        found = tombstone.decode(whole, at - PREFIX_BYTES, len(whole))
        if (
            found is not None
            and found[0].kind == tombstone.DURABLE
            and found[0].sequence > damaged_at
        ):
            return True
        at = whole.find(tombstone.DURABLE_PAYLOAD, at + 1)
    return False


def _mend(path: Path, disk: Disk, size: int | None = None) -> bool:
    """Cut a block to its sound bytes and make them durable, False if there is no room.

    A killed process leaves bytes that only the system's memory holds, whether it appended to the
    last block or overwrote a message in another one; they must be made safe before anybody sees
    them, and before an index says that they are there.
    """
    try:
        if size is not None:
            disk.truncate(path, size)
        handle, _ = disk.open(path)
        try:
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.sync_folder(path.parent)
    except OSError as error:
        if error.errno not in FULL_ERRNOS:
            raise
        return False
    return True


def merge_summary(summary: Summary, table: SubjectTable) -> None:
    """Add a block's per-subject counts to the store's."""
    numbers = table.add_stored(summary.names, summary.lengths)
    if summary.sparse:
        table.loose_until = max(table.loose_until, summary.last_seq)
    table.present += columns.merge(
        numbers,
        summary.counts,
        summary.firsts,
        summary.lasts,
        summary.first_seq,
        max(summary.last_seq, summary.first_seq),
        sparse=summary.sparse,
        counts=table.counts,
        firsts=table.firsts,
        lasts=table.lasts,
    )


def merge_scan(block: Block, scan: Scan, table: SubjectTable) -> None:
    """Add a block's entries to the counts of their subjects."""
    table.present += columns.add_to_counters(
        scan.subject_ids,
        0,
        block.count,
        block.first_seq,
        scan.offsets() or array("I"),
        table.counts,
        table.firsts,
        table.lasts,
    )
