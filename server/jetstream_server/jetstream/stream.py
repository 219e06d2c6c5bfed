"""A stream: takes what is published to its subjects, keeps what its limits and consumers allow.

`Stream` puts the parts together, and is what others see of them. Each has a state of its own, and
they depend on each other one way:

- `contents.py`: what it holds and knows; everything that is decided is applied there;
- `removal.py`: what leaves it and when, a part of the contents;
- `publishing.py`: how a publish gets in, and is answered;
- `origins/sourcing.py`: how the messages of other streams get in;
- `alarm.py`: its one timer, behind `tick`.

A stream does not validate configs (`stream_checks.py`), does not save them (`catalog.py`), and
knows the API only through the methods that it calls.

Specification: docs/reference/streams.md and docs/reference/publishing.md.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subscription import Receiver, Stretch
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.configs.written_config import WrittenConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.origins.last_positions import Foreseen
from jetstream_server.jetstream.origins.sourcing import Sourcing
from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.streams.alarm import Alarm
from jetstream_server.jetstream.streams.batches.atomic_batch import drop_unfinished
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.interest import Interest
from jetstream_server.jetstream.streams.publishing import StreamPublishing
from jetstream_server.jetstream.streams.reads.direct_get import DirectGet
from jetstream_server.jetstream.streams.reads.stream_state import describe_state
from jetstream_server.jetstream.streams.removal.removal_checks import check_delete, check_purge
from jetstream_server.jetstream.streams.storing.schedule_firing import fire_schedules
from jetstream_server.jetstream.streams.storing.storing_outcome import StoringOutcome
from jetstream_server.jetstream.streams.taken_filters import TakenFilters
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore, StreamFolder

_FAILED_EXPIRY_RETRY_NS = 10 * SECOND
MESSAGES_OF_UNIT = 100  # that leave, of the workload
_PUT_OFF_UNITS = 0.5  # to see that schedules wait for the disk


class Stream:
    """One stream of an account.

    Attributes:
        name: the stream's name.
        created: nanoseconds since the epoch.
        folder: where it is kept.
        store: its messages.
        context: what it shares with the other streams of its account.
        contents: what it holds and knows.
        consumers: by name.
        removal: what leaves it.
        publishing: how a publish gets in.
        sourcing: the streams that it copies from.
        taken_filters: what the consumers of a work queue read, as of the last look.
        written_config: as lists show it.
        found_last_seq: last sequence when the store was opened, before what had become due was
            stored.
    """

    def __init__(
        self,
        context: Context,
        config: StreamConfig,
        created: int,
        folder: StreamFolder,
        store: MessageStore,
        now: int,
    ) -> None:
        self.name = config.name
        self.created = created
        self.folder = folder
        self.store = store
        self.context = context
        self.found_last_seq = 0 if store.offline else store.last_seq
        self._alarm = Alarm(context.deadlines, self)  # its one timer, shared by its parts
        self.contents = contents = Contents(context, config, store, self._alarm)
        self.consumers = contents.consumers
        self.removal = contents.removal
        self.publishing = StreamPublishing(contents, self._alarm, context)
        self.sourcing = Sourcing(contents, context, folder.sources(), self.found_last_seq)
        self.taken_filters = TakenFilters()
        self.written_config = WrittenConfig()
        self._direct_get = DirectGet(config.name, store, context.output, context.workload)
        self._interest = Interest(context.sublist, context.deadlines)  # what it listens to
        self._is_subscribed = False  # it listens; not while it cannot store
        if not store.offline:
            self._recover(now)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, {self.store.state()!r})"

    # -- publishing ------------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Take what was published to one of the stream's subjects."""
        self.publishing.take(stretch)

    def receive_traced(self, run: PubRun, now: int, outcome: StoringOutcome) -> None:
        """Take the only message of a run, and note what became of it or would have."""
        self.publishing.take_traced(run, now, outcome)

    # -- removing --------------------------------------------------------------------------

    def purge(self, pattern: bytes, seq: int, keep: int, now: int) -> int:
        """Remove messages: all, those of a subject pattern, those below `seq`, all but `keep`.

        Returns:
            How many went.

        Raises:
            ApiError: 10109, 10110, 10051.
        """
        check_purge(self.config, self.store)
        if seq == 1:  # nothing is below; an unused stream stays unused
            return 0
        wanted = self.store.filter([pattern]) if pattern else None
        return self.removal.purge(wanted, seq, keep, now)

    def delete_message(self, sequence: int, erase: bool, now: int) -> None:
        """Remove one message; `erase` also overwrites its bytes.

        Raises:
            ApiError: 10109, 10057; 10043 when the message does not exist.
        """
        check_delete(self.config, self.store, sequence)
        if not self.removal.remove(sequence, erase, now):
            raise errors.SEQUENCE_NOT_FOUND(sequence)

    # -- time ------------------------------------------------------------------------------

    def tick(self, now: int, *, has_trimmed: bool = False) -> None:
        """Do what is due: remove what is over, store what schedules ask for, forget old ids and
        batches; then set the alarm again.

        Args:
            has_trimmed: as `Contents.expire` says.
        """
        contents, alarm = self.contents, self._alarm
        alarm.rang()
        contents.forget_ids(now)
        if not self.store.offline:
            try:
                before = self.store.state().messages
                self.removal.sweep_on(now)
                contents.expire(now, has_trimmed=has_trimmed)
                # Of a thousand streams all may age at the same time, and have schedules come up.
                gone = max(before - self.store.state().messages, 0)
                workload, fired = self.context.workload, _PUT_OFF_UNITS
                # Whoever publishes would wait for what schedules have the disk write.
                if contents.config.is_memory or not workload.is_flooded:
                    fired = fire_schedules(contents, self.context.log, now)
                workload.spend(gone // MESSAGES_OF_UNIT + fired)
            except StoreError as failure:
                self.context.log("ERR", f"stream '{self.name}': expiry failed: {failure}")
                alarm.set(now, now + _FAILED_EXPIRY_RETRY_NS)
            else:
                contents.arm_expiry(now)
        self.publishing.expire(now)

    # -- life ------------------------------------------------------------------------------

    def subscribe(self, *, at_once: bool = True) -> None:
        """Start taking what is published to the stream's subjects, and direct gets.

        Args:
            at_once: no matter how many subjects; otherwise `subscribe_more` does it.
        """
        self._is_subscribed = True
        own = zip(self.config.subject_patterns, repeat(b""))
        others = self._direct_get.interest if self.config.allow_direct else {}
        if self._interest.is_any:
            wanted: dict[tuple[bytes, bytes], Receiver] = dict.fromkeys(own, self)
            self._interest.begin(wanted | others)
        else:
            self._interest.begin_anew(chain(zip(own, repeat(self)), others.items()))
        while at_once and not self.subscribe_more():
            pass

    def subscribe_more(self) -> bool:
        """Listen to some more of its subjects; tell whether it listens to all of them."""
        return self._interest.go_on()

    def unsubscribe(self) -> None:
        """Take no more."""
        self._is_subscribed = False
        self._interest.change({})

    def reconfigure(
        self,
        config: StreamConfig,
        now: int,
        *,
        at_once: bool = True,
        foreseen: Foreseen | None = None,
    ) -> None:
        """Run with another config, one that `stream_checks.py` allowed; its limits hold at once.

        Args:
            at_once: as `subscribe` says.
            foreseen: where new sources are to go on, as far as that is known.
        """
        had_interest = self.config.retention == "interest"
        self.contents.follow(config)
        self.publishing.follow(config)
        if self._is_subscribed:
            self.subscribe(at_once=at_once)
        self.removal.trim(now)
        if not had_interest:
            self.removal.sweep()
        self.sourcing.follow_config(now, foreseen)
        self.tick(now, has_trimmed=True)

    def _recover(self, now: int) -> None:
        if self.config.allow_atomic and (count := drop_unfinished(self.store)):
            text = f"stream '{self.name}': removed {count} messages of a batch cut short by a crash"
            self.context.log("WRN", text)
        self.contents.recover(now)
        self.tick(now)

    def add_consumer(self, consumer: StreamConsumer) -> None:
        """Count a consumer among those that want messages."""
        self.consumers[consumer.name] = consumer

    def remove_consumer(self, consumer: StreamConsumer, now: int) -> None:
        """Forget a consumer; what only it needed leaves an interest stream."""
        if self.consumers.get(consumer.name) is consumer:
            del self.consumers[consumer.name]
            self.removal.sweep()

    def stop(self, now: int, ending: Ending = Ending.SHUTDOWN) -> None:
        """Stop for now: everything stays where it is kept."""
        self._end(ending, now)
        self.store.close()

    def delete(self, now: int) -> None:
        """Stop for good: consumers get told and everything is removed."""
        without_pauses(self.delete_in_steps(now))

    def delete_in_steps(self, now: int) -> InSteps[None]:
        """Do as `delete` does, some of very many consumers with each step; it takes nothing in from
        the first one on."""
        ending = Ending.DELETED
        self._close(ending)
        yield from self.consumers.tell_in_steps(lambda consumer: consumer.stop(ending, now), now)
        self._alarm.cancel()  # it may have been set by what consumers did meanwhile
        yield from self.consumers.let_go_in_steps()
        self.store.destroy()
        self.folder.remove()

    def _end(self, ending: Ending, now: int) -> None:
        self._close(ending)
        self.consumers.tell(lambda consumer: consumer.stop(ending, now), now)
        without_pauses(self.consumers.let_go_in_steps())

    def _close(self, ending: Ending) -> None:
        self.sourcing.stop(for_good=ending.is_for_good)
        self.unsubscribe()
        self._alarm.cancel()
        self.publishing.close()

    def give_up(self, incident: Incident, now: int) -> None:
        """Go offline, as memory may hold more or less than it should."""
        self.removal.give_up(incident, now)

    def abandon(self, reason: str) -> None:
        """Take and remove nothing more; what is queued for the disk still gets there."""
        self.contents.abandon(reason)

    def rest(self) -> bool:
        """Have the store release memory if nobody writes to it; tell whether it did."""
        return self.store.rest()

    # -- looking ---------------------------------------------------------------------------

    @property
    def config(self) -> StreamConfig:
        """Return the config, with defaults filled in."""
        return self.contents.config

    @property
    def outage(self) -> str:
        """Return why it was given up, empty while it serves."""
        return self.contents.outage

    @property
    def consumer_count(self) -> int:
        """Return the number of consumers that are shown."""
        return self.consumers.shown

    def state(
        self, subjects: dict[str, int] | None = None, deleted: list[int] | None = None
    ) -> dict[str, Any]:
        """Return the state object of STREAM.INFO, with what the request asked for on top.

        Args:
            subjects: message counts by subject, one page of them.
            deleted: missing sequences (`store.deleted()`).
        """
        return describe_state(self.store, self.consumer_count, subjects, deleted)
