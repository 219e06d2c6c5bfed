"""What the headers of a published message ask of the stream.

Only keys that start with `Nats-` concern a stream. Keys are case-sensitive, the first of several
wins, values lose their leading spaces and keep trailing ones, and an empty value counts as absent.
Specification: docs/reference/publishing.md#headers.
"""

from __future__ import annotations

MESSAGE_ID = b"Nats-Msg-Id"
EXPECTED_STREAM = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MESSAGE_ID = b"Nats-Expected-Last-Msg-Id"
ROLLUP = b"Nats-Rollup"
TTL = b"Nats-TTL"
INCREMENT = b"Nats-Incr"
COUNTER_SOURCES = b"Nats-Counter-Sources"
BATCH_ID = b"Nats-Batch-Id"
BATCH_SEQUENCE = b"Nats-Batch-Sequence"
BATCH_COMMIT = b"Nats-Batch-Commit"
REQUIRED_API_LEVEL = b"Nats-Required-Api-Level"
STREAM_SOURCE = b"Nats-Stream-Source"
MARKER_REASON = b"Nats-Marker-Reason"
REQUEST_INFO = b"Nats-Request-Info"
SCHEDULE = b"Nats-Schedule"
SCHEDULER = b"Nats-Scheduler"
SCHEDULE_NEXT = b"Nats-Schedule-Next"
SCHEDULE_TIME_ZONE = b"Nats-Schedule-Time-Zone"
SCHEDULE_TARGET = b"Nats-Schedule-Target"
SCHEDULE_SOURCE = b"Nats-Schedule-Source"
SCHEDULE_TTL = b"Nats-Schedule-TTL"
SCHEDULE_ROLLUP = b"Nats-Schedule-Rollup"
# Any of these asks for the schedules of a stream; the others only qualify `Nats-Schedule`.
SCHEDULES = (SCHEDULE, SCHEDULER, SCHEDULE_NEXT, SCHEDULE_TIME_ZONE)

_VERSION = b"NATS/1.0"
_LINE = b"\r\n"


def special_headers(block: bytes) -> dict[bytes, bytes]:
    """Return the `Nats-` headers of a block."""
    found: dict[bytes, bytes] = {}
    at = block.find(b"\r\nNats-")
    while at >= 0:
        stop = block.find(_LINE, at + 2)
        if stop < 0:
            stop = len(block)  # a last line without its end counts all the same
        key, colon, value = block[at + 2 : stop].partition(b":")
        if colon and key not in found:
            found[key] = value.lstrip(b" ")
        at = block.find(b"\r\nNats-", stop)
    return {key: value for key, value in found.items() if value}


def header(block: bytes, key: bytes) -> bytes:
    """Return the value of any header, empty when there is none."""
    line = b"\r\n%b:" % key
    at = block.find(line)
    stop = block.find(_LINE, at + 2) if at >= 0 else -1
    return block[at + len(line) : stop].lstrip(b" ") if stop >= 0 else b""


def has_header(block: bytes, key: bytes) -> bool:
    """Tell whether a key is there, even with an empty value."""
    return b"\r\n%b:" % key in block


def storable(block: bytes) -> bytes:
    """Return a header block as it is stored: without a status and without request info.

    A block of nothing else is not stored at all; one that is not a NATS header block is left alone.
    """
    if not block.startswith(_VERSION):
        return block
    if not block.startswith(_VERSION + _LINE):
        status_stop = block.find(_LINE)
        if status_stop < 0:
            return block
        block = _VERSION + block[status_stop:]
        if block == _VERSION + _LINE + _LINE:
            return b""
    return without(block, REQUEST_INFO)


def without(block: bytes, key: bytes) -> bytes:
    """Return a block without one key; empty when no header is left."""
    if b"\r\n%b:" % key not in block:
        return block
    first, *lines = block.split(_LINE)
    kept = [line for line in lines if not line.startswith(key + b":")]
    return _LINE.join((first, *kept)) if any(kept) else b""


def extended(block: bytes, lines: bytes) -> bytes:
    """Return a block with header lines, each ending in CR LF, added at its end.

    The last two bytes make room for them, whatever they are: so does the genuine server, even with
    a block that is not one.
    """
    return b"%b%b\r\n" % (block[:-2] if block else b"NATS/1.0\r\n", lines)


def replaced(block: bytes, key: bytes, value: bytes) -> bytes:
    """Return a block in which a header has another value, where it stands; or added at the end."""
    line = b"\r\n%b:" % key
    at = block.find(line)
    stop = block.find(_LINE, at + 2) if at >= 0 else -1
    if stop < 0:
        return extended(block, b"%b: %b\r\n" % (key, value))
    return b"%b%b %b%b" % (block[:at], line, value, block[stop:])
