"""Connections that are over, the latest of them kept for monitoring."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jetstream_server.core.subscription import Subscription
from jetstream_server.node.auth.auth import User
from jetstream_server.node.client_tls import ClientTls
from jetstream_server.node.listener import Listener
from jetstream_server.node.stats import Traffic

if TYPE_CHECKING:
    from jetstream_server.node.accounts.account import Account
    from jetstream_server.node.session import Session

# For all of them together, some 5 MB. Clients that come and go with thousands of subscriptions must
# not fill the memory with what they had.
SUBSCRIPTIONS_MAX = 20_000
# A connection that had more is kept without them.
SUBSCRIPTIONS_OF_ONE_MAX = 5000

_TOLD = ("name", "lang", "version")


class ClosedSubscription(NamedTuple):
    """What is left of a subscription; itself, it would keep its session in memory.

    A tuple, because it is made in a fifth of the time, and clients go with thousands of them.
    """

    subject: bytes
    queue: bytes
    sid: bytes
    delivered: int
    max_messages: int


@dataclass(slots=True, eq=False)
class ClosedConnection:
    """What is left of a session; named as there.

    Attributes:
        stop: when it ended.
        reason: why.
        subscriptions: those it had, as far as they are noted; empty when they were too many, or
            when later connections needed the room.
        subscription_count: how many there were.
        is_detailed: they are to be noted.
    """

    cid: int
    host: str
    port: int
    listener: Listener
    start: int
    stop: int
    reason: str
    last_activity: int
    rtt_ns: int
    traffic: Traffic
    subscriptions: dict[bytes, ClosedSubscription]
    subscription_count: int
    options: dict[str, Any]
    user: User | None
    account: Account
    tls: ClientTls
    is_detailed: bool
    backlog_bytes: int = 0

    def note(self, subscription: Subscription) -> None:
        """Note one of the subscriptions that it had, if there is room for them."""
        if self.is_detailed:
            self.subscriptions[subscription.sid] = _remains(subscription)


class ClosedConnections:
    """The latest of them, as many as `max_closed_clients` says."""

    def __init__(self, count_max: int) -> None:
        self._count_max = max(count_max, 0)
        self._kept: deque[ClosedConnection] = deque()
        self._detailed: deque[ClosedConnection] = deque()  # those whose subscriptions are kept
        self._subscriptions = 0
        self.total = 0

    def __iter__(self) -> Iterator[ClosedConnection]:
        return iter(self._kept)

    def add(self, session: Session, now: int) -> ClosedConnection | None:
        """Keep what is to be told of a session that ends; it has its subscriptions still.

        Returns:
            Where these are to be noted, as there is time for it; None for nowhere.
        """
        self.total += 1
        if not self._count_max:
            return None
        count = session.subscription_count
        closed = ClosedConnection(
            session.cid,
            session.host,
            session.port,
            session.listener,
            session.start,
            now,
            session.closing,
            session.last_activity,
            session.rtt_ns,
            session.traffic,
            {},
            count,
            {key: session.options[key] for key in _TOLD if key in session.options},
            session.user,
            session.account,
            session.tls,
            0 < count <= SUBSCRIPTIONS_OF_ONE_MAX,
        )
        self._kept.append(closed)
        if closed.is_detailed:
            self._detailed.append(closed)
            self._subscriptions += count
        if len(self._kept) > self._count_max:
            oldest = self._kept.popleft()
            if oldest.is_detailed:
                self._forget_subscriptions()
        while self._subscriptions > SUBSCRIPTIONS_MAX:
            self._forget_subscriptions()
        return closed if closed.is_detailed else None

    def _forget_subscriptions(self) -> None:
        oldest = self._detailed.popleft()
        self._subscriptions -= oldest.subscription_count
        oldest.is_detailed = False
        oldest.subscriptions.clear()


def _remains(subscription: Subscription) -> ClosedSubscription:
    return ClosedSubscription(
        subscription.subject,
        subscription.queue,
        subscription.sid,
        subscription.delivered,
        subscription.max_messages,
    )
