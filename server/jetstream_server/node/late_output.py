"""What the server itself sends to very many, and a turn had no time for.

Acks go to whatever reply a publisher names, and copies to whoever listens; tens of thousands may.
What an account has to send after that waits behind it: a copy comes before the ack of what was
copied. What waits must not become ever more, so nobody publishes in an account that has something
late. It may have been set off from another account, so there is a bound for all of them as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from jetstream_server.core.deliveries import Deliveries
from jetstream_server.jetstream.output import Send
from jetstream_server.node.accounts.account import Account

# Of all accounts together, above which nobody publishes until there is less.
LATE_MAX = 10_000


class LateOutput:
    """What accounts have to send late, in its order.

    Args:
        deliveries: what a turn has time for.

    Attributes:
        waiting: what each account has to send; whose turn it is comes first.
        is_over: the server ends, and sends everything at once.
    """

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self.waiting: dict[Account, deque[Send]] = {}
        self.is_over = False

    @property
    def has_time(self) -> bool:
        """Return whether something may be sent to very many in this turn."""
        return self._deliveries.left > 0 or self.is_over

    def holds_up(self, account: Account) -> bool:
        """Tell whether an account's clients may not publish for now."""
        return account in self.waiting or sum(map(len, self.waiting.values())) > LATE_MAX

    def follows(self, account: Account, sends: Iterable[Send]) -> bool:
        """Keep what comes after something late of the same account; return False if nothing is."""
        waiting = self.waiting.get(account)
        if waiting is None:
            return False
        waiting.extend(sends)
        return True

    def keep(self, account: Account, sends: Iterable[Send]) -> None:
        """Keep what an account, which has nothing late yet, is to send in later turns."""
        self.waiting[account] = deque(sends)

    def send(self, send: Callable[[Account, Send], object]) -> None:
        """Have sent what a turn has time for; of several accounts, each has its turn."""
        for account in list(self.waiting):
            waiting = self.waiting[account]
            while waiting and self.has_time:
                send(account, waiting.popleft())
            del self.waiting[account]
            if waiting:
                self.waiting[account] = waiting  # behind the others
                return
