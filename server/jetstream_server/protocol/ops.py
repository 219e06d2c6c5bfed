"""What a client says, as one small object per op; publishes travel as runs.

A `PubRun` is a stretch of consecutive PUB and HPUB frames left in the bytes they arrived in: the
chunk, and an array with `STRIDE` integers for each message. It is the unit in which messages move
through the whole server, so nothing on the message path costs a Python object per message.
Messages that the server itself makes are runs of one (`PubRun.single`).

All subjects, replies, queues and sids are `bytes`, exactly as received.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Columns of `PubRun.fields`, positions in the chunk. A message without reply has
# REPLY_START == REPLY_STOP; one without headers has HEADER_START == PAYLOAD_START.
SUBJECT_START, SUBJECT_STOP, REPLY_START, REPLY_STOP, HEADER_START, PAYLOAD_START, PAYLOAD_STOP = (
    range(7)
)
STRIDE = 7


class PubRun:
    """Consecutive published messages.

    Attributes:
        chunk: the bytes that hold them; immutable, kept alive by the run.
        fields: `array('i')` of `STRIDE` positions per message.
    """

    __slots__ = ("chunk", "fields")

    def __init__(self, chunk: bytes, fields: array[int]) -> None:
        self.chunk = chunk
        self.fields = fields

    @property
    def count(self) -> int:
        """Return the number of messages."""
        return len(self.fields) // STRIDE

    def subject(self, index: int) -> bytes:
        """Return the subject of one message."""
        at = index * STRIDE
        return self.chunk[self.fields[at] : self.fields[at + 1]]

    def reply(self, index: int) -> bytes:
        """Return the reply subject of one message, empty when it has none."""
        at = index * STRIDE
        return self.chunk[self.fields[at + REPLY_START] : self.fields[at + REPLY_STOP]]

    def headers(self, index: int) -> bytes:
        """Return the raw header block (`NATS/1.0 ... CRLF CRLF`), empty when there is none."""
        at = index * STRIDE
        return self.chunk[self.fields[at + HEADER_START] : self.fields[at + PAYLOAD_START]]

    def payload(self, index: int) -> bytes:
        """Return the payload of one message."""
        at = index * STRIDE
        return self.chunk[self.fields[at + PAYLOAD_START] : self.fields[at + PAYLOAD_STOP]]

    def header_size(self, index: int) -> int:
        """Return the bytes of the header block of one message."""
        at = index * STRIDE
        return self.fields[at + PAYLOAD_START] - self.fields[at + HEADER_START]

    def size(self, index: int) -> int:
        """Return the bytes of one message: subject, reply, headers and payload."""
        subject, subject_stop, reply, reply_stop, header, _, stop = self.fields[
            index * STRIDE : (index + 1) * STRIDE
        ]
        return subject_stop - subject + reply_stop - reply + stop - header

    def span(self, start: int, stop: int) -> int:
        """Return how many bytes of the chunk the messages from `start` up to `stop` take, together
        with what is between them."""
        fields = self.fields
        return fields[stop * STRIDE - 1] - fields[start * STRIDE]

    @classmethod
    def single(
        cls, subject: bytes, reply: bytes = b"", headers: bytes = b"", payload: bytes = b""
    ) -> PubRun:
        """Return a run of one message made by the server."""
        a = len(subject)
        b = a + len(reply)
        c = b + len(headers)
        return cls(
            b"".join((subject, reply, headers, payload)),
            array("i", (0, a, a, b, b, c, c + len(payload))),
        )

    @classmethod
    def of(cls, messages: Iterable[tuple[bytes, bytes, bytes, bytes]]) -> PubRun:
        """Return a run of (subject, reply, headers, payload) messages; for tests and slow paths."""
        parts: list[bytes] = []
        fields = array("i")
        at = 0
        for subject, reply, headers, payload in messages:
            a = at + len(subject)
            b = a + len(reply)
            c = b + len(headers)
            d = c + len(payload)
            fields.extend((at, a, a, b, b, c, d))
            parts += (subject, reply, headers, payload)
            at = d
        return cls(b"".join(parts), fields)


@dataclass(slots=True)
class Connect:
    """CONNECT; `options` is the decoded JSON object, unvalidated."""

    options: dict[str, Any]


@dataclass(slots=True)
class Sub:
    """SUB; `queue` is empty for a plain subscription."""

    subject: bytes
    queue: bytes
    sid: bytes


@dataclass(slots=True)
class Unsub:
    """UNSUB; `max_messages` 0 means now."""

    sid: bytes
    max_messages: int


@dataclass(slots=True)
class Ping:
    """PING."""


@dataclass(slots=True)
class Pong:
    """PONG."""


@dataclass(slots=True)
class Violation:
    """The peer broke the wire rules here; what came before it in the chunk still counts.

    Attributes:
        text: the `-ERR` text, empty to close without one.
        reason: the close reason for monitoring.
    """

    text: str
    reason: str


Op = PubRun | Connect | Sub | Unsub | Ping | Pong | Violation
