"""A stream: takes what is published to its subjects, keeps what its limits and consumers allow.

`Stream` is the receiver of its subjects. A stretch of a run is stored whole when nothing asks for
a decision on single messages; a stretch that only has message ids is checked for duplicates as a
whole; the rest goes message by message through `admission.check`. Whichever way, the same follows:
the ack, the consumers told, the limits enforced, the timer set.

A stream does not validate configs (`stream_checks.py`), does not save them (`catalog.py`), and
knows the API only through the methods that it calls.

Invariants: an ack goes out only with or after the flush that holds its message (`Output`); a
message that was refused has used no sequence; consumers hear of every sequence stored, skipped or
removed, except of those that they settled themselves.

Specification: docs/reference/streams.md and docs/reference/publishing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.fault_domains import Domain
from jetstream_server.core.subscription import Receiver, Stretch
from jetstream_server.core.transform import Transform
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.origins.sourcing import Sourcing
from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.streams import publish_headers as names
from jetstream_server.jetstream.streams import retention
from jetstream_server.jetstream.streams.admission import (
    FAST_BATCH_REPLY,
    check,
    check_room,
    check_size,
    check_ttl,
    needs_decisions,
)
from jetstream_server.jetstream.streams.atomic_batch import AtomicBatches, drop_unfinished
from jetstream_server.jetstream.streams.audience import Audience, Subjects
from jetstream_server.jetstream.streams.candidate import Candidate
from jetstream_server.jetstream.streams.dedupe import Dedupe
from jetstream_server.jetstream.streams.direct_get import DirectGet
from jetstream_server.jetstream.streams.expiry import Expiry
from jetstream_server.jetstream.streams.fast_batch import FastBatches
from jetstream_server.jetstream.streams.identified_storing import store_identified
from jetstream_server.jetstream.streams.ingest import Ingest
from jetstream_server.jetstream.streams.interest import Interest
from jetstream_server.jetstream.streams.limits import Trimming
from jetstream_server.jetstream.streams.pub_ack import PubAck
from jetstream_server.jetstream.streams.publish_headers import special_headers
from jetstream_server.jetstream.streams.refusals import Refusals
from jetstream_server.jetstream.streams.removal_checks import check_delete, check_purge
from jetstream_server.jetstream.streams.republish import Republisher
from jetstream_server.jetstream.streams.schedule import Copy, Schedules
from jetstream_server.jetstream.streams.storing_outcome import StoringOutcome
from jetstream_server.jetstream.streams.stream_config import StreamConfig
from jetstream_server.jetstream.streams.stream_state import describe_state
from jetstream_server.kernels.message_ids import first_special, id_spans
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore, StreamFolder, SubjectFilter

# How often the timers of one stream may fire: ages as the genuine server, which needs up to 250 ms
# for them; ids sooner, as clients wait for a window to end.
_EXPIRY_GRANULARITY_NS = 250 * MILLISECOND
_DEDUPE_GRANULARITY_NS = 50 * MILLISECOND
_FAILED_EXPIRY_RETRY_NS = 10 * SECOND
_TRIMMING_PAUSE_NS = MILLISECOND
_NEVER = 2**63 - 1


Allowance = Callable[[int], ApiError | None]  # the refusal of so many more bytes, if any


class Stream:
    """One stream of an account.

    Attributes:
        name: the stream's name.
        config: with defaults filled in; replaced by `reconfigure`.
        created: nanoseconds since the epoch.
        folder: where it is kept.
        store: its messages.
        context: what it shares with the other streams of its account.
        consumers: by name.
        dedupe: message ids seen within the duplicate window.
        last_message_id: id of the newest message, empty when that had none.
        outage: why it was given up, empty while it serves.
        sourcing: the streams that it copies from.
        allowance: tells whether the account may store more; None is no limit. Set by the catalog.
        pub_ack: writes its answers to publishers.
        refusals: sends those to messages that it did not store.
        atomic_batches: those that are open, None when the config allows none.
        fast_batches: likewise.
        schedules: what it is to store later, None when the config allows none.
        found_last_seq: last sequence when the store was opened; what was due is stored by now.
        decides_always: whether the config asks for a decision on every message.
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
        self._wire_name = config.name.encode()
        self.config = config
        self.created = created
        self.folder = folder
        self.store = store
        self.context = context
        self.consumers = Audience(context.containment)
        self.dedupe = Dedupe(config.duplicate_window)
        self.last_message_id = b""
        self.outage = ""
        self.allowance: Allowance | None = None
        self._expiry = Expiry(config, store)
        self._trimming = Trimming(store)
        self.pub_ack = PubAck(config.name, context.domain)
        self.refusals = Refusals(config.name, self.pub_ack, context)
        self._ingest = Ingest(context.ingest_limits)
        self._random = Random(context.nuid.short())
        self._direct_get = DirectGet(config.name, store, context.output)
        self._interest = Interest(context.sublist)
        self.atomic_batches: AtomicBatches | None = None
        self.fast_batches: FastBatches | None = None
        self.schedules: Schedules | None = None
        self._is_subscribed = False
        self._next_tick = _NEVER
        self.found_last_seq = 0 if store.offline else store.last_seq
        self.sourcing = Sourcing(self)
        self._configure(config)
        if not store.offline:
            self._recover(now)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, {self.store.state()!r})"

    # -- publishing ------------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Take what was published to one of the stream's subjects."""
        run, start, stop, now = stretch.run, stretch.start, stretch.stop, stretch.now
        # What duplicates repeat may be lost with the store.
        if reason := self.outage or self.store.offline:
            self.refusals.send_all(run, start, stop, StoreError(reason))
            return
        if needs_decisions(self, run, start, stop):
            for index in range(start, stop):
                self._receive_one(run, index, now)
            return
        chunk, fields, name, index = run.chunk, run.fields, self._wire_name, start
        while index < stop:
            cut = first_special(chunk, fields, index, stop, name)
            if cut > index:
                self.store_run(run, index, cut, now)
            elif spans := id_spans(chunk, fields, index, stop, name):
                store_identified(self, run, index, spans, now)
                cut = index + len(spans) // 2
            else:
                self._receive_one(run, index, now)
                cut = index + 1
            index = cut

    def store_run(self, run: PubRun, start: int, stop: int, now: int) -> int | None:
        """Store and acknowledge a stretch; return its first sequence, None when it failed.

        Nothing is checked: no header and nothing in the config may ask for a decision.
        """
        if start == stop:
            return None
        try:
            first = self.store.append_run(run, start, stop, now)
        except StoreError as failure:
            self.refusals.send_all(run, start, stop, failure)
            return None
        self.last_message_id = b""
        if not self.config.no_ack:
            self.context.output.pub_acks(run, start, stop, self.pub_ack.head, first)
        subjects = self.consumers.subjects(run, start, stop)
        self.after_storing(first, first + stop - start - 1, now, subjects)
        return first

    def receive_traced(self, run: PubRun, now: int, outcome: StoringOutcome) -> None:
        """Take the only message of a run, and note what became of it, or would have."""
        if reason := self.outage or self.store.offline:
            self.refusals.send_all(run, 0, 1, StoreError(reason))
            outcome.error = reason
            return
        self._receive_one(run, 0, now, outcome)

    def _receive_one(
        self, run: PubRun, index: int, now: int, outcome: StoringOutcome | None = None
    ) -> None:
        """Take one message on its own."""
        reply = run.reply(index)
        try:
            if self.outage:  # since a message before it
                raise StoreError(self.outage)
            subject = self.renamed(run.subject(index))
            message = Candidate(subject, reply, run.headers(index), run.payload(index))
            if not self._ingest.admit(run.size(index), now):
                raise errors.TOO_MANY_REQUESTS()
            if outcome is not None:
                outcome.begin(message)
            check_size(self, message)
            if reply.endswith(FAST_BATCH_REPLY):
                if self.fast_batches is None:
                    raise errors.BATCH_PUBLISH_DISABLED()
                if outcome is None or not outcome.is_only:
                    self.fast_batches.receive(message, now)
                    self._arm(self.fast_batches.next_deadline(), now + _DEDUPE_GRANULARITY_NS)
            elif names.BATCH_ID in message.special:
                if self.atomic_batches is None:
                    raise errors.ATOMIC_PUBLISH_DISABLED()
                if outcome is None or outcome.is_of_batch(message):
                    self._answer(reply, self.atomic_batches.receive(message, now))
                    self._arm(self.atomic_batches.next_deadline(), now + _DEDUPE_GRANULARITY_NS)
            elif outcome is not None and outcome.is_only:
                self._look_at(message, outcome, now)
            else:
                sequence, is_new = self.take(message, now)
                self._answer(reply, self.pub_ack.taken(sequence, message.total, is_new=is_new))
                if outcome is not None:
                    outcome.taken(is_new=is_new, is_wanted=self._is_wanted(subject))
        except ApiError as error:
            self._refuse(reply, error, outcome)
        except StoreError as failure:
            self._refuse(reply, self.refusals.of(failure), outcome)
        except Exception as error:
            incident = self.context.containment.contain(error, now)
            if incident.domain is Domain.MESSAGE:  # it is not stored
                self._refuse(reply, errors.STREAM_GENERAL_ERROR(str(incident)), outcome)

    def _refuse(self, reply: bytes, error: ApiError, outcome: StoringOutcome | None) -> None:
        self.refusals.send(reply, error)
        if outcome is not None:
            outcome.refused(error)

    def _look_at(self, message: Candidate, outcome: StoringOutcome, now: int) -> None:
        """Check a message that is not to be stored, as far as the genuine server does.

        Raises:
            ApiError: it would be refused.
        """
        self.dedupe.expire(now)
        original = check(self, message, now)
        if original is not None:
            self._answer(message.reply, self.pub_ack.taken(original, b"", is_new=False))
        outcome.taken(is_new=original is None, is_wanted=self._is_wanted(message.subject))

    def _is_wanted(self, subject: bytes) -> bool:
        """Tell whether anybody needs what is published to a subject."""
        return self.config.retention != "interest" or retention.is_wanted(self.consumers, subject)

    def renamed(self, subject: bytes) -> bytes:
        """Return the subject under which the stream stores what is published to this one."""
        if self._transform is None:
            return subject
        return self._transform.apply(subject, self._random) or subject

    def take(self, message: Candidate, now: int) -> tuple[int, bool]:
        """Store one message, or recognise it as a duplicate; nothing is answered.

        Returns:
            Its sequence and True, or that of the original and False.

        Raises:
            ApiError: it may not be stored.
        """
        try:
            self.dedupe.expire(now)
            original = check(self, message, now)
            if original is not None:
                return original, False
            return self.store_one(message, now), True
        except StoreError as failure:
            raise self.refusals.of(failure) from failure

    def store_one(self, message: Candidate, now: int) -> int:
        """Store one message that passed; return its sequence."""
        is_wanted = self._is_wanted(message.subject)
        previous = 0
        if is_wanted:
            check_ttl(self, message)
            check_room(self, message)
            previous = self.store.subject_last(message.subject) if self._republisher else 0
        return self._put(message, previous, now, is_wanted=is_wanted)

    def _put(self, message: Candidate, previous: int, now: int, *, is_wanted: bool) -> int:
        """Store a message, or use up its sequence; from here on the stream changes."""
        store = self.store
        if is_wanted:
            sequence = store.append(message.subject, message.headers, message.payload, now)
            self.note_stored(message, sequence, previous, now)
        else:
            sequence = store.skip(1, now)
            self.remember_id(message, sequence, now)
        self.after_storing(sequence, sequence, now, (message.subject,))
        self.purge_outdated(message, sequence, now)  # even if nobody wanted the message itself
        return sequence

    def note_stored(self, message: Candidate, sequence: int, previous: int, now: int) -> None:
        """See to what the headers of a stored message ask for, and to its copy elsewhere.

        Args:
            previous: sequence before it on its subject; only needed for the copy.
        """
        if message.ttl:
            self._expiry.ttls.record(sequence, message.ttl, now)
            self._arm(self._expiry.next_deadline(), now + _EXPIRY_GRANULARITY_NS)
        self.remember_id(message, sequence, now)
        if self._republisher is not None:
            output, subject, headers = self.context.output, message.subject, message.headers
            self._republisher.publish(
                output, subject, headers, message.payload, sequence, previous, now
            )
        if self.schedules is not None:
            self.schedules.noted(message.subject, message.special, now)
            self._arm(self.schedules.next_deadline(), now + _EXPIRY_GRANULARITY_NS)

    def remember_id(self, message: Candidate, sequence: int, now: int) -> None:
        """Know the message again by its id, if it has one."""
        self.last_message_id = message_id = message.message_id
        if message_id:
            self.dedupe.record(message_id, sequence, now)
            self.arm_dedupe(now)

    def purge_outdated(self, message: Candidate, sequence: int, now: int) -> None:
        """Remove what a message rolls up, and the schedule that it ends."""
        store, purged = self.store, 0
        if message.rollup:
            wanted = store.filter([message.subject]) if message.rollup == b"sub" else None
            purged = store.purge(wanted, sequence, 0, gives_way=True)
        if self.schedules is not None and (ended := self.schedules.end(message.special)):
            purged += store.purge(store.filter([ended]), 0, 0)
        if purged:
            self.tell_purged(now, is_single=purged == 1)

    def after_storing(self, first: int, last: int, now: int, subjects: Subjects = None) -> None:
        """Tell the consumers, enforce the limits, and see to the timer."""
        self.refusals.has_failed = False
        self.consumers.stored(first, last, now, subjects)
        if self._trimming.is_limited:
            self._trim(now)
        if self.config.max_age > 0 and now + self.config.max_age < self._next_tick:
            self._arm(now + self.config.max_age, now)

    def _answer(self, reply: bytes, payload: bytes) -> None:
        if reply and not self.config.no_ack:
            self.context.output.publish(reply, payload)

    # -- removing --------------------------------------------------------------------------

    def settle(self, consumer: StreamConsumer, sequences: Iterable[int], now: int) -> None:
        """Remove what this consumer is done with and no other one needs.

        On a limits stream nothing happens. The consumer is not told again.
        """
        if self.config.retention == "limits":
            return
        others: list[StreamConsumer] = []
        if self.config.retention == "interest":
            others = [other for other in self.consumers.values() if other is not consumer]
        self._delete(retention.settled(self.store, others, sequences))

    def sweep(self, now: int) -> None:
        """Remove from an interest stream what no consumer needs: after recovery, when a consumer
        is gone, when the retention became interest."""
        if self.config.retention != "interest":
            return
        if self.consumers:
            self._delete(retention.unneeded(self.store, list(self.consumers.values())))
        elif self.store.first_seq <= self.store.last_seq != 0:  # a new stream stays new
            self.store.truncate_front(self.store.last_seq + 1)

    def _delete(self, sequences: list[int]) -> None:
        if sequences:
            self.store.delete(sequences)

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
        return self._purge(wanted, seq, keep, now)

    def _purge(self, wanted: SubjectFilter | None, seq: int, keep: int, now: int) -> int:
        purged = self.store.purge(wanted, seq, keep)
        self.tell_purged(now)
        return purged

    def delete_message(self, sequence: int, erase: bool, now: int) -> None:
        """Remove one message; `erase` also overwrites its bytes.

        Raises:
            ApiError: 10109, 10057; 10043 when the message does not exist.
        """
        check_delete(self.config, self.store, sequence)
        if not self._remove(sequence, erase, now):
            raise errors.SEQUENCE_NOT_FOUND(sequence)

    def _remove(self, sequence: int, erase: bool, now: int) -> bool:
        is_removed = self.store.delete((sequence,), erase=erase) > 0
        if is_removed:
            self._tell_removed([(sequence, sequence + 1)], now)
        return is_removed

    def _tell_removed(self, ranges: list[tuple[int, int]], now: int) -> None:
        if ranges:
            self.consumers.tell(lambda consumer: consumer.removed(ranges, now), now)

    def tell_purged(self, now: int, *, is_single: bool = False) -> None:
        """Tell the consumers that a purge is over, and whether it took one message of many."""
        first, last = self.store.first_seq, self.store.last_seq
        self.consumers.tell(lambda each: each.purged(first, last, now, is_single=is_single), now)

    # -- time ------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Remove what is over, forget old message ids, and set the timer again."""
        self._next_tick = _NEVER
        self.dedupe.expire(now)
        if not self.store.offline:
            try:
                if self._trimming.is_behind:
                    self._trim(now)
                self._expire(now)
                if self.schedules is not None:
                    self.schedules.fire(self, lambda copy: self._store_copy(copy, now), now)
            except StoreError as failure:
                self.context.log("ERR", f"stream '{self.name}': expiry failed: {failure}")
                self._arm(now, now + _FAILED_EXPIRY_RETRY_NS)
            else:
                self._arm(self._expiry.next_look(now), now)
                if self.schedules is not None:
                    self._arm(self.schedules.next_deadline(), now + _EXPIRY_GRANULARITY_NS)
        self._arm(self.dedupe.next_deadline(), now + _DEDUPE_GRANULARITY_NS)
        for batches in self.open_batches:
            batches.expire(now)
            self._arm(batches.next_deadline(), now + _DEDUPE_GRANULARITY_NS)

    def _expire(self, now: int) -> None:
        self._tell_removed(self._expiry.remove_due(now), now)
        while sequence := self._expiry.store_marker(now):
            self.last_message_id = b""
            self.after_storing(sequence, sequence, now)

    def _trim(self, now: int) -> None:
        self._tell_removed(self._trimming.remove(now), now)
        if self._trimming.is_behind:
            self._arm(now + _TRIMMING_PAUSE_NS, now)

    def _store_copy(self, copy: Copy, now: int) -> None:
        self.store_one(Candidate(copy.target, b"", copy.headers, copy.payload), now)

    def _arm(self, deadline: int | None, earliest: int) -> None:
        """Set the timer to a deadline, unless it is set to an earlier time."""
        if deadline is None:
            return
        at = max(deadline, earliest)
        if at < self._next_tick:
            self._next_tick = at
            self.context.deadlines.schedule(self, at)

    def arm_dedupe(self, now: int) -> None:
        """An id was noted: have it forgotten in time."""
        if now + self.config.duplicate_window < self._next_tick:
            self._arm(self.dedupe.next_deadline(), now + _DEDUPE_GRANULARITY_NS)

    # -- life ------------------------------------------------------------------------------

    def subscribe(self) -> None:
        """Start taking what is published to the stream's subjects, and direct gets."""
        self._is_subscribed = True
        patterns = self.config.subject_patterns
        wanted: dict[tuple[bytes, bytes], Receiver] = {(subject, b""): self for subject in patterns}
        if self.config.allow_direct:
            wanted.update(self._direct_get.interest)
        self._interest.change(wanted)

    def unsubscribe(self) -> None:
        """Take no more."""
        self._is_subscribed = False
        self._interest.change({})

    def reconfigure(self, config: StreamConfig, now: int) -> None:
        """Run with another config, one that `stream_checks.py` allowed; its limits hold at once."""
        had_interest = self.config.retention == "interest"
        self._configure(config)
        if self._is_subscribed:
            self.subscribe()
        self._trim(now)
        if not had_interest:
            self.sweep(now)
        self.sourcing.follow_config(now)
        self.tick(now)

    def _configure(self, config: StreamConfig) -> None:
        self.config = self._expiry.config = config
        self.store.compression = config.compression
        self.refusals.is_silent = config.no_ack
        self.dedupe.window_ns = config.duplicate_window
        self._trimming.follow(config)
        self._transform: Transform | None = None
        # An empty destination is accepted, and changes nothing.
        if (transform := config.subject_transform) is not None and transform.dest:
            self._transform = Transform(transform.src.encode(), transform.dest.encode())
        self._republisher: Republisher | None = None
        if config.republish is not None and config.republish.dest:
            self._republisher = Republisher(
                config.name, config.republish, self._random, self.context.containment
            )
        if self.atomic_batches is not None and not config.allow_atomic:
            self.atomic_batches.close()
        if self.fast_batches is not None and not config.allow_batched:
            self.fast_batches.close()
        self.atomic_batches = (
            self.atomic_batches or AtomicBatches(self) if config.allow_atomic else None
        )
        self.fast_batches = self.fast_batches or FastBatches(self) if config.allow_batched else None
        self.schedules = (
            self.schedules or Schedules(self.context.containment)
            if config.allow_msg_schedules
            else None
        )
        self.decides_always = (
            config.sealed
            or bool(self.context.ingest_limits)
            or config.allow_msg_counter
            or self._transform is not None
            or self._republisher is not None
        )

    def _recover(self, now: int) -> None:
        """Find again what is only in the stored messages: ids, TTLs, what ended meanwhile."""
        store = self.store
        if self.atomic_batches is not None and (count := drop_unfinished(store)):
            text = f"stream '{self.name}': removed {count} messages of a batch cut short by a crash"
            self.context.log("WRN", text)
        self._expiry.recover()
        if self.schedules is not None:
            self.schedules.recover(store, now)
        newest = store.load(store.last_seq)
        if newest is not None and newest.headers:
            self.last_message_id = special_headers(newest.headers).get(names.MESSAGE_ID, b"")
        self.dedupe.recover(store, now)
        self._trim(now)
        self.tick(now)

    def add_consumer(self, consumer: StreamConsumer) -> None:
        """Count a consumer among those that want messages."""
        self.consumers[consumer.name] = consumer

    def remove_consumer(self, consumer: StreamConsumer, now: int) -> None:
        """Forget a consumer; what only it needed leaves an interest stream."""
        if self.consumers.get(consumer.name) is consumer:
            del self.consumers[consumer.name]
            self.sweep(now)

    def stop(self, now: int, ending: Ending = Ending.SHUTDOWN) -> None:
        """Stop for now: everything stays where it is kept."""
        self._end(ending, now)
        self.store.close()

    def delete(self, now: int) -> None:
        """Stop for good: consumers get told and everything is removed."""
        self._end(Ending.DELETED, now)
        self.store.destroy()
        self.folder.remove()

    def _end(self, ending: Ending, now: int) -> None:
        self.sourcing.stop(for_good=ending.is_for_good)
        self.unsubscribe()
        self.context.deadlines.cancel(self)
        self._next_tick = _NEVER
        for batches in self.open_batches:
            batches.close()
        self.consumers.tell(lambda consumer: consumer.stop(ending, now), now)
        # A stream is part of circles, which may stay in memory; its ids are the most of it.
        self.dedupe.forget()

    def give_up(self, incident: Incident, now: int) -> None:
        """Go offline, as more or less may be in memory than there should be."""
        if self.context.outages is not None:
            self.context.outages.give_up_stream(self, incident, now)

    @property
    def open_batches(self) -> list[AtomicBatches | FastBatches]:
        """Return what keeps batches that are not complete."""
        return [each for each in (self.atomic_batches, self.fast_batches) if each is not None]

    def rest(self) -> bool:
        """Let the store let go of memory if nobody writes to it; tell whether it did."""
        return self.store.rest()

    # -- looking ---------------------------------------------------------------------------

    @property
    def republishes(self) -> bool:
        """Return whether copies of its messages go elsewhere."""
        return self._republisher is not None

    @property
    def consumer_count(self) -> int:
        """Return the number of consumers that are shown."""
        return sum(not consumer.internal for consumer in self.consumers.values())

    def state(
        self, subjects: dict[str, int] | None = None, deleted: list[int] | None = None
    ) -> dict[str, Any]:
        """Return the state object of STREAM.INFO, with what the request asked for on top.

        Args:
            subjects: message counts by subject, one page of them.
            deleted: missing sequences (`store.deleted()`).
        """
        return describe_state(self.store, self.consumer_count, subjects, deleted)
