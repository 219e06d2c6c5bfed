"""What an account's JetStream has given up for an exception that nobody foresaw, until it is back.

`core/fault_domains.py` says what is given up; here is what follows. A consumer gets a stand-in
(`consumers/halted_consumer.py`), a stream goes offline; both come back from what is stored, after a
pause that doubles each time. A stream that trips over the same input again stays offline until the
server is restarted or somebody sees to it; where it was what is stored, until there is another
version (`unopened.py`). After an hour without trouble the count starts over.

Nothing that was acknowledged is lost by it: what was queued for the disk still gets there, what is
read back is what is there, and answers that reported what was not saved yet are withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jetstream_server.base.clock import MILLISECOND, MINUTE, SECOND
from jetstream_server.base.errors import JetStreamServerError
from jetstream_server.core.containment import Incident
from jetstream_server.jetstream.catalog.offline_stream import OfflineStream
from jetstream_server.jetstream.catalog.unopened import note_unopened
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.consumer_creation import (
    restart_consumer,
    restore_consumer,
)
from jetstream_server.jetstream.consumers.halted_consumer import HaltedConsumer, Remnant
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ending import Ending
from jetstream_server.store.ports import MessageStore

if TYPE_CHECKING:
    from jetstream_server.jetstream.origins.feed import Feed
    from jetstream_server.jetstream.stream import Stream

PAUSE_NS = SECOND
PAUSE_NS_MAX = 5 * MINUTE
WELL_NS = 60 * MINUTE
_SETTLING_NS = 100 * MILLISECOND
_KNOWN_MAX = 1000


@dataclass(slots=True)
class _Relapses:
    """How often something was given up lately, and for what."""

    count: int = 0
    last_at: int = 0
    known: set[bytes] = field(default_factory=set)

    def pause_ns(self, now: int) -> int:
        """Count one more; return how long to wait this time."""
        if now - self.last_at > WELL_NS:
            self.count = 0
            self.known.clear()
        self.count, self.last_at = self.count + 1, now
        return min(PAUSE_NS << min(self.count - 1, 30), PAUSE_NS_MAX)


@dataclass(frozen=True, slots=True)
class Outage:
    """What does not serve, for monitoring.

    Attributes:
        consumer: empty where it is about a source of the stream.
        text: what and why, as healthz shows it.
    """

    stream: str
    consumer: str
    text: str


class StreamList(Protocol):
    """The streams of an account, those that serve and those that do not, by name."""

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Those that serve."""
        ...

    @property
    def offline(self) -> Mapping[str, OfflineStream]:
        """Those that do not."""
        ...

    def take_offline(self, stream: Stream, reason: str) -> OfflineStream:
        """List as offline a stream that no longer serves."""
        ...

    def reopen(self, offline: OfflineStream, now: int) -> Stream | None:
        """Reopen a stream that was given up; return it if it serves now."""
        ...


