"""What the server itself sends to very many, and a turn had no time for.

Acks go to whatever reply a publisher names, and copies to whoever listens; tens of thousands may.
No client may see what an account sends in another order, so what follows for those whom something
late reaches waits behind it, and so does what may reach anybody. Frames for other clients go ahead.
What waits must not become ever more, so nobody publishes in an account that has much of it. It may
have been set off from another account, so there is a bound for all of them as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jetstream_server.core.deliveries import Deliveries
from jetstream_server.core.subscription import Outlet
from jetstream_server.jetstream.output import Frames, Publish, Released, Send
from jetstream_server.node.accounts.account import Account

# Of one account, and of all together: above that nobody publishes there, or anywhere.
LATE_OF_ACCOUNT_MAX = 1000
LATE_MAX = 10_000
# Beyond so many subjects nobody looks any more whom they reach, and nothing goes ahead.
_SUBJECTS_MAX = 4


@dataclass(slots=True, eq=False)
class _Late:
    """What one account has to send.

    Attributes:
        sends: in their order.
        subjects: of the messages among them.
        clients: whom these reach.
        generation: of the account's interest, when that was looked up.
    """

    sends: deque[Send] = field(default_factory=deque)
    subjects: set[bytes] = field(default_factory=set)
    clients: set[Outlet] = field(default_factory=set)
    generation: int = -1

    def lets_pass(self, account: Account, outlet: Outlet | None) -> bool:
        """Tell whether a client that is sent something sees nothing of what is late."""
        if len(self.subjects) > _SUBJECTS_MAX:
            return False
        if self.generation != account.sublist.generation:
            self.generation = account.sublist.generation
            self.clients = set().union(*map(account.router.clients, self.subjects))
        return outlet not in self.clients

    def keep(self, send: Send) -> None:
        self.sends.append(send)
        if not isinstance(send, Publish):
            return
        for index in range(send.run.count):
            subject = send.run.subject(index)
            if subject not in self.subjects and len(self.subjects) <= _SUBJECTS_MAX:
                self.subjects.add(subject)
                self.generation = -1  # to be looked up


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
        self.waiting: dict[Account, _Late] = {}
        self.is_over = False

    @property
    def has_time(self) -> bool:
        """Return whether something may be sent to very many in this turn."""
        return self._deliveries.left > 0 or self.is_over

    def holds_up(self, account: Account) -> bool:
        """Tell whether an account's clients may not publish for now."""
        late = self.waiting.get(account)
        if late is not None and len(late.sends) > LATE_OF_ACCOUNT_MAX:
            return True
        return sum(len(each.sends) for each in self.waiting.values()) > LATE_MAX

    def keep(self, account: Account, send: Send) -> None:
        """Keep what there is no time for."""
        self.waiting.setdefault(account, _Late()).keep(send)

    def passing(self, account: Account, sends: Sequence[Send]) -> Sequence[Send]:
        """Keep what has to wait behind something late of the same account; return the others."""
        late = self.waiting.get(account)
        if late is None:
            return sends
        passing: list[Send] = []
        passes = False
        for send in sends:
            if isinstance(send, Frames):
                passes = late.lets_pass(account, send.subscription.outlet)
            elif not isinstance(send, Released):  # which belongs to the frames before it
                passes = False
            if passes:
                passing.append(send)
            else:
                late.keep(send)
        return passing

    def send(self, send: Callable[[Account, Send], object]) -> None:
        """Have sent what there is time for, and one thing at least, as clients come first and may
        have used it all. Of several accounts, each has its turn."""
        is_first = True
        for account in list(self.waiting):
            late = self.waiting[account]
            while late.sends and (is_first or self.has_time):
                is_first = False
                send(account, late.sends.popleft())
            del self.waiting[account]
            if late.sends:
                self.waiting[account] = late  # behind the others
                return
