"""Headers of a message on its way from one stream to another: which go, and which do not count.

Conditions and batches were settled when the origin took the message, so a copy is stored without
them. What asks for something that the copying stream does not do is kept, but not acted upon.
"""

from __future__ import annotations

from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate

_DROPPED = (
    b"Nats-Expected-",
    names.BATCH_ID + b":",
    names.BATCH_SEQUENCE + b":",
    names.BATCH_COMMIT + b":",
)
_LINE = b"\r\n"


def copied(headers: bytes, *, but_source: bool = False) -> bytes:
    """Return a header block as a copy keeps it, without conditions and batches; empty when no
    header is left.

    Args:
        but_source: whether the header of a source goes as well, to be replaced.
    """
    if b"\r\nNats-" not in headers:
        return headers
    dropped = (*_DROPPED, names.STREAM_SOURCE + b":") if but_source else _DROPPED
    first, *lines = headers.split(_LINE)
    kept = [line for line in lines if not line.startswith(dropped)]
    if len(kept) == len(lines):
        return headers
    return _LINE.join((first, *kept)) if any(kept) else b""


def is_special(headers: bytes) -> bool:
    """Tell whether a stream may have to act on one of the headers."""
    return b"\r\nNats-" in headers


def disregard(message: Candidate, config: StreamConfig) -> None:
    """Have those headers kept, but not acted upon, that the copying stream would not take
    itself."""
    special = message.special
    special.pop(names.STREAM_SOURCE, None)
    if not config.allow_msg_ttl:
        special.pop(names.TTL, None)
    if not config.allow_rollup_hdrs or config.deny_purge:
        special.pop(names.ROLLUP, None)
    if not config.allow_msg_counter:
        special.pop(names.INCREMENT, None)
    for name in names.SCHEDULES:  # a stream that copies has none of its own
        special.pop(name, None)
