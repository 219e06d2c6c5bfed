"""What a batched direct get is answered with: messages of a stream. What the server says of each
stands in its header block, behind the headers that it was stored with.

Those may have the same names. A message that another stream has republished says what it was there,
and whoever may publish may write whatever they like. So only the server's own lines count, the last
ones of the block; and a block that has them is a message, whatever its first line looks like.
"""

from __future__ import annotations

from typing import NamedTuple

from jetstream_spark.client.flow import Message
from jetstream_spark.options.option_values import timestamp_ns

# The server's lines in their order: stream, subject, sequence, time, number pending, last sequence.
# A stored block without an end of its own has the first of them glued to its last line.
_FIRST = b"Nats-Stream: "
_SECOND = b"\r\nNats-Subject: "
_NO_HEADERS = b"NATS/1.0\r\n"


class DirectMessage(NamedTuple):
    """One message of an answer.

    Attributes:
        previous: the sequence of the message before it in the answer, 0 for the first one; None if
            the server does not answer in batches.
        headers: the block that it was stored with, empty when there is none.
    """

    sequence: int
    previous: int | None
    subject: bytes
    time_ns: int
    headers: bytes
    payload: bytes


def stored_in(message: Message) -> DirectMessage | None:
    """The message that a part of an answer is; None if it is a status."""
    before, mark, said = message.headers.rpartition(_SECOND)
    subject, *lines = said.split(b"\r\n")
    fields = {name: value for name, _, value in (line.partition(b": ") for line in lines)}
    # That nobody answers is said with the subject that was asked.
    if not mark or b"Nats-Sequence" not in fields:
        return None
    last = fields.get(b"Nats-Last-Sequence")
    return DirectMessage(
        int(fields[b"Nats-Sequence"]),
        None if last is None else int(last),
        subject,
        timestamp_ns(fields[b"Nats-Time-Stamp"].decode()),
        _ended(before.rpartition(_FIRST)[0]),
        message.payload,
    )


def _ended(block: bytes) -> bytes:
    """A block whose end was taken away, with it; empty when it has no headers."""
    if block == _NO_HEADERS:
        return b""
    return block.removesuffix(b"\r\n") + b"\r\n\r\n"
