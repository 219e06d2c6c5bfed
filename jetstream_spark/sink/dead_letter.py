"""A refused row, made ready for the dead-letter subject.

The message keeps its id, its headers and its payload. It loses what was expected of its stream, its
place in a batch and its time to live, and gains two headers that say where it was meant to go and
why it did not: `Dead-Letter-Subject` and `Dead-Letter-Reason`.
"""

from __future__ import annotations

from typing import NamedTuple

from jetstream_spark.sink.outgoing_rows import published

_VERSION_LINE = b"NATS/1.0"
_LEFT_OUT = (b"nats-expected-", b"nats-ttl:", b"nats-batch-", b"nats-rollup:")


class DeadLetter(NamedTuple):
    """Header block and payload of a refused row on its way to the dead-letter subject."""

    headers: bytes
    payload: bytes


def dead_letter(frame: bytes, reason: str) -> DeadLetter:
    """Return what a refused PUB or HPUB frame becomes."""
    subject, lines, payload = published(frame)
    kept = [one for one in lines if not one.lower().startswith(_LEFT_OUT)]
    kept.append(b"Dead-Letter-Subject: " + subject)
    kept.append(b"Dead-Letter-Reason: " + " ".join(reason.split()).encode())
    return DeadLetter(b"\r\n".join([_VERSION_LINE, *kept, b"", b""]), payload)


def dead_letter_frame(frame: bytes, subject: bytes, reason: str) -> bytes:
    """Return the frame that carries it to another subject, with the reply that it had."""
    letter = dead_letter(frame, reason)
    reply = frame.partition(b"\r\n")[0].split(b" ")[2]
    size = len(letter.headers)
    whole = size + len(letter.payload)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, size, whole, *letter)
