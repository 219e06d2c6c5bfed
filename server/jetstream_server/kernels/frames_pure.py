"""PUB and HPUB frames in pure Python: the reference for `frames_fast`, and what runs without it.

A chunk is what one or more socket reads brought; `fields` holds `STRIDE` positions a message (see
`protocol/ops.py`). Nothing here raises on what a peer sends: `scan_publishes` takes the frames it
is sure of and stops before the first that is in any way unusual, so the parser's slow path has
the only say on errors (`jetstream.md` 1.1, `checked-wire-consumers.md` 1.1).
"""

from __future__ import annotations

import re
from array import array
from typing import TypeVar

T = TypeVar("T")

# The layout of `protocol/ops.py`, which is a floor above; `tests/server/kernels` compares the two.
STRIDE = 7

# As every client library writes them: upper case, one space between arguments, CR LF. Sizes have
# at most 9 digits, as in the genuine server. The possessive quantifiers keep a failing match
# linear in the length of the line.
_TOKEN = rb"([^ \t\r\n]++)"
_SIZE = rb"([0-9]{1,9}+)"
_PUB = re.compile(rb"PUB %b (?:%b )?+%b\r\n" % (_TOKEN, _TOKEN, _SIZE))
_HPUB = re.compile(rb"HPUB %b (?:%b )?%b %b\r\n" % (_TOKEN, _TOKEN, _SIZE, _SIZE))

_HEADER_LINE = b"NATS/1.0\r\n"
_SPECIAL_LINE = b"\r\nNats-"
_ACK_HEAD = b"$JS.ACK."
_ACK_TOKENS = 9
_ACK_TAIL_TOKENS = 5
_MESSAGE_ID = b"Nats-Msg-Id"
_EXPECTED_STREAM = b"Nats-Expected-Stream"


def scan_publishes(
    chunk: bytes,
    start: int,
    fields: array[int],
    control_line_max: int,
    payload_max: int,
    headers: bool,
) -> int:
    """Append every publish frame from `start` on; return the position of the first byte not taken.

    The scan ends at the start of the first frame that is incomplete, not written as above, over
    one of the two limits, not followed by CR LF, or an HPUB when `headers` is False.
    """
    found: list[int] = []
    sizes: dict[bytes, int] = {}  # int() costs more than a look-up, and sizes repeat
    match_pub, match_hpub = _PUB.match, _HPUB.match
    at = start
    while True:
        header_text = None
        if line := match_pub(chunk, at):
            subject, reply, size_text = line.groups()
            subject_start = at + 4
        elif headers and (line := match_hpub(chunk, at)):
            subject, reply, header_text, size_text = line.groups()
            subject_start = at + 5
        else:
            break
        header_start = line.end()
        if header_start - 2 - subject_start > control_line_max:
            break
        subject_stop = reply_start = reply_stop = subject_start + len(subject)
        if reply is not None:
            reply_start += 1
            reply_stop = reply_start + len(reply)
        size = sizes.get(size_text, -1)
        if size < 0:
            size = sizes[size_text] = int(size_text)
        payload_start = header_start
        if header_text is not None:
            payload_start += int(header_text)
        payload_stop = header_start + size
        if (
            size > payload_max
            or payload_start > payload_stop
            or chunk[payload_stop : payload_stop + 2] != b"\r\n"
        ):
            break
        found += (
            subject_start,
            subject_stop,
            reply_start,
            reply_stop,
            header_start,
            payload_start,
            payload_stop,
        )
        at = payload_stop + 2
    fields.fromlist(found)
    return at


def family(subject: bytes) -> tuple[bytes, int]:
    """Return the prefix that a subject shares with its kind, and how many tokens are behind it.

    Acks differ in the five tokens that describe a delivery, other subjects in their last token: an
    identifier, often a new one for each message. A subject without such a prefix gives (b"", 0).
    """
    if subject.startswith(_ACK_HEAD):
        tokens = subject.split(b".")
        if len(tokens) != _ACK_TOKENS or not all(tokens[-_ACK_TAIL_TOKENS:]):
            return b"", 0
        return b".".join(tokens[:-_ACK_TAIL_TOKENS]), _ACK_TAIL_TOKENS
    prefix, _, last = subject.rpartition(b".")
    return (prefix, 1) if prefix and last else (b"", 0)


