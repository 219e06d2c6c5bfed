"""Stored records to MSG and HMSG frames in pure Python, the reference for `fast.pyx`.

The subject of a frame is the stored subject and its reply the ack subject
(docs/reference/consumers.md#delivery), `$JS.ACK.<stream>.<consumer>.` and delivered, stream
sequence, consumer sequence, timestamp and pending, with dots between. Records are laid out as in
`record_format.py`; their checksums are the store's business.
"""

from __future__ import annotations

from array import array
from typing import cast

from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES

_VERSION_LINE = b"NATS/1.0\r\n"


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
    picks: array[int] | None = None,
    is_falling: bool = True,
    extra: bytes = b"",
    headers_only: bool = False,
) -> tuple[bytes, int]:
    """Return the frames that deliver records `start` up to `stop` to one subscriber, and how many
    bytes their headers and payloads have.

    Args:
        buffer: the block.
        positions: where each record starts in it.
        sequences: the stream sequence of each record.
        sid: the subscriber's.
        ack_head: `$JS.ACK.<stream>.<consumer>.` with the dot at the end.
        delivered: how often each of them has now been delivered.
        first_consumer_seq: consumer sequence of record `start`; it rises by one a record.
        pending: the number pending after record `start`.
        headers: False leaves the header blocks out.
        picks: `array('Q')`, which records to send instead, from `start` on; None for all up to
            `stop`. Those left out count all the same: they go to somebody else.
        is_falling: `pending` falls by one a record, not below 0; else it stays.
        extra: header lines for each message, each with its CRLF.
        headers_only: leave the payloads out and give their size in a header.
    """
    unpack = PREFIX.unpack_from
    block = cast(bytes, buffer)  # slices of all three kinds are formatted alike
    head = b" %b %b%d." % (sid, ack_head, delivered)
    frames: list[bytes] = []
    content_bytes = 0
    for index in range(start, stop) if picks is None else picks:
        position = positions[index]
        length, _, _, timestamp, header_bytes, subject_bytes, _ = unpack(block, position)
        subject_start = position + PREFIX_BYTES
        subject_stop = subject_start + subject_bytes
        payload_start = subject_stop + header_bytes
        record_stop = position + length
        ahead = index - start
        left = max(pending - ahead, 0) if is_falling else pending
        ack = b"%b%d.%d.%d.%d" % (
            head,
            sequences[index],
            first_consumer_seq + ahead,
            timestamp,
            left,
        )
        subject = block[subject_start:subject_stop]
        header_block = block[subject_stop:payload_start]
        payload = block[payload_start:record_stop]
        if headers and (extra or headers_only):
            lines = b"%bNats-Msg-Size: %d\r\n" % (extra, len(payload)) if headers_only else extra
            kept = block[subject_stop : payload_start - 2] if header_bytes >= 2 else _VERSION_LINE
            header_block = b"%b%b\r\n" % (kept, lines)
        if headers_only:
            payload = b""
        if not headers:
            header_block = b""
        total = len(header_block) + len(payload)
        content_bytes += total
        if header_block:
            sizes = b"%d %d" % (len(header_block), total)
            frames.append(
                b"HMSG %b%b %b\r\n%b%b\r\n" % (subject, ack, sizes, header_block, payload)
            )
        else:
            frames.append(b"MSG %b%b %d\r\n%b\r\n" % (subject, ack, len(payload), payload))
    return b"".join(frames), content_bytes
