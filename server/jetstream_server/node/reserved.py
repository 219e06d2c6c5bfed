"""Subjects that no client may publish to, or name as a reply, whatever its permissions are."""

from __future__ import annotations

from jetstream_server.core.provenance import OWN

# A client must not answer a JetStream delivery's ack subject as if it were an inbox, nor use the
# prefixes under which servers route replies, or have the server answer on subjects where only it
# may speak: an answer counts as the server's own word.
REPLIES = (b"$JS.ACK.", b"_R_.", b"_GR_.", b"$GR.", *OWN)
SUBJECTS = (b"$NRG.", b"_GR_.", b"$GR.")


def is_reserved(subject: bytes, prefixes: tuple[bytes, ...]) -> bool:
    """Tell whether a subject is below one of these prefixes."""
    return subject.startswith(prefixes) and any(
        len(subject) > len(prefix) for prefix in prefixes if subject.startswith(prefix)
    )
