"""Whether a published message is to be traced, and where the trace goes.

A client asks for it with `Nats-Trace-Dest`; an account may have a share of those messages traced
that carry a sampled W3C `traceparent`. A message that asks for it with `Nats-Trace-Only` is neither
stored nor delivered. Names, values and their order of importance as probed with 2.15.1.

A trace shows the first of the message's headers, however many those are: to show a megabyte of
lines would take a third of a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from jetstream_server.base import limits
from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    has_header,
    without,
)
from jetstream_server.node.service_latency import is_sampled
from jetstream_server.node.sought_headers import first_headers, first_value

DESTINATION = b"Nats-Trace-Dest"
DISABLED = b"trace disabled"
_ONLY = b"Nats-Trace-Only"
_ORIGIN_ACCOUNT = b"Nats-Trace-Origin-Account"
_ENCODING = b"Accept-Encoding"
_PARENT = b"traceparent"
_TRUE = (b"1", b"true", b"on")
_HUNDRED = 100
_IS_DISABLED = re.compile(rb"\r\n%b: *%b *(?:\r\n|\Z)" % (DESTINATION, DISABLED))
# Of a block, whose lines a trace shows.
SHOWN_BYTES_MAX = 16_384
# Nobody can listen to longer ones.
DESTINATION_BYTES_MAX = limits.CONTROL_LINE_BYTES_MAX

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
        headers: those of the message that the trace shows.
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
    destination = first_value(block, DESTINATION)
    subject, is_asked_for = destination or b"", destination is not None
    if is_asked_for:
        if _IS_DISABLED.search(block):
            return None
    elif terms is not None and _is_sampled(block):
        if terms.percent < _HUNDRED and random.randrange(_HUNDRED) >= terms.percent:
            return None
        subject = terms.subject
    if not subject or len(subject) > DESTINATION_BYTES_MAX:
        return None
    is_only = is_asked_for and (first_value(block, _ONLY) or b"").lower() in _TRUE
    encoding = _encoding((first_value(block, _ENCODING) or b"").lower())
    shown = first_headers(block, SHOWN_BYTES_MAX)
    return TraceRequest(subject, shown, is_only, is_asked_for, encoding)


def is_of_other_server(block: bytes) -> bool:
    """Tell whether a message says that another server traces it."""
    return has_header(block, _ORIGIN_ACCOUNT)


def without_trace(block: bytes) -> bytes:
    """Return a header block that asks nobody further on for a trace."""
    return with_destination(block, DISABLED)


def with_destination(block: bytes, subject: bytes) -> bytes:
    """Return a header block whose traces go to another subject."""
    return extended(without(block, DESTINATION), b"%b: %b\r\n" % (DESTINATION, subject))


def _is_sampled(block: bytes) -> bool:
    parent = first_value(block.lower(), _PARENT) or b""
    return is_sampled(parent.decode(errors="replace"))


def _encoding(wanted: bytes) -> str:
    if b"snappy" in wanted or b"s2" in wanted:
        return "snappy"
    return "gzip" if b"gzip" in wanted else ""
