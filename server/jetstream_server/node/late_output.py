"""What the server itself sends to very many, and a turn had no time for.

Acks go to whatever reply a publisher names, and copies to whoever listens; tens of thousands may.
No client may see what an account sends in another order, so what follows for those whom something
late reaches waits behind it, and so does what may reach anybody. Frames for other clients go ahead,
if none of theirs wait already: whom late messages reach is looked up as turns have time.
What waits must not become ever more, so nobody publishes in an account that has much of it; whoever
set it off from another account waits as well (`core/promises.py`). A message that reaches more than
a whole turn has time for is brought to some of them in each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from jetstream_server.core.answers import Answers
from jetstream_server.core.deliveries import NODES_OF_SUBJECT, Deliveries
from jetstream_server.core.match import Match
from jetstream_server.core.relay import REPLY_PREFIX, resolved
from jetstream_server.core.subscription import Outlet, Subscription
from jetstream_server.jetstream.output import Frames, Publish, Released, Send
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.stream_imports import Shadow
from jetstream_server.node.router import Router
from jetstream_server.protocol.ops import PubRun

LATE_OF_ACCOUNT_MAX = 5000  # above that nobody publishes there
# Beyond so many subjects nobody looks any more whom they reach, and nothing goes ahead.
_SUBJECTS_MAX = 10_000
_LOOKED_UP_OF_TURN = 500  # of them; one that meets many subscriptions counts more than once
_ASKED_SUBJECTS_MAX = 16  # a client is asked about each whether it hears that
_REACHED_OF_LOOK_UP = 50  # looked at in the time of one
_LEAST_SHARE = 4  # of a turn's deliveries, as part of the whole, whatever clients have used


@dataclass(slots=True, eq=False)
class _Late:
    """What one account has to send.

    Attributes:
        sends: in their order.
        kept: how many of them are frames, by their client.
        subjects: of the messages among them, and of those that have been sent.
        unknown: the subjects of which it is not looked up yet whom they reach.
        looking: whom one reaches, as far as it is not looked at yet.
        clients: whom the others reach, in whatever account.
        deaf: clients that hear nothing of all this, found by asking them.
        generation: of the account's interest, when all that was looked up.
        under_way: what has reached some already, and comes before all others.
    """

    sends: deque[Send] = field(default_factory=deque)
    kept: Counter[Outlet | None] = field(default_factory=Counter)
    subjects: set[bytes] = field(default_factory=set)
    unknown: list[bytes] = field(default_factory=list)
    looking: Iterator[Match] | None = None
    clients: set[Outlet] = field(default_factory=set)
    deaf: set[Outlet] = field(default_factory=set)
    generation: int = -1
    under_way: Answers = field(default_factory=lambda: Answers(_NoBacklog(), _wait))

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left."""
        return not self.sends and not self.under_way.postponed

    def lets_pass(self, account: Account, frames: Frames) -> bool:
        """Tell whether a client that is sent something sees nothing of what is late, as far as that
        was looked up, or can be asked."""
        client = _client(frames.subscription)
        if len(self.subjects) > _SUBJECTS_MAX or self.kept.get(client):
            return False
        if self.generation != account.sublist.generation:
            return False
        if self.is_looked_up:
            return client not in self.clients
        return frames.subscription.outlet is not None and self._is_deaf(frames.subscription.outlet)

    def _is_deaf(self, client: Outlet) -> bool:
        """Ask a client whether it hears nothing of what is late. To look up a million subscriptions
        of another one takes many turns, and whoever waits in one of them waits to the end."""
        if client in self.deaf:
            return True
        if len(self.subjects) > _ASKED_SUBJECTS_MAX or any(map(client.may_hear, self.subjects)):
            return False
        self.deaf.add(client)
        return True

    @property
    def is_looked_up(self) -> bool:
        """Return whether it is known whom all of the subjects reach."""
        return not self.unknown and self.looking is None

    def look_up(self, account: Account, most: int) -> int:
        """Find out whom late messages reach; return how much of what there is time for is left.

        Args:
            most: what there is time for.
        """
        sublist = account.sublist
        if len(self.subjects) > _SUBJECTS_MAX:
            return most
        if self.generation != sublist.generation:
            self.generation = sublist.generation
            self.clients.clear()
            self.deaf.clear()
            self.unknown = list(self.subjects)
            self.looking = None
        looked_at = sublist.looked_at
        while most > 0 and not self.is_looked_up:
            if self.looking is None:
                self.looking = _reached(account, self.unknown.pop())
            some = next(self.looking, None)
            if some is None:
                self.looking = None
                continue
            reached = map(_client, some.subscriptions())
            self.clients.update(client for client in reached if client is not None)
            most -= 1 + (sublist.looked_at - looked_at) // NODES_OF_SUBJECT
            most -= some.size // _REACHED_OF_LOOK_UP
            looked_at = sublist.looked_at
        return most

    def keep(self, send: Send) -> None:
        self.sends.append(send)
        if isinstance(send, Publish):
            self.note(send.run)
        elif isinstance(send, Frames):
            self.kept[_client(send.subscription)] += 1

    def take(self) -> Send:
        """Return what is to be sent next."""
        send = self.sends.popleft()
        if isinstance(send, Frames):
            client = _client(send.subscription)
            self.kept[client] -= 1
            if not self.kept[client]:
                del self.kept[client]
        return send

    def note(self, run: PubRun) -> None:
        """Note the subjects of messages that are late."""
        for index in range(run.count):
            subject = run.subject(index)
            if subject not in self.subjects and len(self.subjects) <= _SUBJECTS_MAX:
                self.subjects.add(subject)
                self.deaf.clear()
                self.unknown.append(subject)


