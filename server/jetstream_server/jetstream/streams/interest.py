"""The subscriptions of a stream or mirror, kept equal to what it wants to hear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import filterfalse
from typing import Any

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.structures.deadline_heap import DeadlineHeap

# By subject and queue group, which is empty for those who take everything.
WantedReceivers = Mapping[tuple[bytes, bytes], Receiver]


# Subscribed to in one turn, or taken out of the list; a long subject counts more than once.
AT_ONCE = 1000
_BYTES_OF_LONG = 64  # of a subject that counts for two


def _weight(subject: bytes) -> int:
    return 1 + len(subject) // _BYTES_OF_LONG


_PAUSE_NS = MILLISECOND  # between two turns


class _Leaving:
    """Subscriptions that are over, and leave the list in turns to come: whoever publishes meanwhile
    does not reach them. Scheduled while there are any."""

    def __init__(
        self, sublist: Sublist, deadlines: DeadlineHeap[Any], subscriptions: list[Subscription]
    ) -> None:
        self._sublist = sublist
        self._deadlines = deadlines
        self._subscriptions = subscriptions
        for subscription in subscriptions:
            subscription.closed = True
        deadlines.schedule(self, 0)

    def tick(self, now: int) -> None:
        """Take some of them out."""
        left = AT_ONCE
        while self._subscriptions and left > 0:
            subscription = self._subscriptions.pop()
            left -= _weight(subscription.subject)
            self._sublist.remove(subscription)
        if self._subscriptions:
            self._deadlines.schedule(self, now + _PAUSE_NS)


class Interest:
    """Subscriptions by subject and queue group.

    Args:
        sublist: where they are.
        deadlines: of the account; very many that are over leave the list in later turns.
    """

    def __init__(self, sublist: Sublist, deadlines: DeadlineHeap[Any]) -> None:
        self._sublist = sublist
        self._deadlines = deadlines
        self._subscriptions: dict[tuple[bytes, bytes], Subscription] = {}
        # What may have yet to be subscribed to.
        self._missing: Iterator[tuple[tuple[bytes, bytes], Receiver]] = iter(())

    @property
    def is_any(self) -> bool:
        """Return whether there are subscriptions."""
        return bool(self._subscriptions)

    def change(self, wanted: WantedReceivers) -> None:
        """Subscribe to what is new and unsubscribe from what is not wanted; the rest stays."""
        self.begin(wanted)
        while not self.go_on():
            pass

    def begin(self, wanted: WantedReceivers) -> None:
        """Unsubscribe from what is not wanted; what is new is subscribed to by `go_on`."""
        subscriptions = self._subscriptions
        gone = list(filterfalse(wanted.__contains__, subscriptions))
        leaving = list(map(subscriptions.pop, gone))
        if sum(_weight(subscription.subject) for subscription in leaving) > AT_ONCE:
            _Leaving(self._sublist, self._deadlines, leaving)
        else:
            for subscription in leaving:
                self._sublist.remove(subscription)
        self._missing = iter(wanted.items())

    def begin_anew(self, wanted: Iterable[tuple[tuple[bytes, bytes], Receiver]]) -> None:
        """Do the same where there are no subscriptions yet.

        Args:
            wanted: each once; not looked at before its turn, as there may be very many.
        """
        self._missing = iter(wanted)

    def go_on(self, count: int = 0) -> bool:
        """Subscribe to some of what is new, to so many or to what a turn has time for; tell whether
        that was all."""
        left = count or AT_ONCE
        subscriptions, some = self._subscriptions, []
        for wanted in self._missing:
            some.append(wanted)
            left -= _weight(wanted[0][0])
            if left <= 0:
                break
        new = {
            (subject, queue): Subscription(subject, receiver, queue=queue)
            for (subject, queue), receiver in some
            if (subject, queue) not in subscriptions
        }
        if new:
            subscriptions |= new
            self._sublist.insert_all(list(new.values()))
        return left > 0
