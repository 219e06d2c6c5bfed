"""Published frames to records in a block, and back; the reference for the compiled twin.

Positions and subject ids are `array('I')`, one entry a message; the format of a record is in
`record_format`. A *subject id* is the index of a subject in the order in which the store met it.

Shared arguments:
    buffer: a block, from its first byte.
    alive: one byte per entry, 0 for a deleted one; empty when none is deleted.
    flags: one byte per subject id, 1 for a wanted one; empty when all are wanted.
    offsets: sequence of an entry minus the block's first one; empty when that is its index.
"""

from __future__ import annotations

from array import array
from struct import Struct

from google_crc32c import extend
from google_crc32c import value as crc32c

from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import (
    CHECKED_FROM,
    HEADER_ACCOUNTED_BYTES,
    MESSAGE,
    PREFIX,
    PREFIX_BYTES,
    SPAN_MAX,
    SUBJECT_BYTES_MAX,
    UNACCOUNTED_BYTES,
    Buffer,
    Ids,
)

STRIDE = 7  # integers a message in the fields of a run (`protocol/ops.py`)

Alive = bytes | bytearray

SIZE = Struct("<I")


def checksum(data: Buffer, before: int = 0) -> int:
    """Return the CRC-32C of any buffer, or of all its parts by the last of them.

    Args:
        before: the checksum of the parts before this one.
    """
    value: int = extend(before, bytes(data))
    return value


def unwritten(size: int) -> bytearray:
    """Return a `bytearray` of arbitrary content, to be overwritten."""
    return bytearray(size)


def encode_run(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    first_seq: int,
    timestamp: int,
    buffer: bytearray,
    used: int,
    positions: array[int],
    subject_ids: array[int],
    interned: Interned,
) -> tuple[int, int]:
    """Append messages `start` up to `stop` of a run as records, as far as the room goes.

    A new subject gets the next id of `interned`.

    Returns:
        The first message that found no room (or `stop`), and the bytes of `buffer` used now.
    """
    room = len(buffer)
    sequence = first_seq
    first, end = start * STRIDE, stop * STRIDE
    begins, ends = fields[first:end:STRIDE], fields[first + 1 : end : STRIDE]
    if any(b - a > SUBJECT_BYTES_MAX for a, b in zip(begins, ends, strict=True)):
        raise ValueError("a subject is too long for a record")
    for index in range(start, stop):
        at = index * STRIDE
        subject = chunk[fields[at] : fields[at + 1]]
        body = chunk[fields[at + 4] : fields[at + 6]]
        size = PREFIX_BYTES + len(subject) + len(body)
        if used + size > room:
            return index, used
        headers = fields[at + 5] - fields[at + 4]
        record = b"".join(
            (
                PREFIX.pack(size, 0, sequence, timestamp, headers, len(subject), MESSAGE),
                subject,
                body,
            )
        )
        buffer[used : used + size] = record
        checksum = crc32c(record[CHECKED_FROM:])
        buffer[used + 4 : used + 8] = checksum.to_bytes(4, "little")
        positions.append(used)
        subject_ids.append(interned.number(subject))
        sequence += 1
        used += size
    return stop, used


def count_headed(fields: array[int], start: int, stop: int) -> int:
    """Return how many messages of a run, from `start` up to `stop`, have headers."""
    at, end = start * STRIDE, stop * STRIDE
    columns = zip(fields[at + 4 : end : STRIDE], fields[at + 5 : end : STRIDE], strict=True)
    return sum(begin != end for begin, end in columns)


def scan_records(
    buffer: bytes | bytearray,
    start: int,
    stop: int,
    positions: array[int],
    subject_ids: array[int],
    sequences: array[int],
    interned: Interned,
) -> int:
    """Read records of messages from `start` on, checking each one.

    `sequences` is an `array('Q')`, with those of the messages before.

    Returns:
        Where the first record begins that is not a whole, sound message: `stop`, a tombstone, a
        torn or a damaged one, or one whose sequence cannot follow those before it.
    """
    at = start
    while at + PREFIX_BYTES <= stop:
        size, checksum, sequence, _, headers, subject_bytes, kind = PREFIX.unpack_from(buffer, at)
        if (
            kind != MESSAGE
            or size < PREFIX_BYTES + subject_bytes + headers
            or at + size > stop
            or crc32c(bytes(buffer[at + CHECKED_FROM : at + size])) != checksum
            or (sequences and not sequences[-1] < sequence <= sequences[0] + SPAN_MAX)
        ):
            break
        subject = bytes(buffer[at + PREFIX_BYTES : at + PREFIX_BYTES + subject_bytes])
        positions.append(at)
        subject_ids.append(interned.number(subject))
        sequences.append(sequence)
        at += size
    return at


def measure(
    buffer: Buffer,
    positions: Ids,
    alive: Alive,
    start: int,
    stop: int,
    messages_max: int,
    bytes_max: int,
    expired_at: int,
) -> tuple[int, int, int, int]:
    """Weigh live entries from `start` on while any of these holds: fewer than `messages_max` seen,
    less than `bytes_max` (accounted bytes) seen, stored at or before `expired_at`.

    Returns:
        The first entry not weighed, messages, accounted bytes, record bytes.
    """
    messages = accounted = recorded = 0
    for index in range(start, stop):
        if alive and not alive[index]:
            continue
        size, _, _, timestamp, headers, _, _ = PREFIX.unpack_from(buffer, positions[index])
        if messages >= messages_max and accounted >= bytes_max and timestamp > expired_at:
            return index, messages, accounted, recorded
        messages += 1
        accounted += size - UNACCOUNTED_BYTES + (HEADER_ACCOUNTED_BYTES if headers else 0)
        recorded += size
    return stop, messages, accounted, recorded


def gather(
    buffer: Buffer,
    positions: Ids,
    subject_ids: Ids,
    alive: Alive,
    start: int,
    stop: int,
    first_seq: int,
    offsets: Ids,
    target: bytearray,
    used: int,
    out_positions: array[int],
    out_ids: array[int],
    out_sequences: array[int],
) -> int:
    """Append the records of live entries to `target`, which has room for them.

    `out_sequences` is an `array('Q')`.

    Returns:
        The bytes of `target` used now.
    """
    for index in range(start, stop):
        if alive and not alive[index]:
            continue
        at = positions[index]
        size = SIZE.unpack_from(buffer, at)[0]
        if used + size > len(target):
            raise IndexError("no room for the living")
        target[used : used + size] = buffer[at : at + size]
        out_positions.append(used)
        out_ids.append(subject_ids[index])
        out_sequences.append(first_seq + (offsets[index] if offsets else index))
        used += size
    return used
