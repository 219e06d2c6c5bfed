"""Message ids in pure Python: the reference for `fast.pyx`, and what runs without it.

Which messages of a run ask a stream for something in their headers, and which only ask to be stored
once; where their ids are, for `seen_ids` to compare; and the ids of stored messages. The arguments
`chunk` and `fields` are those of a `PubRun` (`protocol/ops.py`).
Specification: docs/reference/publishing.md#headers.
"""

from __future__ import annotations

from array import array

from jetstream_server.kernels.frames.pure import STRIDE
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES, Buffer

_HEADER_LINE = b"NATS/1.0\r\n"
_SPECIAL_LINE = b"\r\nNats-"
_MESSAGE_ID = b"Nats-Msg-Id"
_EXPECTED_STREAM = b"Nats-Expected-Stream"


def first_special(
    chunk: bytes, fields: array[int], start: int, stop: int, stream: bytes = b""
) -> int:
    """Return the first message in [start, stop) that needs a look at its headers, else `stop`.

    That is one whose header block has a line starting `Nats-`, or does not start with the line
    `NATS/1.0`. A key counts only at the start of a line that ends in CR LF, as in the genuine
    server. A `Nats-Expected-Stream` that names `stream` asks for nothing, so it does not count.
    """
    if stop <= start:
        return stop
    first, end = start * STRIDE, stop * STRIDE
    if fields[first + 4 : end : STRIDE] == fields[first + 5 : end : STRIDE]:
        return stop
    for index in range(start, stop):
        at = index * STRIDE
        header_start, payload_start = fields[at + 4], fields[at + 5]
        if header_start != payload_start and _id(chunk[header_start:payload_start], stream) != b"":
            return index
    return stop


def id_spans(chunk: bytes, fields: array[int], start: int, stop: int, stream: bytes) -> array[int]:
    """Return where the ids are in the longest stretch from `start` of messages that ask for nothing
    but their id: an `array('i')` of two positions in the chunk for each.

    Such a message has a `Nats-Msg-Id` that is not empty, and no other header starting `Nats-` but
    a `Nats-Expected-Stream` that names `stream`. Of several with the same key the first counts;
    values lose their leading blanks.
    """
    spans = array("i")
    for index in range(start, stop):
        at = index * STRIDE
        block = chunk[fields[at + 4] : fields[at + 5]]
        value = _id(block, stream)
        if not value:
            break
        line = block.index(b"\r\n%b:" % _MESSAGE_ID)
        found = fields[at + 4] + block.index(value, line + len(_MESSAGE_ID) + 3)
        spans.extend((found, found + len(value)))
    return spans


def recorded_ids(
    buffer: Buffer, positions: array[int], start: int, before: int
) -> tuple[bytes, array[int], array[int], int, int]:
    """Return the ids of stored messages, from record `start` up to one stored at or after `before`.

    Whatever else their headers ask for, they were stored under their ids.

    Args:
        buffer: a block.
        positions: of records in it, an `array('Q')`.
        before: a time.

    Returns:
        The ids one after another; an `array('i')` of two positions in them for each; an
        `array('Q')` of the sequences of their messages; the number of the first record that was not
        read; and the latest time of a message with an id, 0 when there is none.
    """
    texts, used = list[bytes](), 0
    spans, sequences = array("i"), array("Q")
    newest = 0
    for index in range(start, len(positions)):
        at = positions[index]
        _, _, sequence, timestamp, header_bytes, subject_bytes, _ = PREFIX.unpack_from(buffer, at)
        if timestamp >= before:
            return b"".join(texts), spans, sequences, index, newest
        at += PREFIX_BYTES + subject_bytes
        if message_id := _recorded_id(bytes(buffer[at : at + header_bytes])):
            texts.append(message_id)
            spans.extend((used, used + len(message_id)))
            sequences.append(sequence)
            used += len(message_id)
            newest = max(newest, timestamp)
    return b"".join(texts), spans, sequences, max(start, len(positions)), newest


def _recorded_id(block: bytes) -> bytes:
    """Return the id in any block, b"" when it has none."""
    line = b"\r\n%b:" % _MESSAGE_ID
    at = block.find(line)
    if at < 0:
        return b""
    at += len(line)
    stop = block.find(b"\r\n", at)
    return block[at : stop if stop >= 0 else len(block)].lstrip(b" ")


def _id(block: bytes, stream: bytes) -> bytes | None:
    """Return the id in a block, b"" when it has none, None when it asks for anything else."""
    if not block.startswith(_HEADER_LINE):
        return None
    found: dict[bytes, bytes] = {}
    at = block.find(_SPECIAL_LINE)
    while at >= 0:
        stop = block.find(b"\r\n", at + 2)
        if stop < 0:
            stop = len(block)  # a last line that has no CR LF counts all the same
        key, colon, value = block[at + 2 : stop].partition(b":")
        if not colon or key not in (_MESSAGE_ID, _EXPECTED_STREAM):
            return None
        found.setdefault(key, value.lstrip(b" "))
        at = block.find(_SPECIAL_LINE, stop)
    if found.get(_EXPECTED_STREAM, b"") not in (b"", stream):
        return None
    return found.get(_MESSAGE_ID, b"")
