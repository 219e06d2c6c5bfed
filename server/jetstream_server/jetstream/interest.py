"""The subscriptions of a stream, kept equal to what it wants to hear."""

from __future__ import annotations

from collections.abc import Mapping

from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Receiver, Subscription

# A subject may be wanted by two receivers: the key tells them apart.
Wanted = Mapping[tuple[bytes, str], Receiver]


class Interest:
    """Subscriptions by subject and purpose."""

    def __init__(self, sublist: Sublist) -> None:
        self._sublist = sublist
        self._subscriptions: dict[tuple[bytes, str], Subscription] = {}

    def change(self, wanted: Wanted) -> None:
        """Subscribe to what is new and unsubscribe from what is not wanted; the rest stays."""
        for key in [key for key in self._subscriptions if key not in wanted]:
            self._sublist.remove(self._subscriptions.pop(key))
        for key, receiver in wanted.items():
            if key not in self._subscriptions:
                subscription = self._subscriptions[key] = Subscription(key[0], receiver)
                self._sublist.insert(subscription)
