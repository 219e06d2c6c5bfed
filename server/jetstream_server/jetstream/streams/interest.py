"""The subscriptions of a stream or mirror, kept equal to what it wants to hear."""

from __future__ import annotations

from collections.abc import Mapping

from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Receiver, Subscription

# By subject and queue group, which is empty for those who take everything.
Wanted = Mapping[tuple[bytes, bytes], Receiver]


class Interest:
    """Subscriptions by subject and queue group."""

    def __init__(self, sublist: Sublist) -> None:
        self._sublist = sublist
        self._subscriptions: dict[tuple[bytes, bytes], Subscription] = {}

    def change(self, wanted: Wanted) -> None:
        """Subscribe to what is new and unsubscribe from what is not wanted; the rest stays."""
        for key in [key for key in self._subscriptions if key not in wanted]:
            self._sublist.remove(self._subscriptions.pop(key))
        new = {
            (subject, queue): Subscription(subject, receiver, queue=queue)
            for (subject, queue), receiver in wanted.items()
            if (subject, queue) not in self._subscriptions
        }
        if new:
            self._subscriptions |= new
            self._sublist.insert_all(list(new.values()))
