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

from google_crc32c import value as crc32c

from jetstream_server.kernels.record_format import CHECKED_FROM, MESSAGE, PREFIX, PREFIX_BYTES
from jetstream_server.protocol.ops import STRIDE


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
    interned: dict[bytes, int],
) -> tuple[int, int]:
    """Append messages `start` up to `stop` of a run as records, as far as the room goes.

    A new subject gets the id `len(interned)`.

    Returns:
        The first message that found no room (or `stop`), and the bytes of `buffer` used now.
    """
    room = len(buffer)
    sequence = first_seq
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
        subject_ids.append(interned.setdefault(subject, len(interned)))
        sequence += 1
        used += size
    return stop, used
