"""A refused row, made ready for the dead-letter subject.

The message keeps its reply (so that its ack is recognised), its id, its headers and its payload.
It loses what was expected of its stream and its time to live, and gains two headers that say where
it was meant to go and why it did not: `Dead-Letter-Subject` and `Dead-Letter-Reason`.
"""

from __future__ import annotations

_VERSION_LINE = b"NATS/1.0"
_LEFT_OUT = (b"nats-expected-", b"nats-ttl:")


def dead_letter_frame(frame: bytes, subject: bytes, reason: str) -> bytes:
    """Return the HPUB frame that carries a refused PUB or HPUB frame to another subject."""
    line, _, body = frame.partition(b"\r\n")
    words = line.split(b" ")
    intended, reply = words[1], words[2]
    header_bytes = int(words[3]) if words[0] == b"HPUB" else 0
    lines = body[:header_bytes].split(b"\r\n")[1:-2]
    kept = [one for one in lines if not one.lower().startswith(_LEFT_OUT)]
    kept.append(b"Dead-Letter-Subject: " + intended)
    kept.append(b"Dead-Letter-Reason: " + " ".join(reason.split()).encode())
    block = b"\r\n".join([_VERSION_LINE, *kept, b"", b""])
    message = block + body[header_bytes:-2]
    return b"HPUB %b %b %d %d\r\n%b\r\n" % (subject, reply, len(block), len(message), message)