class Outages:
    """Gives up, and brings back, what is in one catalog."""

    def __init__(self, catalog: StreamList, context: Context) -> None:
        self._catalog = catalog
        self._context = context
        self._histories: dict[tuple[str, str], _Relapses] = {}
        self._halted: dict[HaltedConsumer, None] = {}
        self._feeds: dict[Feed, Outage] = {}

    def _history(self, stream: str, consumer: str = "") -> _Relapses:
        return self._histories.setdefault((stream, consumer), _Relapses())

    def forget(self, stream: str) -> None:
        """A stream is gone for good."""
        self._histories = {key: each for key, each in self._histories.items() if key[0] != stream}

    def __iter__(self) -> Iterator[Outage]:
        """Return what does not serve, offline streams aside: those the catalog lists."""
        account = self._context.account
        for halted in self._halted:
            stream, name = halted.stream.name, halted.name
            text = f"JetStream consumer '{account} > {stream} > {name}' is stopped: {halted.outage}"
            yield Outage(stream, name, text)
        yield from self._feeds.values()

    # -- consumers -------------------------------------------------------------------------

    def give_up_consumer(self, consumer: Consumer, incident: Incident, now: int) -> None:
        """Stop a consumer, and let a stand-in have its place."""
        stream = consumer.stream
        if stream.outage or stream.consumers.get(consumer.name) is not consumer:
            return  # of a stream that is given up itself, or known already
        self.halt(stream, Remnant.of(consumer), incident, now)

    def halt(self, stream: Stream, remnant: Remnant, incident: Incident, now: int) -> None:
        """Let a stand-in have the place of what is left of a consumer."""
        history = self._history(stream.name, remnant.name)
        halted = HaltedConsumer(stream, remnant, str(incident), history.pause_ns, self._back)
        self._halted[halted] = None
        halted.start(now)

    def _back(self, halted: HaltedConsumer) -> None:
        self._halted.pop(halted, None)

    # -- streams ---------------------------------------------------------------------------

    def give_up_stream(self, store: MessageStore, incident: Incident, now: int) -> None:
        """Take the stream of a store offline; it comes back, unless the input was there before."""
        catalog = self._catalog
        stream = next((each for each in catalog.streams.values() if each.store is store), None)
        if stream is None:
            return  # known already
        remnants = [
            Remnant.of(each)
            for each in stream.consumers.values()
            if isinstance(each, Consumer) and each.files.files is None and not each.internal
        ]
        self._abandon(stream, str(incident), now)
        offline = catalog.take_offline(stream, str(incident))
        self._bring_back_later(offline, remnants, incident, now)

    def _abandon(self, stream: Stream, reason: str, now: int) -> None:
        """Stop a stream without queueing anything more; its consumers keep what they know."""
        stream.abandon(reason)
        for act in (
            stream.sourcing.abandon,
            stream.unsubscribe,
            lambda: self._context.deadlines.cancel(stream),
            stream.publishing.close,
            lambda: stream.consumers.tell(lambda each: each.stop(Ending.INTERRUPTED, now), now),
        ):
            try:
                act()
            except Exception as error:
                self._context.containment.contain(error, now)

    def abandon_opened(self, stream: Stream, incident: Incident, now: int) -> None:
        """Take a stream offline that tripped while it was opened."""
        self._abandon(stream, str(incident), now)
        self.not_opened(self._catalog.take_offline(stream, str(incident)), incident, now)

    def not_opened(self, offline: OfflineStream, incident: Incident, now: int) -> None:
        """A stream tripped while it was opened: try once more, as the cause may lie elsewhere."""
        if not self._bring_back_later(offline, [], incident, now):
            note_unopened(offline.folder, str(incident))

    def _bring_back_later(
        self, offline: OfflineStream, remnants: list[Remnant], incident: Incident, now: int
    ) -> bool:
        """Have a stream come back after a pause; tell whether it does."""
        name = offline.name
        history = self._history(name)
        pause_ns = history.pause_ns(now)
        text = f"stream {name} of account {self._context.account} is offline: {incident}"
        if incident.identity in history.known:
            offline.reason += "; for the same input as before, so it stays offline"
            self._context.log("ERR", f"{text}; for the same input as before, so it stays so")
            return False
        if len(history.known) < _KNOWN_MAX:
            history.known.add(incident.identity)
        self._context.log("WRN", f"{text}; it is brought back in {pause_ns // SECOND} s")
        comeback = Comeback(self._catalog, self._context, offline, remnants, self.not_opened)
        self._context.deadlines.schedule(comeback, now + pause_ns)
        return True

    # -- opening ---------------------------------------------------------------------------

    def restore_consumers(self, stream: Stream, now: int) -> dict[str, str]:
        """Open the consumers of a stream; return why some cannot be read, by name."""
        unread = {}
        for name in stream.folder.consumers():
            files = stream.folder.consumer(name)
            try:
                restore_consumer(stream, name, files, now, stream.found_last_seq)
            except JetStreamServerError as error:
                unread[name] = str(error)
                self._context.log("ERR", f"consumer {name} of stream {stream.name}: {error}")
            except Exception as error:
                incident = self._context.containment.contain(error, now)
                if name not in stream.consumers:
                    self.halt(stream, Remnant(name, None, 0, files, 0, {}), incident, now)
        return unread

    # -- sources ---------------------------------------------------------------------------

    def give_up_feed(self, feed: Feed, stream: str, origin: str, incident: Incident) -> None:
        """Note that nothing comes from an origin."""
        place = f"{self._context.account} > {stream}"
        text = f"JetStream stream '{place}' copies nothing from '{origin}': {incident}"
        self._feeds[feed] = Outage(stream, "", text)

    def feed_recovered(self, feed: Feed) -> None:
        """Note that what comes is taken again, or that nothing more is to come."""
        self._feeds.pop(feed, None)


@dataclass(slots=True, eq=False)
class Comeback:
    """Brings one stream back. Scheduled.

    Args:
        offline: the stream, as it is listed meanwhile.
        remnants: consumers that keep nothing on disk.
        not_opened: told when it has tripped once more.
    """

    _catalog: StreamList
    _context: Context
    _offline: OfflineStream
    _remnants: list[Remnant]
    _not_opened: Callable[[OfflineStream, Incident, int], None]

    def tick(self, now: int) -> None:
        """Open the stream again once the disk has all that was queued for it."""
        catalog, context, offline = self._catalog, self._context, self._offline
        if catalog.offline.get(offline.name) is not offline:
            return  # removed, or somebody was quicker
        if not offline.folder.is_in_place:
            context.deadlines.schedule(self, now + _SETTLING_NS)
            return
        stream = catalog.reopen(offline, now)
        if stream is None:
            return
        context.log("INF", f"stream {stream.name} of account {context.account} is back")
        for each in self._remnants:
            if each.config is not None and each.name not in stream.consumers:
                config, created, next_seq = each.config, each.created, each.next_seq
                restart_consumer(stream, each.name, config, created, next_seq, now)

    def give_up(self, incident: Incident, now: int) -> None:
        """Leave the stream offline; try again if that may help."""
        if self._catalog.offline.get(self._offline.name) is self._offline:
            self._not_opened(self._offline, incident, now)
