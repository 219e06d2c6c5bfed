"""PUB and HPUB frames in pure Python: the reference for `fast.pyx`, and what runs without it.

A chunk is what one or more socket reads brought; `fields` holds `STRIDE` positions a message (see
`protocol/ops.py`). Nothing that a peer sends raises here: `scan_publishes` takes the frames it is
sure of and stops before the first that is in any way unusual, so that only the parser's slow path
decides on errors (docs/reference/protocol.md#framing).
"""

from __future__ import annotations

import re
from array import array

# The layout of `protocol/ops.py`, which is a floor above; `tests/server/kernels` compares the two.
STRIDE = 7

# As every client library writes them: upper case, one space between arguments, CR LF. Sizes have
# at most 9 digits, as in the genuine server. The possessive quantifiers keep a failing match
# linear in the length of the line.
_TOKEN = rb"([^ \t\r\n]++)"
_SIZE = rb"([0-9]{1,9}+)"
_PUB = re.compile(rb"PUB %b (?:%b )?+%b\r\n" % (_TOKEN, _TOKEN, _SIZE))
_HPUB = re.compile(rb"HPUB %b (?:%b )?%b %b\r\n" % (_TOKEN, _TOKEN, _SIZE, _SIZE))


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


def encode_messages(
    chunk: bytes, fields: array[int], start: int, stop: int, sid: bytes, headers: bool
) -> tuple[bytes, int]:
    """Return the MSG and HMSG frames that carry messages `start` up to `stop` to one subscriber,
    and how many bytes of headers and payloads they hold.

    With `headers` False the header blocks are left out and every frame is a MSG.
    """
    frames: list[bytes] = []
    total = 0
    columns = iter(fields[start * STRIDE : stop * STRIDE])
    for a, b, c, d, e, f, g in zip(*(columns,) * STRIDE, strict=True):
        reply = b"%b " % chunk[c:d] if c != d else b""
        if e == f or not headers:
            total += g - f
            frames.append(b"MSG %b %b %b%d\r\n%b\r\n" % (chunk[a:b], sid, reply, g - f, chunk[f:g]))
        else:
            total += g - e
            frames.append(
                b"HMSG %b %b %b%d %d\r\n%b\r\n" % (chunk[a:b], sid, reply, f - e, g - e, chunk[e:g])
            )
    return b"".join(frames), total


def encode_for_each(
    chunk: bytes, fields: array[int], start: int, stop: int, sids: list[bytes], headers: bool
) -> tuple[bytes, int]:
    """Return the frames that carry messages `start` up to `stop` to several subscriptions, one
    after the other, and how many bytes of headers and payloads they hold together."""
    each = [encode_messages(chunk, fields, start, stop, sid, headers) for sid in sids]
    return b"".join(frames for frames, _ in each), sum(total for _, total in each)


def published_bytes(fields: array[int]) -> int:
    """Return how many bytes headers and payloads of all messages have."""
    return sum(fields[6::STRIDE]) - sum(fields[4::STRIDE])


def first_traced(chunk: bytes, fields: array[int], start: int, stop: int) -> int:
    """Return the first message in [start, stop) whose headers ask for a trace, `stop` for none.

    The key is `Nats-Trace-Dest`, in exactly this case, or `traceparent`, in any case.
    """
    for index in range(start, stop):
        at = index * STRIDE
        block = chunk[fields[at + 4] : fields[at + 5]]
        for line in block.split(b"\n")[1:]:
            if line.startswith(b"Nats-Trace-Dest:") or line[:12].lower() == b"traceparent:":
                return index
    return stop


def delivered_bytes(frames: bytes) -> int:
    """Return how many bytes headers and payloads have in whole MSG and HMSG frames."""
    at = total = 0
    while (line_feed := frames.find(b"\n", at)) >= 0:
        size = int(frames[frames.rindex(b" ", at, line_feed) + 1 : line_feed])
        total += size
        at = line_feed + 1 + size + 2
    return total
