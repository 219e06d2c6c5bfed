"""Whether something was sent by the server itself.

Mirrors and sources speak with their origins over subjects that clients see as well. What arrives
there counts only if a part of this server has sent it, through whatever accounts it came.
"""

from __future__ import annotations

from jetstream_server.core.subscription import Sender

# Where answers to requests of the server's own parts go.
OWN_INBOX = b"$JSC."
# Where nothing may go in a client's name: deliveries to mirrors and sources, and their flow
# control.
OWN = (OWN_INBOX, b"$JS.M.", b"$JS.S.", b"$JS.FC.")


def is_from_server(sender: Sender | None) -> bool:
    """Tell whether the server itself has published what came."""
    return sender is None or sender.is_server


def is_own_subject(subject: bytes) -> bool:
    """Tell whether only parts of the server send to a subject."""
    return subject.startswith(OWN)
