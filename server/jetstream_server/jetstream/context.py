"""What every stream and consumer of one account shares."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from jetstream_server.base.nuid import Nuid
from jetstream_server.core.containment import UNCONTAINED, Containment, Incident
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.ingest import IngestLimits
from jetstream_server.jetstream.open_batches import OpenBatches
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.remains import Remains
from jetstream_server.jetstream.slices import Slices
from jetstream_server.store.ports import MessageStore
from jetstream_server.structures.deadline_heap import DeadlineHeap


class Losses(Protocol):
    """Takes what is given up after something that nobody foresaw, and brings it back.

    What is given up is a consumer or a feed, which are `Any` here because they import this module;
    or a stream, which all its parts know by its store.
    """

    def give_up_consumer(self, consumer: Any, incident: Incident, now: int) -> None:
        """Stop a consumer, and let a stand-in have its place."""

    def give_up_stream(self, store: MessageStore, incident: Incident, now: int) -> None:
        """Take the stream of a store offline."""

    def give_up_feed(self, feed: Any, stream: str, origin: str, incident: Incident) -> None:
        """Note that nothing comes from an origin."""

    def feed_recovered(self, feed: Any) -> None:
        """Note that what comes is taken again, or that nothing more is to come."""


class Scheduled(Hashable, Protocol):
    """Anything with timers: a stream or a consumer."""

    def tick(self, now: int) -> None:
        """Do what has become due, then schedule the next deadline."""
        ...


class Copying(Hashable, Protocol):
    """A stream that copies from others."""

    def origin_appeared(self, name: str, now: int) -> None:
        """A stream was made in this account; whoever waits for it need not wait any longer."""
        ...


class Runnable(Hashable, Protocol):
    """Anything that may have something to deliver: a consumer, a snapshot."""

    def advance(self, now: int) -> None:
        """Deliver what can be delivered now."""
        ...


class Reporting(Hashable, Protocol):
    """A consumer whose answers report what is yet to be saved."""

    def save_reported(self, now: int) -> None:
        """Save it before they leave."""
        ...


@dataclass(slots=True)
class Context:
    """Shared by the streams and consumers of one account.

    Attributes:
        account: account name, `$G` for the global one.
        server_name: shown as leader in STREAM.INFO and in advisories.
        domain: JetStream domain, empty for none.
        sublist: the account's interest; streams and consumers subscribe here.
        output: where sends are collected.
        nuid: the source of identifiers.
        slices: answers that take more than one turn.
        remains: what very many messages leave behind in memory.
        deadlines: one entry per stream or consumer with a timer, keyed by the object.
        ready: consumers to `advance` at the end of the turn, in order of waking.
        reporting: consumers that have given answers in this turn.
        watching: consumers that deliver while somebody listens; to be woken when interest changes.
        blocked: consumers that held messages back for clients that do not read; to be woken when
            one reads again.
        copying: those that copy from other streams.
        ingest_limits: what one stream may take in per turn.
        batches: what all accounts of the server have open, and may have.
        workload: how many requests a turn of the server takes on.
        log: notes for the operator: level (`INF`, `WRN`, `ERR`) and text.
        containment: of exceptions that nobody foresaw.
        outages: takes what is given up because of them, None where nothing ever is.
        is_strict: whether a request with unknown fields is refused.
    """

    account: str
    server_name: str
    domain: str
    sublist: Sublist
    output: Output
    nuid: Nuid
    slices: Slices = field(init=False)
    remains: Remains = field(init=False)
    deadlines: DeadlineHeap[Scheduled] = field(init=False)
    ready: dict[Runnable, None] = field(default_factory=dict)
    reporting: dict[Reporting, None] = field(default_factory=dict)
    watching: dict[Runnable, None] = field(default_factory=dict)
    blocked: dict[Runnable, None] = field(default_factory=dict)
    copying: dict[Copying, None] = field(default_factory=dict)
    ingest_limits: IngestLimits = field(default_factory=IngestLimits)
    batches: OpenBatches = field(default_factory=OpenBatches)
    workload: Workload = field(default_factory=Workload)
    log: Callable[[str, str], None] = lambda level, text: None
    containment: Containment = UNCONTAINED
    outages: Losses | None = None
    is_strict: bool = True
    _generation_seen: int = 0

    def __post_init__(self) -> None:
        self.deadlines = DeadlineHeap(self.output.stir)
        self.slices = Slices(self.deadlines, self.workload)
        self.output.spend = self.workload.spend
        self.output.promise = self.workload.promise
        self.remains = Remains(self.deadlines)

    def wake(self, runnable: Runnable) -> None:
        """Have a consumer or a snapshot advanced at the end of this turn, or of one of the next."""
        self.ready[runnable] = None
        self.output.stir()

    def notice_interest(self) -> None:
        """Wake the watching consumers if subscriptions came or went; called once a turn."""
        if self.sublist.generation != self._generation_seen:
            self._generation_seen = self.sublist.generation
            self.ready.update(self.watching)
