"""Records of a block that are not messages: what was deleted, skipped and purged, and how it began.

They use the record's own fields (`kernels/record_format.py`), so that one checksum rule holds for
a whole block:

    STARTED   sequence: last_seq; timestamp: last_ts; payload: u64 floor. First record of a block,
              so the newest block alone tells the numbers of an empty store.
    DELETED   payload: pairs of u64, half-open sequence ranges.
    FLOOR     sequence: everything below it is gone; beyond the end it moves last_seq as well.
    SKIPPED   sequence: the last one used up without a message; timestamp: when.
    DURABLE   sequence: bytes of this block that were durable when it was written; payload: a
              constant to search for. A damaged record below that mark is not a torn tail.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from jetstream_server.kernels.record_format import (
    CHECKED_FROM,
    PREFIX,
    PREFIX_BYTES,
    SEQUENCE_MAX,
    Buffer,
)
from jetstream_server.kernels.records import checksum as crc32c

STARTED = 1
DELETED = 2
FLOOR = 3
SKIPPED = 4
DURABLE = 5
KINDS = frozenset((STARTED, DELETED, FLOOR, SKIPPED, DURABLE))

DURABLE_PAYLOAD = b"JetStream block durable up to here"
_U64 = Struct("<Q")


@dataclass(slots=True)
class Tombstone:
    """One such record; what the fields mean depends on `kind`."""

    kind: int
    sequence: int = 0
    timestamp: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        """Return the record."""
        size = PREFIX_BYTES + len(self.payload)
        prefix = PREFIX.pack(size, 0, self.sequence, self.timestamp, 0, 0, self.kind)
        record = bytearray(prefix + self.payload)
        record[4:8] = crc32c(bytes(record[CHECKED_FROM:])).to_bytes(4, "little")
        return bytes(record)

    def ranges(self) -> Iterable[tuple[int, int]]:
        """Return the ranges of a DELETED record."""
        numbers = array("Q", self.payload)
        return zip(numbers[::2], numbers[1::2], strict=True)

    def is_possible(self) -> bool:
        """Tell whether its sequences can exist; a floor may be one beyond the highest."""
        if self.kind == FLOOR:
            return self.sequence <= SEQUENCE_MAX + 1
        if self.kind == STARTED and self.floor() > SEQUENCE_MAX + 1:
            return False
        return self.sequence <= SEQUENCE_MAX

    def floor(self) -> int:
        """Return the floor in a STARTED record."""
        floor: int = _U64.unpack(self.payload)[0]
        return floor


def started(last_seq: int, last_ts: int, floor: int) -> Tombstone:
    """Return the record that begins a block."""
    return Tombstone(STARTED, last_seq, last_ts, _U64.pack(floor))


def deleted(ranges: Iterable[tuple[int, int]]) -> Tombstone:
    """Return the record of single deletes."""
    numbers = array("Q", [number for pair in ranges for number in pair])
    return Tombstone(DELETED, payload=numbers.tobytes())


def decode(buffer: Buffer, at: int, stop: int) -> tuple[Tombstone, int] | None:
    """Return the tombstone at a position and where it ends; None when no sound one is there."""
    if at + PREFIX_BYTES > stop:
        return None
    size, checksum, sequence, timestamp, headers, subject_bytes, kind = PREFIX.unpack_from(
        buffer, at
    )
    if kind not in KINDS or headers or subject_bytes or not PREFIX_BYTES <= size <= stop - at:
        return None
    if crc32c(bytes(buffer[at + CHECKED_FROM : at + size])) != checksum:
        return None
    payload = bytes(buffer[at + PREFIX_BYTES : at + size])
    if (kind == DELETED and len(payload) % 16) or (kind == STARTED and len(payload) != 8):
        return None
    found = Tombstone(kind, sequence, timestamp, payload)
    return (found, at + size) if found.is_possible() else None


def as_ranges(sequences: Iterable[int]) -> list[tuple[int, int]]:
    """Join rising sequences to half-open ranges."""
    ranges: list[tuple[int, int]] = []
    start = stop = 0
    for sequence in sequences:
        if sequence == stop and ranges:
            stop += 1
            ranges[-1] = (start, stop)
        else:
            start, stop = sequence, sequence + 1
            ranges.append((start, stop))
    return ranges