def segment(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    routes: dict[bytes, T],
    families: dict[bytes, T],
) -> tuple[int, T | None]:
    """Return (cut, target): the subjects of messages `start` up to `cut` all map to `target`.

    A subject is looked for by the prefix of its `family` in `families`, then in `routes`. The
    stretch is the longest there is, at least one message long unless the first subject is in
    neither: then the answer is (start, None). Targets are compared by identity.
    """
    first, end = start * STRIDE, stop * STRIDE
    target: T | None = None
    index = start
    known: dict[bytes, T | None] = {}
    for a, b in zip(fields[first:end:STRIDE], fields[first + 1 : end : STRIDE], strict=True):
        subject = chunk[a:b]
        if subject in known:
            found = known[subject]
        else:
            found = families.get(family(subject)[0])
            if found is None:
                found = routes.get(subject)
            known[subject] = found
        if found is not target:
            if index > start:
                return index, target
            target = found
        if found is None:
            return start, None
        index += 1
    return index, target


def first_reserved(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    subjects: tuple[bytes, ...],
    replies: tuple[bytes, ...],
) -> int:
    """Return the first message in [start, stop) with a subject or reply of a reserved kind.

    That is a subject that begins with one of `subjects`, or a reply that begins with one of
    `replies`, and goes on behind it. `stop` when there is none.
    """
    first, end = start * STRIDE, stop * STRIDE
    columns = (fields[first + column : end : STRIDE] for column in range(4))
    for index, (a, b, c, d) in enumerate(zip(*columns, strict=True), start):
        for prefix in subjects:
            if b - a > len(prefix) and chunk.startswith(prefix, a, b):
                return index
        for prefix in replies:
            if d - c > len(prefix) and chunk.startswith(prefix, c, d):
                return index
    return max(start, stop)


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


def message_ids(
    chunk: bytes, fields: array[int], start: int, stop: int, stream: bytes
) -> list[bytes]:
    """Return the ids of the longest stretch from `start` of messages with one and no other wish.

    Such a message has a `Nats-Msg-Id` that is not empty, and no other header starting `Nats-` but
    a `Nats-Expected-Stream` that names `stream`. Of several with the same key the first counts;
    values lose their leading blanks.
    """
    ids: list[bytes] = []
    for index in range(start, stop):
        at = index * STRIDE
        value = _id(chunk[fields[at + 4] : fields[at + 5]], stream)
        if not value:
            break
        ids.append(value)
    return ids


def _id(block: bytes, stream: bytes) -> bytes | None:
    """Return the id in a block, b"" when it has none, None when it asks for anything else."""
    if not block.startswith(_HEADER_LINE):
        return None
    found: dict[bytes, bytes] = {}
    at = block.find(_SPECIAL_LINE)
    while at >= 0:
        stop = block.find(b"\r\n", at + 2)
        if stop < 0:
            stop = len(block)  # a last line without its end counts all the same
        key, colon, value = block[at + 2 : stop].partition(b":")
        if not colon or key not in (_MESSAGE_ID, _EXPECTED_STREAM):
            return None
        found.setdefault(key, value.lstrip(b" "))
        at = block.find(_SPECIAL_LINE, stop)
    if found.get(_EXPECTED_STREAM, b"") not in (b"", stream):
        return None
    return found.get(_MESSAGE_ID, b"")


def encode_messages(
    chunk: bytes, fields: array[int], start: int, stop: int, sid: bytes, headers: bool
) -> bytes:
    """Return the MSG and HMSG frames that bring messages `start` up to `stop` to one subscriber.

    With `headers` False the header blocks are left out and every frame is a MSG.
    """
    frames: list[bytes] = []
    columns = iter(fields[start * STRIDE : stop * STRIDE])
    for a, b, c, d, e, f, g in zip(*(columns,) * STRIDE, strict=True):
        reply = b"%b " % chunk[c:d] if c != d else b""
        if e == f or not headers:
            frames.append(b"MSG %b %b %b%d\r\n%b\r\n" % (chunk[a:b], sid, reply, g - f, chunk[f:g]))
        else:
            frames.append(
                b"HMSG %b %b %b%d %d\r\n%b\r\n" % (chunk[a:b], sid, reply, f - e, g - e, chunk[e:g])
            )
    return b"".join(frames)
