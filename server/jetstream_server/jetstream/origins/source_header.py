"""`Nats-Stream-Source`: where a sourced message comes from, kept with the message.

The value is six words: the origin (with hashes of the external prefix and of the consumer, when
there are any), the sequence there, the filters, the destinations of the transforms (both with a
form feed between several, `>` for none), the subject there, and the origin's identity. The newest
such header of a source tells where to go on, so a source needs no state of its own on disk
(docs/reference/mirrors.md#sources). Older servers leave the identity out.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.digits import unsigned
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.streams.messages.publish_headers import STREAM_SOURCE
from jetstream_server.jetstream.wire.name_hash import name_hash

_BETWEEN = "\f"
_EVERYTHING = ">"
_WORDS = (5, 6)
_LINE = b"\r\n"


def source_key(source: OriginConfig) -> str:
    """Return what tells a source apart from the others of its stream: origin, filters,
    destinations."""
    origin = source.name
    if source.external is not None:
        origin += ":" + name_hash(source.external.api)
    if source.consumer is not None:
        origin += ":C=" + name_hash(source.consumer.name)
    filters = [rule.src or _EVERYTHING for rule in source.subject_transforms]
    targets = [rule.dest or _EVERYTHING for rule in source.subject_transforms]
    return " ".join(
        (
            origin,
            _BETWEEN.join(filters) or source.filter_subject or _EVERYTHING,
            _BETWEEN.join(targets) or _EVERYTHING,
        )
    )


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where a source was when a message was stored.

    Attributes:
        key: as `source_key`.
        sequence: of the message at the origin.
        identity: of the origin, empty when it is not known.
    """

    key: str
    sequence: int
    identity: str


def parse_source(value: bytes) -> SourcePosition | None:
    """Return what a header says, None when it is malformed."""
    words = value.decode("utf-8", "replace").split(" ")
    if len(words) not in _WORDS or (sequence := unsigned(words[1])) < 0:
        return None
    key = " ".join((words[0], words[2], words[3]))
    return SourcePosition(key, sequence, words[5] if len(words) == _WORDS[1] else "")


class SourceStamp:
    """Writes the header of one source.

    Args:
        key: as `source_key`.
    """

    def __init__(self, key: str) -> None:
        origin, filters, targets = key.encode().split(b" ")
        self._head = b"%b: %b " % (STREAM_SOURCE, origin)
        self._middle = b" %b %b " % (filters, targets)

    def line(self, sequence: int, subject: bytes, identity: bytes) -> bytes:
        """Return the header line for one message, with its CR LF."""
        tail = b" %b\r\n" % identity if identity else _LINE
        return b"%b%d%b%b%b" % (self._head, sequence, self._middle, subject, tail)
