"""Whether a published message is to be traced, and where the trace goes.

A client asks for it with `Nats-Trace-Dest`; an account may have a share of those messages traced
that carry a sampled W3C `traceparent`. A message that asks for it with `Nats-Trace-Only` is neither
stored nor delivered. Names, values and their order of importance as probed with 2.15.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    has_header,
    without,
)
from jetstream_server.node.service_latency import is_sampled

DESTINATION = b"Nats-Trace-Dest"
DISABLED = b"trace disabled"
_ONLY = b"Nats-Trace-Only"
_ORIGIN_ACCOUNT = b"Nats-Trace-Origin-Account"
_ENCODING = b"Accept-Encoding"
_PARENT = b"traceparent"
_TRUE = (b"1", b"true", b"on")
_LINE = b"\r\n"
_HUNDRED = 100

Headers = dict[bytes, list[bytes]]


@dataclass(frozen=True, slots=True)
class TraceTerms:
    """What an account says: where traces of sampled messages go, and how many in a hundred are
    traced."""

    subject: bytes
    percent: int


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What a message asks for.

    Attributes:
        subject: where the trace goes.
        headers: all headers of the message.
        is_only: whether the message is neither stored nor delivered.
        is_asked_for: the message itself asks for it, not its account.
        encoding: of the trace: `gzip`, `snappy`, or empty.
    """

    subject: bytes
    headers: Headers
    is_only: bool
    is_asked_for: bool
    encoding: str


def trace_request(block: bytes, terms: TraceTerms | None, random: Random) -> TraceRequest | None:
    """Return what a header block asks for, None for nothing."""
    headers = _headers(block)
    subject, is_asked_for = b"", DESTINATION in headers
    if is_asked_for:
        subject = headers[DESTINATION][0]
        if DISABLED in headers[DESTINATION]:
            return None
    elif terms is not None and _is_sampled(headers):
        if terms.percent < _HUNDRED and random.randrange(_HUNDRED) >= terms.percent:
            return None
        subject = terms.subject
    if not subject:
        return None
    is_only = is_asked_for and headers.get(_ONLY, [b""])[0].lower() in _TRUE
    encodings = headers.get(_ENCODING, [b""])[0].decode(errors="replace").lower()
    return TraceRequest(subject, headers, is_only, is_asked_for, _encoding(encodings))


def is_of_other_server(block: bytes) -> bool:
    """Tell whether a message says that another server traces it."""
    return has_header(block, _ORIGIN_ACCOUNT)


def without_trace(block: bytes) -> bytes:
    """Return a header block that asks nobody further on for a trace."""
    return with_destination(block, DISABLED)


def with_destination(block: bytes, subject: bytes) -> bytes:
    """Return a header block whose traces go to another subject."""
    return extended(without(block, DESTINATION), b"%b: %b\r\n" % (DESTINATION, subject))


def _headers(block: bytes) -> Headers:
    headers: Headers = {}
    for line in block.split(_LINE)[1:]:
        key, colon, value = line.partition(b":")
        if colon and key:
            headers.setdefault(key, []).append(value.strip(b" "))
    return headers


def _is_sampled(headers: Headers) -> bool:
    parent = next((v[0] for key, v in headers.items() if key.lower() == _PARENT), b"")
    return is_sampled(parent.decode(errors="replace"))


def _encoding(wanted: str) -> str:
    if "snappy" in wanted or "s2" in wanted:
        return "snappy"
    return "gzip" if "gzip" in wanted else ""
