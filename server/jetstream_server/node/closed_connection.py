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
# A connection that had more is kept without them: noting them all would hold up other clients.
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


@dataclass(frozen=True, slots=True)
class ClosedConnection:
    """What is left of a session; named as there.

    Attributes:
        stop: when it ended.
        reason: why.
        subscriptions: those it had; empty when they were too many, or when later connections needed
            the room.
        subscription_count: how many there were.
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
    backlog_bytes: int = 0


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

    def add(self, session: Session, now: int) -> None:
        """Keep what is to be told of a session that ends; it has its subscriptions still."""
        self.total += 1
        if not self._count_max:
            return
        count = len(session.subscriptions)
        kept = session.subscriptions if count <= SUBSCRIPTIONS_OF_ONE_MAX else {}
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
            {sid: _remains(each) for sid, each in kept.items()},
            count,
            {key: session.options[key] for key in _TOLD if key in session.options},
            session.user,
            session.account,
            session.tls,
        )
        self._kept.append(closed)
        if closed.subscriptions:
            self._detailed.append(closed)
            self._subscriptions += count
        if len(self._kept) > self._count_max:
            oldest = self._kept.popleft()
            if oldest.subscriptions:
                self._forget_subscriptions()
        while self._subscriptions > SUBSCRIPTIONS_MAX:
            self._forget_subscriptions()

    def _forget_subscriptions(self) -> None:
        oldest = self._detailed.popleft()
        self._subscriptions -= oldest.subscription_count
        oldest.subscriptions.clear()


def _remains(subscription: Subscription) -> ClosedSubscription:
    return ClosedSubscription(
        subscription.subject,
        subscription.queue,
        subscription.sid,
        subscription.delivered,
        subscription.max_messages,
    )
