"""Stored records to MSG and HMSG frames in pure Python, the reference for `deliveries_fast`.

The subject of a frame is the stored subject and its reply the ack subject (`jetstream.md` 6.5),
`$JS.ACK.<stream>.<consumer>.` and delivered, stream sequence, consumer sequence, timestamp and
pending, with dots between. Records are laid out as in `record_format.py`; their checksums are the
store's business.
"""

from __future__ import annotations

from array import array
from typing import cast

from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES


def encode_deliveries(
    buffer: bytes | bytearray | memoryview,
    positions: array[int],
    sequences: array[int],
    start: int,
    stop: int,
    sid: bytes,
    ack_head: bytes,
    delivered: int,
    first_consumer_seq: int,
    pending: int,
    headers: bool,
) -> bytes:
    """Return the frames that deliver records `start` up to `stop` to one subscriber.

    Args:
        buffer: the block.
        positions: where each record starts in it.
        sequences: the stream sequence of each record.
        sid: the subscriber's.
        ack_head: `$JS.ACK.<stream>.<consumer>.` with the dot at the end.
        delivered: how often each of them has now been delivered.
        first_consumer_seq: consumer sequence of the first; it rises by one.
        pending: the number pending after the first; it falls by one, not below 0.
        headers: False leaves the header blocks out.
    """
    unpack = PREFIX.unpack_from
    block = cast(bytes, buffer)  # slices of all three kinds are formatted alike
    head = b" %b %b%d." % (sid, ack_head, delivered)
    frames: list[bytes] = []
    consumer_seq = first_consumer_seq
    for position, sequence in zip(positions[start:stop], sequences[start:stop], strict=True):
        length, _, _, timestamp, header_bytes, subject_bytes, _ = unpack(block, position)
        subject_start = position + PREFIX_BYTES
        subject_stop = subject_start + subject_bytes
        payload_start = subject_stop + header_bytes
        record_stop = position + length
        ack = b"%b%d.%d.%d.%d" % (head, sequence, consumer_seq, timestamp, pending)
        if header_bytes and headers:
            frames.append(
                b"HMSG %b%b %d %d\r\n%b\r\n"
                % (
                    block[subject_start:subject_stop],
                    ack,
                    header_bytes,
                    record_stop - subject_stop,
                    block[subject_stop:record_stop],
                )
            )
        else:
            frames.append(
                b"MSG %b%b %d\r\n%b\r\n"
                % (
                    block[subject_start:subject_stop],
                    ack,
                    record_stop - payload_start,
                    block[payload_start:record_stop],
                )
            )
        consumer_seq += 1
        if pending:
            pending -= 1
    return b"".join(frames)
