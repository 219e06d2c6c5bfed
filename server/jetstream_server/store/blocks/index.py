"""The index of a sealed block: `<n>.idx` beside `<n>.blk`.

Little-endian. Everything that opening a store needs stands first; the entries behind it are only
mapped when a message of the block is wanted.

    header    see `_HEADER`; with checksums of itself, the summary and the entries
    summary   u32 messages, u32 first entry, u32 last entry of each subject of the block; u16
              length of each subject; the subjects; the block's tombstones as they stand in it
    entries   from a multiple of 4: u32 position and u32 subject number of each message; u32
              distance from the first sequence when these are not simply 0, 1, 2...
    end       u64 bytes of the block file, only when it is compressed and so has another size

An index only counts if it was made for exactly the block that is there; that is why it holds the
block's size and checksum. It is made when the block is complete and durable, so if it is missing,
torn or foreign, the block simply has to be read instead.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from jetstream_server.kernels.record_format import Buffer, Ids
from jetstream_server.kernels.records import checksum as crc32c

MAGIC = b"JSINDEX1"
_HEADER = Struct("<8sIIIIQQIIqqQQII")
_HEADER_CHECK = Struct("<I")
_END = Struct("<Q")
HEADER_BYTES = _HEADER.size + _HEADER_CHECK.size
_SPARSE = 1


class _Header(NamedTuple):
    """The fields of `_HEADER`; those that `Summary` has as well have the same names there."""

    magic: bytes
    flags: int
    entries: int
    subjects: int
    tombstone_bytes: int
    first_seq: int
    last_seq: int
    block_bytes: int
    block_crc: int
    first_ts: int
    last_ts: int
    accounted: int
    recorded: int
    middle_crc: int
    entries_crc: int


@dataclass(slots=True)
class Summary:
    """What an index says about its block without looking at entries.

    Attributes:
        first_seq: sequence that offsets count from.
        last_seq: sequence of the last message, below `first_seq` when there is none.
        entries: number of messages.
        accounted: bytes as STREAM.INFO counts them, of all entries.
        recorded: bytes of all entries in the block.
        block_bytes, block_crc: size and CRC-32C of the block.
        first_ts, last_ts: times of the first and last message.
        sparse: whether the entries have offsets.
        counts, firsts, lasts: per subject of the block; the latter two are entries.
        names, lengths: the subjects of the block, one behind the other, and `array('H')`, how long
            each is.
        tombstones: tombstone records, one after the other.
        entries_at, entries_crc: where the entries begin in the index file, and their checksum.
        compressed_bytes: of the block file, 0 when that is not compressed.
    """

    first_seq: int
    last_seq: int
    entries: int
    accounted: int
    recorded: int
    block_bytes: int
    block_crc: int
    first_ts: int
    last_ts: int
    sparse: bool
    counts: array[int]
    firsts: array[int]
    lasts: array[int]
    names: bytes
    lengths: array[int]
    tombstones: bytes
    entries_at: int = 0
    entries_crc: int = 0
    compressed_bytes: int = 0

    @property
    def file_bytes(self) -> int:
        """Return the size of the block file."""
        return self.compressed_bytes or self.block_bytes


@dataclass(slots=True)
class Entries:
    """Where the messages of a block are; `array('I')` or views of 32-bit numbers."""

    positions: Ids
    subject_ids: Ids
    offsets: Ids


def encode(summary: Summary, entries: Entries) -> list[Buffer]:
    """Return the content of an index file; fills in `entries_at` and `entries_crc`.

    It is in parts, some of them views of the summary's columns: an index may have as many bytes as
    its block, and to join them would take longer than all else.
    """
    columns = (summary.counts, summary.firsts, summary.lasts, summary.lengths)
    middle = [memoryview(each).cast("B") for each in columns if each]
    middle += [memoryview(each) for each in (summary.names, summary.tombstones) if each]
    middle_bytes = middle_crc = 0
    for part in middle:
        middle_bytes += len(part)
        middle_crc = crc32c(part, middle_crc)
    # A copy, as the entries can grow in memory.
    tail = b"".join((entries.positions, entries.subject_ids, entries.offsets))
    padding = -(HEADER_BYTES + middle_bytes) % 4
    summary.entries_at = HEADER_BYTES + middle_bytes + padding
    summary.entries_crc = crc32c(tail)
    header = _HEADER.pack(
        MAGIC,
        _SPARSE if summary.sparse else 0,
        summary.entries,
        len(summary.lengths),
        len(summary.tombstones),
        summary.first_seq,
        summary.last_seq,
        summary.block_bytes,
        summary.block_crc,
        summary.first_ts,
        summary.last_ts,
        summary.accounted,
        summary.recorded,
        middle_crc,
        summary.entries_crc,
    )
    check = _HEADER_CHECK.pack(crc32c(header))
    return [header + check, *middle, bytes(padding), tail]


def end(compressed_bytes: int) -> bytes:
    """Return the end of an index file whose block is compressed."""
    return _END.pack(compressed_bytes)


def decode(content: Buffer, *, with_subjects: bool = True) -> Summary | None:
    """Return what an index file says, None when it is damaged.

    The caller has to check by the block's size whether the index belongs to it.
    `with_subjects` may be False for the little that does not depend on the number of subjects.
    """
    header = _sound_header(content)
    if header is None:
        return None
    subjects, is_sparse = header.subjects, bool(header.flags & _SPARSE)
    lengths_at = HEADER_BYTES + 12 * subjects
    names_at = lengths_at + 2 * subjects
    if names_at > len(content):
        return None
    view = memoryview(content)  # an index may be as long as its block: little of it is copied
    lengths = array("H", view[lengths_at:names_at].tobytes())
    names_end = names_at + sum(lengths)
    stop = names_end + header.tombstone_bytes
    entries_at = stop + -stop % 4
    entries_end = entries_at + header.entries * (12 if is_sparse else 8)
    rest = view[entries_end:].tobytes()
    if (
        entries_end > len(content)
        or len(rest) not in (0, _END.size)
        or crc32c(view[HEADER_BYTES:stop]) != header.middle_crc
    ):
        return None
    of_all = view[HEADER_BYTES:lengths_at].cast("I") if with_subjects else memoryview(b"").cast("I")
    counts, firsts, lasts = (
        array("I", of_all[number * subjects : (number + 1) * subjects].tobytes())
        for number in range(3)
    )
    return Summary(
        first_seq=header.first_seq,
        last_seq=header.last_seq,
        entries=header.entries,
        accounted=header.accounted,
        recorded=header.recorded,
        block_bytes=header.block_bytes,
        block_crc=header.block_crc,
        first_ts=header.first_ts,
        last_ts=header.last_ts,
        sparse=is_sparse,
        counts=counts,
        firsts=firsts,
        lasts=lasts,
        names=view[names_at:names_end].tobytes() if with_subjects else b"",
        lengths=lengths if with_subjects else array("H"),
        tombstones=view[names_end:stop].tobytes(),
        entries_at=entries_at,
        entries_crc=header.entries_crc,
        compressed_bytes=_END.unpack(rest)[0] if rest else 0,
    )


def stored_names(content: Buffer) -> tuple[memoryview, memoryview]:
    """Return the subjects of a sound index, one behind the other with what follows them, and the
    length of each, as unsigned 16-bit numbers: views of the file."""
    subjects = _Header._make(_HEADER.unpack_from(content)).subjects
    lengths_at = HEADER_BYTES + 12 * subjects
    names_at = lengths_at + 2 * subjects
    view = memoryview(content)
    return view[names_at:], view[lengths_at:names_at].cast("H")


def _sound_header(content: Buffer) -> _Header | None:
    if len(content) < HEADER_BYTES or bytes(content[: len(MAGIC)]) != MAGIC:
        return None
    header = bytes(content[: _HEADER.size])
    checksum = _HEADER_CHECK.unpack_from(content, _HEADER.size)[0]
    return _Header._make(_HEADER.unpack(header)) if checksum == crc32c(header) else None


def decode_entries(content: Buffer, summary: Summary) -> Entries | None:
    """Return views of the entries of an index file, None when they are damaged."""
    n = summary.entries
    stop = summary.entries_at + n * (12 if summary.sparse else 8)
    if crc32c(memoryview(content)[summary.entries_at : stop]) != summary.entries_crc:
        return None
    numbers = memoryview(content)[summary.entries_at : stop].cast("I")
    return Entries(numbers[:n], numbers[n : 2 * n], numbers[2 * n :])
