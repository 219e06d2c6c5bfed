"""Header blocks: `NATS/1.0[ status]`, CR LF, `Key: value` lines, an empty line.

The server never parses a block into an object: it looks for a key, or removes or adds lines, and
every other byte stays as it was. Clients may send anything as a block, so nothing here fails on
garbage. A key counts only at the start of a line, up to the colon, in its exact case; its value is
the rest of the line without leading spaces (docs/reference/protocol.md#headers, as the genuine
server).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

VERSION_LINE = b"NATS/1.0"
_CRLF = b"\r\n"


def get(block: bytes, key: bytes) -> bytes | None:
    """Return the value of the first line with `key`, None when there is none."""
    found = block.find(b"\r\n%b:" % key)
    if found < 0:
        return None
    start = found + len(key) + 3
    stop = block.find(_CRLF, start)
    return block[start : stop if stop >= 0 else None].lstrip(b" ")


def pairs(block: bytes) -> list[tuple[bytes, bytes]]:
    """Return every (key, value) in order; lines without a colon are left out."""
    found = []
    for line in block.split(_CRLF)[1:]:
        key, colon, value = line.partition(b":")
        if colon:
            found.append((key, value.lstrip(b" ")))
    return found


def status(block: bytes) -> bytes:
    """Return what follows `NATS/1.0` on the first line, such as b"503" or b"404 No Messages"."""
    line = block.partition(_CRLF)[0]
    return line.removeprefix(VERSION_LINE).strip(b" ") if line.startswith(VERSION_LINE) else b""


def strip(block: bytes, keys: Collection[bytes], beginnings: tuple[bytes, ...] = ()) -> bytes:
    """Return `block` without the lines of `keys`; b"" when no line but the first is left.

    Args:
        keys: a set, if they are many.
        beginnings: the lines of all keys that begin like this go as well.
    """
    first, *lines, last = block.split(_CRLF) if _CRLF in block else (block, b"")
    kept = []
    for line in lines:
        key, colon, _ = line.partition(b":")
        if not colon or (key not in keys and not key.startswith(beginnings)):
            kept.append(line)
    if len(kept) == len(lines):
        return block
    shorter = _CRLF.join((first, *kept, last))
    return b"" if shorter == b"NATS/1.0\r\n\r\n" else shorter


def append(block: bytes, added: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return `block` with lines added before its empty line; if it is empty, begin one."""
    if not block:
        return build(added)
    lines = b"".join([b"%b: %b\r\n" % pair for pair in added])
    if block.endswith(b"\r\n\r\n"):
        block = block[:-2]
    elif not block.endswith(_CRLF):
        block += _CRLF  # garbage from a client; still findable after it
    return block + lines + _CRLF


def build(added: Iterable[tuple[bytes, bytes]], status: bytes = b"") -> bytes:
    """Return a block with these lines, and a status such as b"408 Request Timeout" on the first."""
    first = b"%b %b\r\n" % (VERSION_LINE, status) if status else b"NATS/1.0\r\n"
    return first + b"".join([b"%b: %b\r\n" % pair for pair in added]) + _CRLF
