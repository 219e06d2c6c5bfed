"""What a server does about its clients' subscriptions as turns have time for it: those of clients
that are gone are taken out of the accounts' lists, imports take leave of them, and after a reload
those whose rights may have changed are looked at again.

A client may have a million of each, and nobody waits for all of them: whoever publishes meanwhile
does not reach those that are closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from jetstream_server.base.limits import SUBJECT_BYTES_OF_OP
from jetstream_server.core.subscription import Subscription, ops_of
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.following import Following

REVIEWED_OF_TURN_MAX = 400  # subscriptions, after a reload
GIVEN_UP_OF_TURN_MAX = 500


class Reviewing(Protocol):
    """A client whose subscriptions are looked at again."""

    def review(self, subscription: Subscription) -> int:
        """Look at one; return for how many more than one it counts."""
        ...

    def review_ended(self) -> None:
        """All of them have been looked at."""
        ...


class Noting(Protocol):
    """What is told of a client that is gone."""

    def note(self, subscription: Subscription) -> None:
        """Note a subscription that it had."""
        ...


class Upkeep:
    """The subscriptions that are yet to be taken out, or to be looked at again.

    Attributes:
        is_any: there are such, or some were since the last turn was over.
    """

    def __init__(self) -> None:
        self.is_any = False
        # Of clients that are gone, and where they are noted then.
        self._given_up: deque[tuple[Account, Iterator[Subscription], Noting | None]]
        self._given_up = deque()
        # Those that were taken out, and that very many imports followed.
        self._followed: deque[Following] = deque()
        self._given_up_left = GIVEN_UP_OF_TURN_MAX  # for which this turn has time
        self._reviewed: deque[tuple[Reviewing, Iterator[Subscription]]] = deque()
        self._reviewed_left = REVIEWED_OF_TURN_MAX

    @property
    def is_waiting(self) -> bool:
        """Return whether there is something to do that no turn had time for yet."""
        return bool(self._given_up or self._followed or self._reviewed)

    def give_up(
        self,
        account: Account,
        subscriptions: Iterable[Subscription],
        closed: Noting | None = None,
    ) -> None:
        """Take closed subscriptions out of an account's list, as turns have time for it.

        Args:
            closed: where they are noted then.
        """
        self.is_any = True
        self._given_up.append((account, iter(subscriptions), closed))
        self._take_out_some()

    def take_leave(self, following: Following) -> None:
        """Have imports take leave of a subscription that has gone, as turns have time for it."""
        self.is_any = True
        self._followed.append(following)
        self._take_out_some()

    def review(self, client: Reviewing, subscriptions: Iterable[Subscription]) -> None:
        """Have a client look at these subscriptions again, as turns have time for it."""
        self.is_any = True
        self._reviewed.append((client, iter(subscriptions)))
        self._review_some()

    def go_on(self) -> None:
        """Do as much as this turn has time for still."""
        if self._reviewed:
            self._review_some()
        if self._given_up or self._followed:
            self._take_out_some()

    def turned(self) -> None:
        """A turn is over: there is time until the end of the next one, as much comes between turns
        when connections end."""
        self._given_up_left = GIVEN_UP_OF_TURN_MAX
        self._reviewed_left = REVIEWED_OF_TURN_MAX
        self.is_any = self.is_waiting

    def _review_some(self) -> None:
        while self._reviewed and self._reviewed_left > 0:
            client, subscriptions = self._reviewed[0]
            for subscription in subscriptions:
                self._reviewed_left -= 1 + len(subscription.subject) // SUBJECT_BYTES_OF_OP
                self._reviewed_left -= client.review(subscription)
                if self._reviewed_left <= 0:
                    break
            else:
                self._reviewed.popleft()
                client.review_ended()

    def _take_out_some(self) -> None:
        while (self._followed or self._given_up) and self._given_up_left > 0:
            if self._followed:
                # Taken first: should one fail, it is not tried with every turn.
                following = self._followed.popleft()
                self._given_up_left -= following.go_on()
                if not following.is_over:
                    self._followed.appendleft(following)
                continue
            account, subscriptions, closed = self._given_up[0]
            while self._given_up_left > 0 and not self._followed:
                subscription = next(subscriptions, None)
                if subscription is None:
                    self._given_up.popleft()
                    break
                told = account.sublist.told
                if (left := account.unsubscribe(subscription)) is not None:
                    self._followed.append(left)
                self._given_up_left -= 1 + ops_of(subscription.subject, account.sublist.told - told)
                if closed is not None:
                    closed.note(subscription)
