"""A subscription that comes or goes, and very many imports that follow it.

Each import that it overlaps with adds a shadow of it or takes one out, which takes some ten
microseconds; one subscription may overlap with thousands. A turn has time for some of them.
"""

from __future__ import annotations

from jetstream_server.core.sublist import Sublist, Watcher
from jetstream_server.core.subscription import Subscription

FOLLOWED_AT_ONCE = 100  # so many imports follow without being counted


class Following:
    """Those who have yet to follow.

    Args:
        sublist: where the subscription has come or gone.
        watchers: who follow.
        comes: whether it has come.

    Attributes:
        subscription: what they follow.
    """

    __slots__ = ("_comes", "_sublist", "_watchers", "subscription")

    def __init__(
        self, sublist: Sublist, subscription: Subscription, watchers: list[Watcher], *, comes: bool
    ) -> None:
        self._sublist = sublist
        self._watchers = watchers
        self._watchers.reverse()  # they are taken from the end
        self._comes = comes
        self.subscription = subscription

    @property
    def is_over(self) -> bool:
        """Return whether all have followed, or none has to any more."""
        return not self._watchers

    def go_on(self) -> int:
        """Have the next one follow; return how many have, as others may follow it in turn."""
        if self._comes and self.subscription.closed:
            self._watchers.clear()  # it has gone meanwhile, and whoever followed it was told
            return 1
        told, watcher = self._sublist.told, self._watchers.pop()
        if self._comes:
            watcher.inserted(self.subscription)
        else:
            watcher.removed(self.subscription)
        return 1 + self._sublist.told - told

    def finish(self) -> None:
        """Have all of them follow at once."""
        count = len(self._watchers)
        while self._watchers:
            self.go_on()
        self._sublist.told += count
