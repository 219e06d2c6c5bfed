"""Subscriptions that stand for interest elsewhere.

A consumer writes deliveries straight into the frames of the client that asked, which may be in
another account: the reply it was given is then a stand-in, and belongs to a `Relay` that knows what
is behind it.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, runtime_checkable

from jetstream_server.core.match import Match

# Stand-ins for reply subjects begin like this, as in the genuine server.
REPLY_PREFIX = b"_R_."


@runtime_checkable
class Relay(Protocol):
    """A receiver that hands messages on to whatever a subject stands for."""

    def behind(self, subject: bytes) -> Match | None:
        """Return what a stand-in reaches, None when it stands for nothing (any more)."""
        ...


def resolved(match: Match, subject: bytes) -> Match:
    """Return a match with every relay replaced by what is behind it."""
    return match.changed(partial(_resolved, subject))


def _resolved(subject: bytes, match: Match) -> Match:
    plain = []
    queues = list(match.queues)
    for subscription in match.plain:
        receiver = subscription.receiver
        if not isinstance(receiver, Relay):
            plain.append(subscription)
        elif (found := receiver.behind(subject)) is not None:
            plain += found.plain
            queues += found.queues
    return Match(plain, queues)