def _reached(account: Account, subject: bytes) -> Iterator[Match]:
    """Return whom a message of an account reaches, those of other accounts as well."""
    match = account.sublist.match(subject)
    return (resolved(match, subject) if subject.startswith(REPLY_PREFIX) else match).pieces()


def _client(subscription: Subscription) -> Outlet | None:
    """Return the client of a subscription, or of the one for which it stands in an exporter."""
    receiver = subscription.receiver
    return receiver.original.outlet if isinstance(receiver, Shadow) else subscription.outlet


class _NoBacklog:
    """What is late has no backlog."""

    backlog_bytes = 0


def _wait() -> None:
    """Nothing goes on before the next turn."""


@dataclass(slots=True, eq=False)
class _LateRun:
    """Messages of which some have yet to arrive, from the next one on. Postponable."""

    router: Router
    run: PubRun
    answers: Answers
    next: int = 0

    def receive(self, now: int) -> None:
        """Go on, unless it is all done."""
        self.next = self.router.route(self.run, None, now, self.next, late=self.answers)
        if self.next < self.run.count:
            self.answers.postpone(self)


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
        self._look_ups_left = _LOOKED_UP_OF_TURN
        self.waiting: dict[Account, _Late] = {}
        self.is_over = False

    @property
    def has_time(self) -> bool:
        """Return whether something may be sent to very many in this turn."""
        return self._deliveries.has_time or self.is_over

    def holds_up(self, account: Account) -> bool:
        """Tell whether an account's clients may not publish for now."""
        late = self.waiting.get(account)
        return late is not None and len(late.sends) > LATE_OF_ACCOUNT_MAX

    def keep(self, account: Account, send: Send) -> None:
        """Keep what there is no time for."""
        self.waiting.setdefault(account, _Late()).keep(send)

    def passing(self, account: Account, sends: Sequence[Send]) -> Sequence[Send]:
        """Keep what has to wait behind something late of the same account; return the others."""
        late = self.waiting.get(account)
        if late is None:
            return sends
        self._look_ups_left = late.look_up(account, self._look_ups_left)
        passing: list[Send] = []
        passes = False
        for send in sends:
            if isinstance(send, Frames):
                if not late.is_looked_up:  # what was kept just now
                    self._look_ups_left = late.look_up(account, self._look_ups_left)
                passes = late.lets_pass(account, send)
            elif not isinstance(send, Released):  # which belongs to the frames before it
                passes = False
            if passes:
                passing.append(send)
            else:
                late.keep(send)
        return passing

    def route(self, account: Account, run: PubRun, now: int) -> bool:
        """Publish messages of an account; tell whether all of them have arrived everywhere. If not,
        what follows them has to be kept."""
        if self.is_over:
            account.router.route(run, None, now)
            return True
        late = self.waiting.get(account) or _Late()
        _LateRun(account.router, run, late.under_way).receive(now)
        if not late.under_way.postponed:
            return True
        late.note(run)
        self.waiting[account] = late
        return False

    def send(self, send: Callable[[Account, Send], object], now: int) -> None:
        """Have sent what there is time for, and some at least, as clients come first and may have
        used it all in each turn. Of several accounts, each has its turn."""
        deliveries = self._deliveries
        was_spent = deliveries.left <= 0
        deliveries.allow_some(_LEAST_SHARE)
        self._send_some(send, now)
        if was_spent:
            deliveries.left = min(deliveries.left, 0)  # it was for what is late

    def _send_some(self, send: Callable[[Account, Send], object], now: int) -> None:
        deliveries = self._deliveries
        self._look_ups_left = _LOOKED_UP_OF_TURN
        for account in list(self.waiting):
            late = self.waiting[account]
            self._look_ups_left = late.look_up(account, self._look_ups_left)
            while not late.is_over and self.has_time:
                if not late.under_way.postponed:
                    send(account, late.take())
                else:
                    if self.is_over:
                        deliveries.allow_all()
                    late.under_way.resume(now)
            del self.waiting[account]
            if not late.is_over:
                self.waiting[account] = late  # behind the others
                return
