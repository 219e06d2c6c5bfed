"""Subscriptions that are there already when imports of streams begin.

Each gets a shadow for each import that it overlaps with: fifty to everything, and two thousand
imports, are a hundred thousand. A turn has time for some of them; whoever is not joined yet hears
what is imported a little later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core.containment import Incident
from jetstream_server.core.subscription import Subscription
from jetstream_server.core.tree_walk import Piece
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.stream_imports import StreamImport

SHADOWS_OF_TURN = 500  # of some ten microseconds
_LOOKED_AT_OF_SHADOW = 20  # in the time in which one is made
_PAUSE_NS = MILLISECOND


class Joining:
    """Imports whose subscriptions are joined as turns have time for it.

    Args:
        links: the imports, which have begun.
        account: where it gets its turns.
    """

    def __init__(self, links: Sequence[StreamImport], account: Account) -> None:
        self._links = deque(links)
        self._account = account
        self._link: StreamImport | None = None
        self._pieces: Iterator[Piece] | None = None
        self._subscriptions: list[Subscription] = []  # of one piece, the last one first

    @property
    def is_over(self) -> bool:
        """Return whether all are joined, or given up."""
        return not self._links and self._pieces is None and not self._subscriptions

    def begin(self) -> None:
        """Join those for which there is time at once."""
        try:
            self.tick(0)
        except Exception as error:
            self._account.containment.contain(error, 0)

    def give_up(self, incident: Incident, now: int) -> None:
        """Give up the links that are not joined yet, as they would lack shadows."""
        links = [self._link, *self._links] if self._link is not None else [*self._links]
        self._links.clear()
        self._subscriptions, self._pieces = [], None
        for link in links:
            link.give_up(incident, now)

    def tick(self, now: int) -> None:
        """Join some."""
        left = SHADOWS_OF_TURN
        while left > 0:
            left -= 1
            if self._subscriptions:
                assert self._link is not None, "they are this link's"
                subscription = self._subscriptions.pop()
                if not subscription.closed:
                    self._link.inserted(subscription)
            elif self._pieces is not None:
                left -= self._follow(self._pieces) // _LOOKED_AT_OF_SHADOW
            elif self._links:
                self._link = self._links.popleft()
                self._pieces = self._link.overlapping()
            else:
                return
        self._account.timers.schedule(self, now + _PAUSE_NS)
        self._account.stir()

    def _follow(self, pieces: Iterator[Piece]) -> int:
        """Look at some more of those that may overlap with the link; return at how many."""
        looked_at, found = next(pieces, (0, None))
        if found is None:
            self._pieces = None
        else:
            found.reverse()
            self._subscriptions = found
        return looked_at
