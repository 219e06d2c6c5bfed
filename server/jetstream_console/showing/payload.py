"""A payload as JSON, text or hex, as much of it as fits a page."""

from __future__ import annotations

import json

SHOWN_BYTES = 64 << 10
JSON_BYTES = 1 << 20
HEX_BYTES = 8 << 10
_PER_LINE = 16
_JSON = json.JSONEncoder(indent=2, ensure_ascii=False)


def as_json(payload: bytes) -> str | None:
    """Return it indented; None if it is not a JSON object or array, or too large to be read
    here."""
    if len(payload) > JSON_BYTES or payload.lstrip()[:1] not in (b"{", b"["):
        return None
    written, length = [], 0
    try:
        # Written no further than it is shown: all of it may be many times as long as the payload.
        for piece in _JSON.iterencode(json.loads(payload)):
            written.append(piece)
            length += len(piece)
            if length >= SHOWN_BYTES:
                break
    except (ValueError, RecursionError):
        return None
    return cut(printable(cut("".join(written))))


def as_text(payload: bytes) -> str:
    """Return it as text; what is not UTF-8, and control characters, are replaced."""
    return cut(printable(payload[: SHOWN_BYTES * 2].decode("utf-8", "replace")))


def as_hex(payload: bytes) -> str:
    """Return offsets, bytes, and those bytes that are ASCII as text."""
    lines = []
    for offset in range(0, min(len(payload), HEX_BYTES), _PER_LINE):
        row = payload[offset : offset + _PER_LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{offset:08x}  {row.hex(' '):<{_PER_LINE * 3 - 1}}  {letters}")
    return "\n".join(lines)


def as_editable(payload: bytes) -> str | None:
    """Return it as text that a browser gives back byte by byte; None if it is not such a text, or
    too large."""
    if len(payload) > SHOWN_BYTES:
        return None
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if printable(text) == text else None


def preview(payload: bytes, length: int = 120) -> str:
    """Return the beginning in one line."""
    return " ".join(printable(payload[: 4 * length].decode("utf-8", "replace")).split())[:length]


def printable(text: str) -> str:
    """Return a text without control characters, except for line ends and tabs."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else "�" for each in text.replace("\r\n", "\n")
    )


def cut(text: str) -> str:
    """Return as much of a text as is shown."""
    return text[:SHOWN_BYTES]
