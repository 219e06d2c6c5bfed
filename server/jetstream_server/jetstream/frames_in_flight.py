"""Frames for clients that may still wait for a flush.

Until they are handed to a session they are not in its backlog, and many turns can pass during one
flush. All consumers of an account count together, because it is the client that has to take their
frames, and one turn that hands them over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jetstream_server.base import limits
from jetstream_server.core.subscription import Outlet, Subscription

# Clients often make a new inbox for each request. Beyond this many it is looked which are done; the
# same goes for clients.
_KEPT_MIN = 64


@dataclass(slots=True)
class _Unsent:
    """Frames for one subscription.

    Attributes:
        until: they are all handed over once this much has been delivered to the subscription.
        bytes: their size.
    """

    until: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Recipient:
    """Frames for one client.

    Attributes:
        bytes: at most so many are in flight.
        counted_at: how often frames had been handed over when these were counted anew.
    """

    bytes: int = 0
    counted_at: int = -1
    kept_max: int = _KEPT_MIN
    by_subscription: dict[Subscription, _Unsent] = field(default_factory=dict)

    def add(self, subscription: Subscription, size: int, count: int) -> None:
        if len(self.by_subscription) >= self.kept_max:
            self.recount()
            self.kept_max = max(2 * len(self.by_subscription), _KEPT_MIN)
        stretch = self.by_subscription.get(subscription)
        if stretch is None:
            stretch = self.by_subscription[subscription] = _Unsent()
        if subscription.delivered >= stretch.until:
            self.bytes -= stretch.bytes
            stretch.until, stretch.bytes = subscription.delivered, 0
        stretch.until += count
        stretch.bytes += size
        self.bytes += size

    def recount(self) -> None:
        """Leave out what is handed over by now, and what nobody takes any more."""
        self.by_subscription = {
            subscription: stretch
            for subscription, stretch in self.by_subscription.items()
            if subscription.delivered < stretch.until and not subscription.closed
        }
        self.bytes = sum(stretch.bytes for stretch in self.by_subscription.values())


def is_unread(outlet: Outlet) -> bool:
    """Tell whether a client is behind whatever is in flight to it. Then its connection says when it
    has taken what it was sent; nobody says when what was in flight has been handed over."""
    return outlet.backlog_bytes > limits.OUTBOX_HIGH_BYTES


class FramesInFlight:
    """Counts them, by client, for one account."""

    def __init__(self) -> None:
        self._clients: dict[Outlet, _Recipient] = {}
        self._kept_max = _KEPT_MIN
        self._handed_over = 0  # how often

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, outlet: Outlet, subscription: Subscription, size: int, count: int) -> None:
        """Count frames for a client.

        Args:
            size: in bytes.
            count: of the messages.
        """
        client = self._clients.get(outlet)
        if client is None:
            if len(self._clients) >= self._kept_max:
                self._forget()
            client = self._clients[outlet] = _Recipient()
        client.add(subscription, size, count)

    def is_behind(self, outlet: Outlet) -> bool:
        """Tell whether a client has too much unsent output, with what is in flight to it."""
        backlog = outlet.backlog_bytes
        if is_unread(outlet):
            return True
        client = self._clients.get(outlet)
        if client is None or backlog + client.bytes <= limits.OUTBOX_HIGH_BYTES:
            return False
        # A client can be asked about for each of thousands of its subscriptions, and count all of
        # them each time; but they change only when something is handed over.
        if client.counted_at != self._handed_over:
            client.counted_at = self._handed_over
            client.recount()
        return backlog + client.bytes > limits.OUTBOX_HIGH_BYTES

    def handed_over(self) -> None:
        """Note that what was in flight may be so no more."""
        self._handed_over += 1

    def clear(self) -> None:
        """Count nothing any more: what was in flight will never be handed over."""
        self._clients.clear()

    def _forget(self) -> None:
        """Let go of clients that have all their frames, or are gone."""
        for client in self._clients.values():
            client.recount()
        self._clients = {
            outlet: client for outlet, client in self._clients.items() if client.by_subscription
        }
        self._kept_max = max(2 * len(self._clients), _KEPT_MIN)
