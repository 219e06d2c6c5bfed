"""What the server says, one frame per call; runs of messages are the kernels' business.

Subjects, sids and header blocks are written as given: the caller has checked them
(docs/reference/protocol.md#transcripts).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from jetstream_server.protocol import headers as header_block

OK = b"+OK\r\n"
PING = b"PING\r\n"
PONG = b"PONG\r\n"

# Go's encoder, which clients and test suites were written against, escapes what has a meaning in
# HTML.
_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def json_text(value: Any, *, indented: bool = False) -> bytes:
    """Return `value` as JSON the way the genuine server writes it: HTML escaped, and compact unless
    it is for people.

    Keys keep their order. Raises TypeError for values JSON cannot hold.
    """
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indented else None)
    for raw, escaped in _GO_ESCAPES:
        if raw in text:
            text = text.replace(raw, escaped)
    return text


def info(fields: dict[str, Any]) -> bytes:
    """Return the INFO line; the genuine server leaves a space before CR LF."""
    return b"INFO %b \r\n" % json_text(fields)


def err(text: str) -> bytes:
    """Return `-ERR '<text>'`; bytes that could not be decoded go out as they came in."""
    return b"-ERR '%b'\r\n" % text.encode("utf-8", "surrogateescape")


def msg(
    subject: bytes, sid: bytes, reply: bytes = b"", headers: bytes = b"", payload: bytes = b""
) -> bytes:
    """Return one MSG frame, or HMSG when there is a header block."""
    return_to = b"%b " % reply if reply else b""
    if headers:
        return b"HMSG %b %b %b%d %d\r\n%b%b\r\n" % (
            subject,
            sid,
            return_to,
            len(headers),
            len(headers) + len(payload),
            headers,
            payload,
        )
    return b"MSG %b %b %b%d\r\n%b\r\n" % (subject, sid, return_to, len(payload), payload)


def status(
    inbox: bytes,
    sid: bytes,
    line: bytes,
    fields: Iterable[tuple[bytes, bytes]] = (),
    reply: bytes = b"",
) -> bytes:
    """Return a status message: HMSG with `NATS/1.0 <line>`, `fields`, and no payload."""
    return msg(inbox, sid, reply, header_block.build(fields, line))
