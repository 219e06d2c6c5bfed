"""Acks in pure Python, the reference for `fast.pyx`: publish acks out, consumer acks in.

No function knows streams or consumers; they only find stretches of messages that can be
answered alike, and write or read the numbers. `fields` as in `protocol/ops.py`.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from itertools import compress

STRIDE = 7

# Five tokens follow stream and consumer. Only the stream sequence is looked at: the genuine
# server takes an ack whose other numbers are not numeric (docs/reference/consumers.md#acks). 19
# digits always fit an unsigned 64-bit integer.
_ACK_SUBJECT = re.compile(
    rb"\$JS\.ACK\.[^.]++\.[^.]++\.[^.]++\.([0-9]{1,19}+)\.[^.]++\.[^.]++\.[^.]++"
)
_PLAIN_BODIES = frozenset((b"", b"+ACK", b"+OK"))


def reply_run(chunk: bytes, fields: array[int], start: int, stop: int) -> tuple[int, bytes, bool]:
    """Return (cut, reply, exact) for the stretch of messages from `start` answered alike.

    - `reply` b"": no message in the stretch has a reply.
    - `exact` True: every reply in it is `reply`.
    - `exact` False: every reply in it is `reply`, a dot, and one more token.

    The second message decides between the last two; a stretch of one is exact.
    """
    at = start * STRIDE
    reply = chunk[fields[at + 2] : fields[at + 3]]
    end = stop * STRIDE
    at += STRIDE
    while at < end and chunk[fields[at + 2] : fields[at + 3]] == reply:
        at += STRIDE
    cut = at // STRIDE
    dot = reply.rfind(b".")
    if cut > start + 1 or cut == stop or dot <= 0 or dot == len(reply) - 1:
        return cut, reply, True
    head, width = reply[: dot + 1], dot + 1
    find, startswith = chunk.find, chunk.startswith
    while at < end:
        reply_start, reply_stop = fields[at + 2], fields[at + 3]
        token_start = reply_start + width
        if (
            token_start >= reply_stop
            or not startswith(head, reply_start)
            or find(b".", token_start, reply_stop) >= 0
        ):
            break
        at += STRIDE
    if at // STRIDE == cut:
        return cut, reply, True
    return at // STRIDE, reply[:dot], False


def encode_pub_acks(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    sid: bytes,
    head: bytes,
    first_seq: int,
) -> tuple[bytes, int]:
    """Return one `MSG <reply> <sid> <n>` frame a message with `<head><sequence>}` as its payload,
    and how many bytes the payloads have.

    `head` is the PubAck up to its sequence, `{"stream":"ORDERS","seq":`. Sequences rise by one
    from `first_seq`. Every message must have a reply (`reply_run` says so).
    """
    frames: list[bytes] = []
    content_bytes = 0
    sequence = first_seq
    at = start * STRIDE
    end = stop * STRIDE
    while at < end:
        # All sequences with the same number of digits share the text between reply and sequence.
        digits = len(b"%d" % sequence)
        middle = b" %b %d\r\n%b" % (sid, len(head) + digits + 1, head)
        last = min(end, at + (10**digits - sequence) * STRIDE)
        replies = zip(fields[at + 2 : last : STRIDE], fields[at + 3 : last : STRIDE], strict=True)
        frames += [
            b"MSG %b%b%d}\r\n" % (chunk[a:b], middle, number)
            for number, (a, b) in enumerate(replies, sequence)
        ]
        count = (last - at) // STRIDE
        content_bytes += count * (len(head) + digits + 1)
        sequence += count
        at = last
    return b"".join(frames), content_bytes


def take_plain_acks(
    chunk: bytes, fields: array[int], start: int, stop: int, sequences: array[int]
) -> int:
    """Append the stream sequences of plain acks; return the first message that is anything else.

    A plain ack came to `$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer
    sequence>.<timestamp>.<pending>` with a sequence above 0, has no reply, and is empty, `+ACK`
    or `+OK`. Returns `stop` when all are.
    """
    match = _ACK_SUBJECT.fullmatch
    columns = iter(fields[start * STRIDE : stop * STRIDE])
    index = start
    for a, b, c, d, _, f, g in zip(*(columns,) * STRIDE, strict=True):
        subject = match(chunk, a, b)
        if subject is None or c != d or g - f > 4 or chunk[f:g] not in _PLAIN_BODIES:
            break
        sequence = int(subject[1])
        if sequence == 0:
            break
        sequences.append(sequence)
        index += 1
    return index


def settle(
    sequences: array[int], live: bytearray, given: array[int], start: int, taken: array[int]
) -> int:
    """Clear the flags of given sequences in a run of pending ones; return where it ends.

    Args:
        sequences: `array('Q')`, rising.
        live: one byte a sequence, 1 while it is pending.
        given: `array('Q')`, rising from `start`; the first that is above the whole run is the
            answer, or the length of `given`.
        taken: gets those whose flag was set.
    """
    place, last = 0, sequences[-1]
    for index in range(start, len(given)):
        sequence = given[index]
        if sequence > last:
            return index
        place = bisect_left(sequences, sequence, place)
        if sequences[place] == sequence and live[place]:
            live[place] = 0
            taken.append(sequence)
    return max(start, len(given))


def flagged(words: array[int], flags: bytearray, start: int, stop: int) -> array[int]:
    """Return those of a stretch of an `array('Q')` whose flags, a byte each, are set.

    Args:
        start, stop: of the stretch, which ends with the shorter of the two at the latest.
    """
    return array("Q", compress(words[start:stop], flags[start:stop]))
