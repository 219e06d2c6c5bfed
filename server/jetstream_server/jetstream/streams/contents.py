"""What a stream holds and knows of it: the state to which everything that is decided is applied.

Messages come in as runs, one by one, as batches and as copies of another stream's; whichever way,
the same follows: ids and deadlines are noted, the consumers told, the limits enforced, the timer
set. What leaves is the business of `removal.py`.

Nothing here knows who publishes, refuses a message for what it says, or answers. Whether a message
may come in is decided before, by `admission.py`, which looks at this state and changes none of it;
`publishing.py` with its parts, and `origins`, decide, apply and answer. They depend on this module,
and it depends on none of them. So the same calls in the same order lead to the same state, wherever
they are made.

Invariants: a message that was refused has used no sequence; consumers hear of every sequence
stored, skipped or removed, except of those that they settled themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.transform import Transform
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.streams.alarm import Alarm
from jetstream_server.jetstream.streams.audience import Audience, StoredSubjects
from jetstream_server.jetstream.streams.dedupe import Dedupe
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.publish_headers import special_headers
from jetstream_server.jetstream.streams.removal.removal import Removal
from jetstream_server.jetstream.streams.republish import Republisher
from jetstream_server.jetstream.streams.schedules.schedule import Schedules
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore, Purged, Times

# How late the alarm may ring: for ages as late as in the genuine server, which needs up to 250 ms
# for them; for ids sooner, as clients wait for a window to end.
EXPIRY_GRANULARITY_NS = 250 * MILLISECOND
WINDOW_GRANULARITY_NS = 50 * MILLISECOND
_PAUSE_NS = MILLISECOND  # before what is left of much

Allowance = Callable[[int], ApiError | None]  # the refusal of that many more bytes, if any


class Contents:
    """The contents of one stream.

    Attributes:
        name: the stream's name.
        config: with defaults filled in; replaced by `follow`.
        store: the messages.
        consumers: by name.
        spend: told of the units of work that a message takes beyond those that each takes.
        removal: what leaves, and when.
        dedupe: message ids seen within the duplicate window.
        last_message_id: id of the newest message, empty when that had none.
        schedules: what is to be stored later, None when the config allows none.
        allowance: tells whether the account may store more; None is no limit. Set by the catalog.
        outage: why the stream was given up, empty while it serves.
        has_failed: the store did not take the last message.
        decides_always: whether the config asks for a decision on every message.
        decides_at_times: whether it may ask for one, depending on the message.
    """

    def __init__(
        self, context: Context, config: StreamConfig, store: MessageStore, alarm: Alarm
    ) -> None:
        self.name = config.name
        self.store = store
        self.spend = context.workload.spend
        self.consumers = Audience(context.containment, self.spend)
        self.removal = Removal(config, store, self.consumers, alarm, context)
        self.dedupe = Dedupe(config.duplicate_window)
        self.last_message_id = b""
        self.schedules: Schedules | None = None
        self.allowance: Allowance | None = None
        self.outage = ""
        self.has_failed = False
        self._context = context
        self._alarm = alarm
        self._random = Random(context.nuid.short())
        self.follow(config)

    def follow(self, config: StreamConfig) -> None:
        """Have another config from now on. Its limits hold when something is stored next."""
        self.config = config
        self.removal.follow(config)
        self.store.compression = config.compression
        self.dedupe.window_ns = config.duplicate_window
        self._transform: Transform | None = None
        # An empty destination is accepted, and changes nothing.
        if (transform := config.subject_transform) is not None and transform.dest:
            self._transform = Transform(transform.src.encode(), transform.dest.encode())
        self._republisher: Republisher | None = None
        if config.republish is not None and config.republish.dest:
            self._republisher = Republisher(
                config.name, config.republish, self._random, self._context.containment
            )
        if not config.allow_msg_schedules:
            self.schedules = None
        elif self.schedules is None:
            self.schedules = Schedules(self._context.containment)
        self.decides_always = (
            config.sealed
            or config.allow_msg_counter
            or self._transform is not None
            or self._republisher is not None
        )
        self.decides_at_times = (
            config.allow_batched
            or config.max_msg_size > 0
            or config.discard == "new"
            or config.retention == "interest"
            or self.schedules is not None
        )

    def recover(self, now: int) -> None:
        """Find again what is only in the stored messages: ids, TTLs, what ended meanwhile."""
        store = self.store
        self.removal.expiry.recover()
        if self.schedules is not None:
            self.schedules.recover(store, now)
        newest = store.load(store.last_seq)
        if newest is not None and newest.headers:
            self.last_message_id = special_headers(newest.headers).get(names.MESSAGE_ID, b"")
        self.dedupe.recover(store, now)
        self.removal.trim(now)

    def abandon(self, reason: str) -> None:
        """Take and remove nothing more; what is queued for the disk still gets there."""
        self.outage = reason
        self.store.abandon(reason)

    def give_up(self, incident: Incident, now: int) -> None:
        """Have the stream go offline: more or less may be here than there should be."""
        self.removal.give_up(incident, now)

    # -- looking ---------------------------------------------------------------------------

    @property
    def republishes(self) -> bool:
        """Return whether copies of messages go elsewhere."""
        return self._republisher is not None

    def renamed(self, subject: bytes) -> bytes:
        """Return the subject under which the stream stores what is published to this one."""
        if self._transform is None:
            return subject
        return self._transform.apply(subject, self._random) or subject

    def is_wanted(self, subject: bytes) -> bool:
        """Tell whether anybody needs what is published to a subject."""
        return self.config.retention != "interest" or self.consumers.is_wanted(subject)

    # -- storing ---------------------------------------------------------------------------

    def append_run(self, run: PubRun, start: int, stop: int, now: int, times: Times = None) -> int:
        """Store a stretch in which no message has an id or a deadline; return its first sequence.

        `after_storing` is for the caller to call, who may have to answer first.

        Args:
            times: of the messages, where they are older than now.

        Raises:
            StoreError: nothing of it is stored.
        """
        first = self.store.append_run(run, start, stop, now, times)
        self.last_message_id = b""
        return first

    def append(self, message: Candidate, previous: int, now: int, *, is_wanted: bool) -> int:
        """Store a message, or use up its sequence if nobody needs it; return that.

        Args:
            previous: sequence before it on its subject; only needed where copies go elsewhere.
        """
        store = self.store
        if is_wanted:
            sequence = store.append(message.subject, message.headers, message.payload, now)
            self._note_stored(message, sequence, previous, now)
        else:
            sequence = store.skip(1, now)
            self._remember_id(message, sequence, now)
        self.after_storing(sequence, sequence, now, (message.subject,))
        self._purge_outdated(message, sequence, now)  # even if nobody wanted the message itself
        return sequence

    def append_batch(self, batch: list[Candidate], now: int) -> int:
        """Store messages as one run, so that a crash leaves all of them or none; return the last
        sequence."""
        run = PubRun.of((each.subject, b"", each.headers, each.payload) for each in batch)
        latest: dict[bytes, int] = {}
        if self.republishes:
            latest = {each.subject: self.store.subject_last(each.subject) for each in batch}
        return self._append_batch(batch, run, latest, now)

    def _append_batch(
        self, batch: list[Candidate], run: PubRun, latest: dict[bytes, int], now: int
    ) -> int:
        """Store them; from here on the contents change."""
        first = self.store.append_run(run, 0, len(batch), now)
        last = first + len(batch) - 1
        unwanted: list[int] = []
        for sequence, message in enumerate(batch, first):
            if not self.is_wanted(message.subject):
                unwanted.append(sequence)
                self._remember_id(message, sequence, now)
                continue
            self._note_stored(message, sequence, latest.get(message.subject, 0), now)
            latest[message.subject] = sequence
        # Stored all the same, so that recovery sees whole batches (`atomic_batch.py`).
        if unwanted:
            self.store.delete(unwanted)
        self.after_storing(first, last, now)
        for sequence, message in enumerate(batch, first):
            self._purge_outdated(message, sequence, now)
        return last

    def append_copy(
        self, message: Candidate, sequence: int, timestamp: int, previous: int, now: int
    ) -> None:
        """Store a message under the sequence and time of its origin. `after_storing` is for the
        caller to call."""
        store = self.store
        store.append(message.subject, message.headers, message.payload, timestamp, sequence)
        self._note_stored(message, sequence, previous, timestamp)
        self._purge_outdated(message, sequence, now)

    def skip_to(self, last: int, now: int) -> None:
        """Let the sequences up to `last` be missing here."""
        store = self.store
        missing = last - store.last_seq
        if missing <= 0:
            return
        if store.first_seq > store.last_seq or not store.last_seq:
            store.truncate_front(last + 1)  # nothing is here yet: begin later
        else:
            store.skip(missing, now)

    def after_storing(
        self, first: int, last: int, now: int, subjects: StoredSubjects = None
    ) -> None:
        """Tell the consumers, enforce the limits, and see to the timer.

        Args:
            subjects: of what was stored, None where they are not known.
        """
        self.has_failed = False
        self.consumers.stored(first, last, now, subjects)
        removal = self.removal
        if removal.trimming.is_limited:
            removal.trim(now)
        if self.config.max_age > 0 and now + self.config.max_age < self._alarm.at:
            self._alarm.set(now + self.config.max_age, now)

    def not_stored(self, failure: StoreError) -> ApiError:
        """Return the refusal of a message that the store did not take.

        It is logged once, and not for every message of a full disk.
        """
        if not self.has_failed:
            self.has_failed = True
            text = f"stream '{self.name}': publish not stored: {failure}"
            self._context.log("ERR", text)
        return errors.STREAM_STORE_FAILED(failure.reason)

    # -- what messages ask for -------------------------------------------------------------

    def _note_stored(self, message: Candidate, sequence: int, previous: int, now: int) -> None:
        """See to what the headers of a stored message ask for, and to its copy elsewhere."""
        if message.ttl:
            expiry = self.removal.expiry
            expiry.ttls.record(sequence, message.ttl, now)
            self._alarm.set(expiry.next_deadline(), now + EXPIRY_GRANULARITY_NS)
        self._remember_id(message, sequence, now)
        if self._republisher is not None:
            output, subject, headers = self._context.output, message.subject, message.headers
            self._republisher.publish(
                output, subject, headers, message.payload, sequence, previous, now
            )
        if self.schedules is not None:
            self.schedules.noted(message.subject, message.special, now)
            self._alarm.set(self.schedules.next_deadline(), now + EXPIRY_GRANULARITY_NS)

    def _remember_id(self, message: Candidate, sequence: int, now: int) -> None:
        """Know the message again by its id, if it has one."""
        self.last_message_id = message_id = message.message_id
        if message_id:
            self.dedupe.record(message_id, sequence, now)
            self._arm_window(now)

    def remember_ids(self, first: int, last_message_id: bytes, now: int) -> None:
        """Know the messages again by the ids that `dedupe.take` found new."""
        self.dedupe.keep(first, now)
        self.last_message_id = last_message_id
        self._arm_window(now)

    def _arm_window(self, now: int) -> None:
        """An id was noted: set the alarm for when it is to be forgotten."""
        if now + self.config.duplicate_window < self._alarm.at:
            self._alarm.set(self.dedupe.next_deadline(), now + WINDOW_GRANULARITY_NS)

    def _purge_outdated(self, message: Candidate, sequence: int, now: int) -> None:
        """Remove what a message rolls up, and the schedule that it ends."""
        store, purges = self.store, list[Purged]()
        if message.rollup:
            wanted = store.filter([message.subject]) if message.rollup == b"sub" else None
            purges.append(store.purge(wanted, sequence, 0, gives_way=True))
        if self.schedules is not None and (ended := self.schedules.end(message.special)):
            purges.append(store.purge(store.filter([ended]), 0, 0))
        is_single = sum(purged.messages for purged in purges) == 1
        for purged in purges:
            if purged.messages:
                self.removal.tell_purged(purged.gone, now, is_single=is_single)

    # -- time ------------------------------------------------------------------------------

    def expire(self, now: int, *, has_trimmed: bool = False) -> None:
        """Remove what is over, and store the markers in its place.

        Args:
            has_trimmed: what a turn has time for is removed already of what is beyond the limits.

        Raises:
            StoreError: what is left is for the next time.
        """
        removal = self.removal
        if has_trimmed:
            removal.trim_later(now)
        elif removal.trimming.is_behind:
            removal.trim(now)
        removal.expire(now)
        while sequence := removal.expiry.store_marker(now):
            self.last_message_id = b""
            self.after_storing(sequence, sequence, now)

    def arm_expiry(self, now: int) -> None:
        """Set the alarm for what is over next, and for the schedules that come up."""
        self._alarm.set(self.removal.expiry.next_look(now), now)
        if self.schedules is not None and (due := self.schedules.next_deadline()) is not None:
            is_much = due <= now  # others get their turn before what is left of it
            self._alarm.set(due, now + (_PAUSE_NS if is_much else EXPIRY_GRANULARITY_NS))

    def forget_ids(self, now: int) -> None:
        """Forget the ids whose window is over."""
        self.dedupe.expire(now)
        self._alarm.set(self.dedupe.next_deadline(), now + WINDOW_GRANULARITY_NS)
