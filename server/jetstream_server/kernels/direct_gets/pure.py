"""Stored records to the frames that answer a direct get, in pure Python: the reference for
`fast.pyx`.

All go to one reply subject. Where a message was stored is told in header lines after its own
(docs/reference/streams.md#direct-get). Records are laid out as in `record_format.py`.
"""

from __future__ import annotations

from array import array
from mmap import mmap
from typing import cast

from jetstream_server.kernels.moments import time_text
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES

_VERSION_LINE = b"NATS/1.0\r\n"


def encode_answers(
    buffer: bytes | bytearray | memoryview | mmap,
    positions: array[int],
    sequences: array[int],
    count: int,
    head: bytes,
    stream: bytes,
    pending: int,
    last: int,
    bytes_max: int,
) -> tuple[bytes, int, int]:
    """Return frames with the first records, how many there are, and their bytes.

    Args:
        buffer: the block.
        positions: where each record starts in it.
        sequences: the stream sequence of each record.
        count: how many records at most.
        head: the reply subject and the subscriber's sid, with a space between.
        stream: the stream's name; empty leaves out all headers.
        pending: how many are pending before the first of them; it falls by one a record.
        last: the sequence answered before the first of them, 0 for none.
        bytes_max: the record that reaches it is the last one. Subject, headers and payload count,
            as they are stored.
    """
    unpack = PREFIX.unpack_from
    block = cast(bytes, buffer)  # slices of all these kinds are formatted alike
    frames: list[bytes] = []
    counted = 0
    for position, sequence in zip(positions[:count], sequences[:count], strict=True):
        length, _, _, timestamp, header_bytes, subject_bytes, _ = unpack(block, position)
        subject_start = position + PREFIX_BYTES
        subject_stop = subject_start + subject_bytes
        payload = block[subject_stop + header_bytes : position + length]
        counted += length - PREFIX_BYTES
        if stream:
            pending -= 1
            stop = max(subject_stop + header_bytes - 2, subject_stop)
            headers = (
                b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
                b"Nats-Time-Stamp: %b\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n"
            ) % (
                block[subject_stop:stop] if header_bytes else _VERSION_LINE,
                stream,
                block[subject_start:subject_stop],
                sequence,
                time_text(timestamp),
                pending,
                last,
            )
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            frames.append(b"HMSG %b %b\r\n%b%b\r\n" % (head, sizes, headers, payload))
        else:
            frames.append(b"MSG %b %d\r\n%b\r\n" % (head, len(payload), payload))
        last = sequence
        if counted >= bytes_max:
            break
    return b"".join(frames), len(frames), counted
