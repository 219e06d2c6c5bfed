"""One subscriber concept for the whole server.

A client's SUB, a stream's subjects, a consumer's MSG.NEXT and ack addresses and the JSON API are
all `Subscription`s in an account's sublist. They differ in their `Receiver`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, Self, cast

from jetstream_server.base.limits import SUBJECT_BYTES_OF_OP
from jetstream_server.core.answers import Answers
from jetstream_server.core.shared_mark import SharedMark
from jetstream_server.protocol.ops import PubRun


class Sender(Protocol):
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

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        """Nobody received these messages; those with a reply may earn a 503. Return of how many the
        publisher is told."""
        ...


class Receiver(Protocol):
    """Whatever stands behind a subscription."""

    def receive(self, stretch: Stretch) -> None:
        """Take messages; all matched the subscription."""
        ...


class ChoosingReceiver(Receiver, Protocol):
    """A receiver that does not take all that its subscriptions match."""

    def chooses(self, subscription: Subscription, subject: bytes, sender: Sender | None) -> bool:
        """Tell whether it takes messages on a subject that a subscription of its own matches."""
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

    def may_hear(self, subject: bytes) -> bool:
        """Tell whether one of its subscriptions may match a subject, as far as a few can be asked;
        where there are many, it may."""
        ...

    def receive_for_each(self, subscriptions: list[Subscription], stretch: Stretch) -> None:
        """Take messages that several of its subscriptions have matched, once for each of them.

        Args:
            stretch: the messages, as the first of them has matched them.
        """
        ...

    def deliver_frames(
        self,
        subscription: Subscription,
        data: bytes,
        count: int,
        now: int,
        content_bytes: int | None = None,
    ) -> None:
        """Send encoded frames of one of its subscriptions.

        Args:
            content_bytes: how many their headers and payloads have, None to be counted.
        """
        ...


@dataclass(slots=True, eq=False, repr=False)
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
        max_messages: automatic UNSUB after this many deliveries; 0 is never.
        closed: set when removed, so that holders of a stale match notice; or the mark that it has
            in common with others, which is true once they all are.
        weight: how many deliveries to a client take as long as one to it.
        is_filtered: it matches what its receiver may not take, or it is not known that it does
            not: that is one that chooses. Also this may be a mark in common with others.
    """

    subject: bytes
    receiver: Receiver
    _: KW_ONLY
    queue: bytes = b""
    sid: bytes = b""
    outlet: Outlet | None = None
    delivered: int = 0
    max_messages: int = 0
    closed: bool | SharedMark = False
    weight: int = 1
    is_filtered: bool | SharedMark = False

    def __repr__(self) -> str:
        return f"Subscription({self.subject!r}, queue={self.queue!r}, sid={self.sid!r})"

    def takes(self, subject: bytes, sender: Sender | None) -> bool:
        """Tell whether its receiver takes messages on a subject that it matches."""
        if not self.is_filtered:
            return True
        return cast(ChoosingReceiver, self.receiver).chooses(self, subject, sender)


@dataclass(slots=True, eq=False)
class Stretch:
    """Consecutive messages of a run that one subscription has matched, as its receiver gets them.

    One is made for each receiver and never for a message. Nobody changes it, so a receiver may
    keep it.

    Attributes:
        run: where the messages are.
        start: the index of the first.
        stop: the index after the last.
        subscription: what has matched them.
        sender: who published them, None for the server itself.
        now: the turn's time.
    """

    run: PubRun
    start: int
    stop: int
    subscription: Subscription
    sender: Sender | None
    now: int

    @classmethod
    def of_server(cls, run: PubRun, subscription: Subscription, now: int) -> Self:
        """Return all messages of a run that the server itself publishes."""
        return cls(run, 0, run.count, subscription, None, now)

    @property
    def indices(self) -> range:
        """Return the messages' places in the run."""
        return range(self.start, self.stop)

    @property
    def answers(self) -> Answers | None:
        """Return what is under way to who published them; None where nobody counts."""
        return None if self.sender is None else self.sender.answers

    def postponed_from(self, index: int) -> PostponedRequests:
        """Return the messages from `index` on, to be received another time."""
        return PostponedRequests(self, index)


class PostponedRequests:
    """The requests of a stretch from `start` on, to be received another time."""

    __slots__ = ("_start", "_stretch")

    def __init__(self, stretch: Stretch, start: int) -> None:
        self._stretch = stretch
        self._start = start

    def receive(self, now: int) -> None:
        """Hand them over, unless the receiver has gone meanwhile."""
        start, of = self._start, self._stretch
        if not of.subscription.closed:
            of.subscription.receiver.receive(
                Stretch(of.run, start, of.stop, of.subscription, of.sender, now)
            )
        elif of.sender is not None:
            of.sender.unanswered(of.run, start, of.stop)


def ops_of(subject: bytes, told: int) -> int:
    """Return for how many operations more than one a subscription counts that comes or goes.

    Args:
        told: how many imports follow it.
    """
    return len(subject) // SUBJECT_BYTES_OF_OP + told
