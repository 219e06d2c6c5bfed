"""One message that a stream may store, where single messages have to be looked at."""

from __future__ import annotations

from jetstream_server.base.limits import HEADER_BYTES_MAX
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.known_last import KnownLast
from jetstream_server.jetstream.streams.messages.publish_headers import special_headers, storable


class Candidate:
    """A message that a stream may store.

    Attributes:
        subject: after the stream's transform.
        headers: the block to store.
        payload: the body.
        reply: where the publisher wants the answer.
        special: the `Nats-` headers with a value.
        ttl: seconds, `NEVER` (-1), or 0 for none.
        total: of a counter after this message, else empty.
        sources: where the total comes from, of a counter that was copied, else empty.
        known: of the subjects of which it expects the last sequence, while it waits for its batch.
    """

    __slots__ = (
        "headers",
        "known",
        "payload",
        "reply",
        "sources",
        "special",
        "subject",
        "total",
        "ttl",
    )

    def __init__(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.headers = storable(headers) if headers else b""
        self.payload = payload
        # More is refused, whatever it says.
        is_read = 0 < len(headers) <= HEADER_BYTES_MAX
        self.special = special_headers(headers) if is_read else {}
        self.ttl = 0
        self.total = b""
        self.sources = b""
        self.known: KnownLast | None = None

    @property
    def content_bytes(self) -> int:
        """Return the bytes of its subject, headers and payload."""
        return len(self.subject) + len(self.headers) + len(self.payload)

    @property
    def message_id(self) -> bytes:
        """Return the id for deduplication, empty when there is none."""
        return self.special.get(names.MESSAGE_ID, b"")

    @property
    def rollup(self) -> bytes:
        """Return `sub`, `all`, or nothing."""
        return self.special.get(names.ROLLUP, b"").lower()
