"""One account: an isolated subject space with its own streams.

Interest, routing and JetStream of an account meet here. What crosses from one to another goes
through its imports (`stream_imports.py`, `service_imports.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from jetstream_server.base.clock import NEVER
from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.core.deliveries import Deliveries
from jetstream_server.core.sublist import Sublist, Watcher
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.output import Output
from jetstream_server.node.accounts.following import FOLLOWED_AT_ONCE, Following
from jetstream_server.node.accounts.service_replies import ServiceReplies
from jetstream_server.node.accounts.subject_mappings import SubjectMappings
from jetstream_server.node.router import Router
from jetstream_server.node.stats import Traffic
from jetstream_server.node.trace_request import TraceTerms
from jetstream_server.structures.deadline_heap import DeadlineHeap

if TYPE_CHECKING:
    from jetstream_server.config.options import AccountOptions
    from jetstream_server.jetstream.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What the clients of an account may do; -1 is no limit of its own.

    Attributes:
        connections_max: clients at a time.
        subscriptions_max: of one client.
        payload_bytes_max: of one message.
    """

    connections_max: int = -1
    subscriptions_max: int = -1
    payload_bytes_max: int = -1


class Account:
    """An account.

    Attributes:
        name: `$G` for the global one; the key of one with a JWT.
        name_tag: what it is called: the name in its JWT if it has one, else its name.
        sublist: all its interest, the server's own included.
        output: what its JetStream wants sent.
        containment: of exceptions that nobody foresaw.
        router: delivers what its clients publish.
        catalog: its streams, None while JetStream is off for it.
        arranged: the options that it follows; None where none are configured.
        limits: of its clients.
        updated_at: when its options last changed, 0 if not since the start.
        mappings: of what its clients publish, None if there are none.
        trace_terms: which messages are traced without asking for it, None for none.
        clients: ids of the sessions that are connected to it.
        traffic: of its clients that are gone; for those that moved here, less what they had before.
        replies: stands in for reply subjects of other accounts.
        timers: of what is answered here in several turns.
    """

    def __init__(
        self,
        name: str,
        random: Random,
        stirred: dict[Account, None] | None = None,
        containment: Containment = UNCONTAINED,
        deliveries: Deliveries | None = None,
    ) -> None:
        self.name = self.name_tag = name
        self._stirred = stirred if stirred is not None else {}
        self.sublist = Sublist(self.stir)
        self.output = Output(self.sublist, self.stir)
        self.containment = containment
        self.router = Router(self.sublist, random, self.store_failed, containment, deliveries)
        self.catalog: Catalog | None = None
        self.arranged: AccountOptions | None = None
        self.limits = ClientLimits()
        self.updated_at = 0
        self.mappings: SubjectMappings | None = None
        self.trace_terms: TraceTerms | None = None
        self.clients: set[int] = set()
        self.traffic = Traffic()
        self.replies = ServiceReplies(self, random)
        self.timers: DeadlineHeap[Any] = DeadlineHeap()
        self._reaches: Callable[[str], tuple[Account, ...]] | None = None
        self._exporters: tuple[Account, ...] | None = ()

    @property
    def exporters(self) -> tuple[Account, ...]:
        """Return the accounts whose messages reach its clients, however many imports are in
        between.

        They are looked up when a client of it needs them: a thousand accounts that import from each
        other have a million of them together, and most have no client.
        """
        if self._exporters is None:
            assert self._reaches is not None, "without links there are no exporters"
            self._exporters = self._reaches(self.name)
        return self._exporters

    def reach(self, exporters_of: Callable[[str], tuple[Account, ...]] | None) -> None:
        """Have its exporters looked up anew; None for an account that is parted from others."""
        self._reaches = exporters_of
        self._exporters = () if exporters_of is None else None

    def stir(self) -> None:
        """Have `run` called in this turn, or in the next one."""
        self._stirred[self] = None

    def run(self, now: int) -> None:
        """Do what has become due, and let consumers that were woken deliver."""
        if self.catalog is not None:
            self.catalog.run(now)
        if self.replies.timed.next_at <= now:
            try:
                self.replies.run(now)
            except Exception as error:
                self.containment.contain(error, now)
        if self.timers.next_at <= now:
            self._run_timers(now)

    def put_off(self, now: int) -> None:
        """Do nothing in this turn, which has had enough, but save what answers report that leave
        after it."""
        if self.catalog is not None and self.output.sends_after_flush:
            self.catalog.put_off(now)

    def ready_count(self) -> int:
        """Return how many consumers are to deliver, and may."""
        if self.catalog is None:
            return 0
        context = self.catalog.context
        context.notice_interest()
        return 0 if context.workload.is_laden else len(context.ready)

    @property
    def timers_run(self) -> int:
        """Return how many timers have come due so far, those of its streams included."""
        of_streams = 0 if self.catalog is None else self.catalog.context.deadlines.popped
        return of_streams + self.timers.popped

    def _run_timers(self, now: int) -> None:
        for due in self.timers.pop_due(now):
            try:
                due.tick(now)
            except Exception as error:
                self.containment.contain(error, now)

    def next_deadline(self) -> int | None:
        """Return when `run` has something to do unless it is stirred before, 0 for at once."""
        deadline, other = self.timers.next_at, self.replies.timed.next_at
        if other < deadline:
            deadline = other
        if self.catalog is not None:
            at = self.catalog.next_deadline()
            if at is not None and at < deadline:
                deadline = at
        return None if deadline == NEVER else deadline

    def store_failed(self, error: StoreError) -> None:
        """Note that one of its streams could not store something."""
        if self.catalog is not None:
            self.catalog.report(error)

    @property
    def is_full(self) -> bool:
        """Return whether no further client may connect."""
        return 0 <= self.limits.connections_max <= len(self.clients)

    def subscribe(self, subscription: Subscription) -> Following | None:
        """Add a client's subscription; return the imports that have yet to follow it, None if all
        have."""
        watchers = self.sublist.enter(subscription)
        return self._followed_by(watchers, subscription, comes=True) if watchers else None

    def unsubscribe(self, subscription: Subscription) -> Following | None:
        """Remove a client's subscription; the same for the imports that followed it."""
        watchers = self.sublist.leave(subscription)
        return self._followed_by(watchers, subscription, comes=False) if watchers else None

    def _followed_by(
        self, watchers: list[Watcher], subscription: Subscription, *, comes: bool
    ) -> Following | None:
        following = Following(self.sublist, subscription, watchers, comes=comes)
        if len(watchers) > FOLLOWED_AT_ONCE:
            return following
        following.finish()
        return None
