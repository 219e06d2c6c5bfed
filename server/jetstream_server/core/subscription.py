"""One subscriber concept for the whole server.

A client's SUB, a stream's subjects, a consumer's MSG.NEXT and ack addresses and the JSON API are
all `Subscription`s in an account's sublist. They differ in their `Receiver`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from jetstream_server.core.answers import Answers
from jetstream_server.protocol.ops import PubRun


class Origin(Protocol):
    """Who published a run: a client, here or in another account. None stands for the server
    itself."""

    @property
    def echo(self) -> bool:
        """Whether the publisher wants its own messages back."""
        ...

    @property
    def is_server(self) -> bool:
        """Whether a part of the server has sent it, by way of another account."""
        ...

    @property
    def answers(self) -> Answers | None:
        """What is under way to the client; None where nobody counts."""
        ...

    def client_info(self, now: int) -> dict[str, Any]:
        """Describe the client as advisories do (`ClientInfo` of the reference)."""
        ...

    def unanswered(self, run: PubRun, start: int, stop: int) -> None:
        """Nobody received these messages; those with a reply may earn a 503."""
        ...


class Receiver(Protocol):
    """Whatever stands behind a subscription."""

    def receive(
        self,
        run: PubRun,
        start: int,
        stop: int,
        subscription: Subscription,
        origin: Origin | None,
        now: int,
    ) -> None:
        """Take messages `start` up to `stop` of the run; all matched this subscription."""
        ...


class Outlet(Receiver, Protocol):
    """A receiver with a socket behind it: a client session."""

    @property
    def headers(self) -> bool:
        """Whether the client understands HMSG."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """Output not yet taken by the socket."""
        ...

    def deliver_frames(self, subscription: Subscription, data: bytes, count: int, now: int) -> None:
        """Send encoded frames of one of its subscriptions."""
        ...


class Subscription:
    """An interest in a subject.

    Attributes:
        subject: literal or wildcard pattern.
        queue: queue group, empty for a plain subscription.
        sid: the client's identifier, empty for the server's own subscriptions.
        receiver: who takes the messages.
        outlet: the same object when it is a client session, else None; consumers encode
            deliveries for it themselves.
        delivered: messages delivered so far (counts towards `max_messages`).
        max_messages: automatic UNSUB after so many deliveries; 0 is never.
        closed: set when removed, so that holders of a stale match notice.
    """

    __slots__ = (
        "closed",
        "delivered",
        "max_messages",
        "outlet",
        "queue",
        "receiver",
        "sid",
        "subject",
    )

    def __init__(
        self,
        subject: bytes,
        receiver: Receiver,
        *,
        queue: bytes = b"",
        sid: bytes = b"",
        outlet: Outlet | None = None,
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.receiver = receiver
        self.outlet = outlet
        self.delivered = 0
        self.max_messages = 0
        self.closed = False

    def __repr__(self) -> str:
        return f"Subscription({self.subject!r}, queue={self.queue!r}, sid={self.sid!r})"


@dataclass(frozen=True, slots=True)
class PostponedRequests:
    """Requests `start` up to `stop` of a run that a client published, and whom they are for."""

    subscription: Subscription
    run: PubRun
    start: int
    stop: int
    origin: Origin

    def receive(self, now: int) -> None:
        """Hand them over, unless whom they are for has gone meanwhile."""
        if self.subscription.closed:
            self.origin.unanswered(self.run, self.start, self.stop)
            return
        self.subscription.receiver.receive(
            self.run, self.start, self.stop, self.subscription, self.origin, now
        )
