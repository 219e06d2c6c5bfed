"""Direct gets of single messages, in pure Python: the reference for `fast.pyx`.

Requests are messages of a `PubRun`, taken while they look as clients usually send them: no headers,
and nothing but a sequence or a subject. Anything else is left to `direct_get.py`. Records are laid
out as in `record_format.py`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import cast

from jetstream_server.kernels.moments import time_text
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES, Buffer

STRIDE = 7  # integers a message in `fields`, as in `protocol/ops.py`

_SEQUENCE = re.compile(
    rb'[ \t\r\n]*\{[ \t\r\n]*"seq"[ \t\r\n]*:[ \t\r\n]*([1-9][0-9]{0,17})[ \t\r\n]*\}[ \t\r\n]*'
)


def sequences_asked(
    chunk: bytes, fields: array[int], start: int, stop: int, address_bytes: int
) -> array[int]:
    """Return what the first requests ask for, as long as their whole body is `{"seq":N}`, N below
    10^18.

    Args:
        chunk, fields: the run.
        start, stop: which of its messages.
        address_bytes: the bytes of a subject without the stored subject after it.
    """
    asked = array("Q")
    for at in range(start * STRIDE, stop * STRIDE, STRIDE):
        subject, subject_stop, _, _, headers, payload, end = fields[at : at + STRIDE]
        if headers != payload or subject_stop - subject != address_bytes:
            break
        found = _SEQUENCE.fullmatch(chunk, payload, end)
        if found is None:
            break
        asked.append(int(found[1]))
    return asked


def subjects_asked(
    chunk: bytes, fields: array[int], start: int, stop: int, address_bytes: int
) -> list[bytes]:
    """Return the subjects that the first requests carry after the address and a dot, as long as
    they have no body and no wildcards."""
    asked = []
    for at in range(start * STRIDE, stop * STRIDE, STRIDE):
        subject, subject_stop, _, _, headers, _, end = fields[at : at + STRIDE]
        if headers != end or subject_stop - subject < address_bytes + 2:
            break
        wanted = chunk[subject + address_bytes + 1 : subject_stop]
        if b"*" in wanted or b">" in wanted:
            break
        asked.append(wanted)
    return asked


def encode_found(
    buffers: Sequence[Buffer | None],
    positions: array[int],
    sequences: array[int],
    first: int,
    chunk: bytes,
    fields: array[int],
    start: int,
    sid: bytes,
    stream: bytes,
) -> tuple[bytes, int]:
    """Return frames that answer with records, and how many, up to the first that is not there.

    Args:
        buffers: the bytes that hold each record, None for one that is not there.
        positions: where in them it starts.
        sequences: its stream sequence.
        first: which of them is the first to go.
        chunk, fields, start: its request, whose reply subject is answered; the others follow it.
        sid: of the subscriber.
        stream: the stream's name.
    """
    unpack = PREFIX.unpack_from
    frames: list[bytes] = []
    for number in range(first, len(sequences)):
        buffer, position = buffers[number], positions[number]
        if buffer is None:
            break
        block = cast(bytes, buffer)  # slices of all these kinds are formatted alike
        length, _, _, timestamp, header_bytes, subject_bytes, _ = unpack(block, position)
        subject_start = position + PREFIX_BYTES
        subject_stop = subject_start + subject_bytes
        payload = block[subject_stop + header_bytes : position + length]
        stop = max(subject_stop + header_bytes - 2, subject_stop)
        headers = (
            b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
            b"Nats-Time-Stamp: %b\r\n\r\n"
        ) % (
            block[subject_stop:stop] if header_bytes else b"NATS/1.0\r\n",
            stream,
            block[subject_start:subject_stop],
            sequences[number],
            time_text(timestamp),
        )
        at = (start + number - first) * STRIDE
        reply = chunk[fields[at + 2] : fields[at + 3]]
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        frames.append(b"HMSG %b %b %b\r\n%b%b\r\n" % (reply, sid, sizes, headers, payload))
    return b"".join(frames), len(frames)
