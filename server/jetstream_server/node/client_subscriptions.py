"""What one client has subscribed to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from jetstream_server.core.letting_go import let_go
from jetstream_server.core.shared_mark import SharedMark
from jetstream_server.core.subject import is_valid_subject, matches
from jetstream_server.core.subscription import Outlet, Subscription
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.node.rights import Rights
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault
from jetstream_server.protocol.ops import Sub, Unsub

_SYSTEM_QUEUE = b"_sys_"


class ClientSubscriptions:
    """The subscriptions of one client.

    Attributes:
        by_sid: all of them, by the names that the client has given them.
    """

    __slots__ = ("_doubt", "_end", "by_sid")

    def __init__(self) -> None:
        self.by_sid: PartedOrder[bytes, Subscription] = PartedOrder()
        self._end = SharedMark()  # of all of them, though they are known still
        # Of those that match only what the client may hear: set once that has to be found out anew.
        self._doubt = SharedMark()

    def __len__(self) -> int:
        return len(self.by_sid)

    def all(self) -> list[Subscription]:
        """Return all of them, in their order."""
        return [*self.by_sid.values()]

    def objection(self, op: Sub, rights: Rights, tokens_max: int) -> Fault | None:
        """Return why there cannot be a new one, None if there can.

        Args:
            tokens_max: most tokens of a subject, 0 for any number.
        """
        if 0 <= rights.subscriptions_max <= len(self.by_sid):
            return faults.SUBSCRIPTIONS_EXCEEDED
        if op.queue == _SYSTEM_QUEUE or not rights.may_subscribe(op.subject, op.queue):
            return faults.subscription_denied(op.subject, op.queue)
        if not is_valid_subject(op.subject):
            return faults.INVALID_SUBJECT
        if 0 < tokens_max <= op.subject.count(b"."):
            return faults.too_many_tokens(op.subject)
        return None

    def add(self, op: Sub, outlet: Outlet, *, is_filtered: bool = False) -> Subscription:
        """Add a subscription for an outlet, and return it; there is none yet of its name.

        Args:
            is_filtered: it matches what the client may not hear.
        """
        subscription = Subscription(
            op.subject,
            outlet,
            queue=op.queue,
            sid=op.sid,
            outlet=outlet,
            closed=self._end,
            is_filtered=is_filtered or self._doubt,
        )
        self.by_sid.add(op.sid, subscription)
        return subscription

    def set_filtered(self, subscription: Subscription, *, is_filtered: bool) -> None:
        """Note whether one matches what the client may not hear, as has been found out."""
        subscription.is_filtered = is_filtered or self._doubt

    def doubt(self) -> Iterator[Subscription]:
        """Iterate over all of them, of none of which it is known any more that the client may hear
        all that it matches: each is filtered until `set_filtered` says otherwise.

        They may be gone through later, in pieces. Those that come meanwhile are not among them, and
        of those that are taken back some are not. Of a million, a list takes 60 ms.
        """
        self._doubt.set()
        self._doubt = SharedMark()
        *others, last = self.by_sid.parts  # what is put together later is put into new parts
        return chain(chain.from_iterable(map(_values_of, others)), _values_of(last))

    def limited(self, op: Unsub) -> Subscription | None:
        """Have one end after a number of messages; return it if it ends now."""
        subscription = self.by_sid.get(op.sid)
        if subscription is None:
            return None
        subscription.max_messages = op.max_messages
        is_over = not op.max_messages or subscription.delivered >= op.max_messages
        return subscription if is_over else None

    def remove(self, subscription: Subscription) -> bool:
        """Remove one; tell whether it was there."""
        return self.by_sid.discard(subscription.sid)

    def plain_to(self, subject: bytes) -> Subscription | None:
        """Return one that a subject reaches and that has no queue; each is looked at."""
        for each in self.by_sid.values():
            if not each.queue and matches(each.subject, subject):
                return each
        return None

    def hears(self, subject: bytes) -> bool:
        """Tell whether a subject reaches any of them; each is looked at."""
        return any(matches(each.subject, subject) for each in self.by_sid.values())

    def silence(self) -> None:
        """Close all of them; they stay known, and there will be no others."""
        self._end.set()

    def close(self) -> Iterator[Subscription]:
        """Close all of them, and return them, in their order; nobody else knows them any more."""
        self.silence()
        closed = let_go(self.by_sid)
        self.by_sid, self._end = PartedOrder(), SharedMark()
        return closed


def _values_of(part: dict[bytes, Subscription]) -> list[Subscription]:
    return [*part.values()]
