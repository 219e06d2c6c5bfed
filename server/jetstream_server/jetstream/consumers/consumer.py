"""A consumer: one reader's position in a stream, and what it may send to whom and when.

It ties the parts together: `progress.py` knows what is delivered and acknowledged, `pull.py` or
`push.py` who gets the next messages, `ack.py` takes what clients answer, `delivery.py` encodes.
This class owns the timers, the files and the ports that the stream sees; how consumers are made,
changed and restored is `consumer_creation.py`.

Life: `advance` sends what can be sent (once a turn, when woken), `tick` does what has become due.
Both end by saving what changed and arming the next deadline. Progress changed by an ack that wants
an answer is queued for the disk before the answer can leave (`output.py`); other progress may be
saved up to `_SAVE_NS` late, and after a crash those messages come again.

Specification: docs/reference/consumers.md.
"""

from __future__ import annotations

from array import array
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetstream_server import API_LEVEL
from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.nuid import DIGITS
from jetstream_server.core.containment import Incident
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.jetstream.consumers.ack import Acks
from jetstream_server.jetstream.consumers.consumer_advisory import ConsumerAdvisories
from jetstream_server.jetstream.consumers.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer_info import consumer_info
from jetstream_server.jetstream.consumers.consumer_state import encode_state
from jetstream_server.jetstream.consumers.delivery import Batch, Delivery
from jetstream_server.jetstream.consumers.pacing import OriginalPace
from jetstream_server.jetstream.consumers.progress import AckRules, Progress
from jetstream_server.jetstream.consumers.pull import Pull
from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.jetstream.consumers.push import Push
from jetstream_server.jetstream.consumers.selection import (
    chosen_window,
    missing,
    missing_below,
    shortened,
)
from jetstream_server.jetstream.output import Send
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import ZERO, format_time
from jetstream_server.jetstream.wire.name_hash import name_hash
from jetstream_server.store.ports import StateFile, Window
from jetstream_server.structures.deadline_heap import DeadlineHeap

if TYPE_CHECKING:
    from jetstream_server.jetstream.streams.stream import Stream

# The genuine server writes a consumer's state at most this often.
_SAVE_NS = 100 * MILLISECOND
# How soon a consumer looks again whether a client that was behind has caught up.
_RETRY_NS = 5 * MILLISECOND
# Spread of the removal of idle pull consumers, so that many do not go at once.
_JITTER_NS_MIN = 100 * MILLISECOND
_JITTER_NS_MAX = 1000 * MILLISECOND
_DELETED_TEXT = "Unacknowledged message was deleted"
_ANY_SIZE = 1 << 30
# What readers are told when what they read from is given up for a while: they know it of a leader
# that moves, and ask again.
INTERRUPTED = "409 Leadership Change"


@dataclass(slots=True)
class Offer:
    """What could go out next: the cursor's window, or one message again."""

    window: Window
    is_redelivery: bool


def ack_rules(config: ConsumerConfig) -> AckRules:
    """Return the part of a config that governs acknowledgement."""
    return AckRules(
        tracks=config.ack_policy != "none",
        # Acks of a `flow_control` consumer count for everything before them.
        cumulative=config.ack_policy in ("all", "flow_control"),
        ack_wait_ns=config.ack_wait or _ANY_SIZE * 1_000_000_000,
        backoff_ns=tuple(config.backoff),
        max_deliver=config.max_deliver,
        max_ack_pending=config.max_ack_pending,
    )


class Consumer:
    """One consumer of a stream.

    Attributes:
        stream: the stream it reads.
        name: its name, generated or given.
        config: as stored, defaults filled in.
        created: nanoseconds since the epoch.
        progress: what is delivered and acknowledged.
        delivery: the way out.
        timers: deadlines by what is due: a pull request, or a word.
        outage: empty, as it serves.
        has_state_file: its state is in a file of its own, and not with its config.
        blocked: it would send more, but a client does not read; to be woken when that drains.
    """

    def __init__(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        created: int,
        progress: Progress,
        files: tuple[StateFile, StateFile] | None,
    ) -> None:
        self.stream = stream
        self.context = stream.context
        self._name = name
        self.config = config
        self.created = created
        self.progress = progress
        self.delivery = Delivery(self.context, stream.name, name, config.headers_only)
        self.advisories = ConsumerAdvisories(self.context, stream.name, name)
        self.timers: DeadlineHeap[PullRequest | str] = DeadlineHeap()
        self.outage = ""
        self.blocked = False
        self.paused_until = int(config.pause_until or ZERO)
        self.files = files
        self.has_state_file = False
        self.delivered_at = 0
        self.acked_at = 0
        self._is_stopped = False
        self._is_unsaved = False
        self._must_save_now = False
        self._unsaved_answers: list[Send] = []
        self._delivered: array[int] = array("Q")
        self._pace: OriginalPace | None = None
        if config.replay_policy == "original":
            self._pace = OriginalPace(stream.store.last_seq)
        self.pull = Pull(self)
        self.push = Push(self) if config.is_push else None
        self.acks = Acks(self)
        self._subscriptions: list[Subscription] = []

    def __repr__(self) -> str:
        return f"Consumer({self.stream.name}.{self._name})"

    @property
    def name(self) -> str:
        """Return the consumer's name."""
        return self._name

    @property
    def internal(self) -> bool:
        """Return whether it is a mirror's or source's (direct) consumer: not listed or counted."""
        return self.config.direct

    # -- life ------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Begin to listen and deliver."""
        path = f"{self.stream.name}.{self._name}"
        self._subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{path}", self.pull)
        if self.progress.rules.tracks:
            self._subscribe(f"$JS.ACK.{path}.*.*.*.*.*", self.acks)
            place = f"{self.context.domain or '_'}.{account_hash(self.context.account)}"
            self._subscribe(f"$JS.ACK.{place}.{path}.*.*.*.*.>", self.acks)
        if self.push is not None:
            self.context.watching[self] = None
            if self.config.flow_control:
                self._subscribe(f"$JS.FC.{path}.*", self.push)
        self.touch(now)
        if self.push is not None:
            self.push.watch_inactivity(now)
        if self.paused_until > now:
            self.timers.schedule("pause", self.paused_until)
        self.context.wake(self)

    def _subscribe(self, subject: str, receiver: Receiver) -> None:
        subscription = Subscription(subject.encode(), receiver)
        self.context.sublist.insert(subscription)
        self._subscriptions.append(subscription)

    def stop(self, status: str, now: int) -> None:
        """Stop for good or for shutdown: waiting pulls get `status`, subscriptions go, timers
        end. With `409 Consumer Deleted` the deletion is announced."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self.pull.stop(status.encode())
        for subscription in self._subscriptions:
            self.context.sublist.remove(subscription)
        self.context.deadlines.cancel(self)
        self.context.ready.pop(self, None)
        self.context.watching.pop(self, None)
        if status.endswith("Deleted"):
            if self.files is not None:
                for file in self.files:
                    file.remove()
            self.advisories.deleted(now)
        elif self._is_unsaved:
            self._save(lazily=False)

    def give_up(self, incident: Incident, now: int) -> None:
        """Stop, and save nothing: what memory says may be wrong.

        Answers of this turn that tell of what is not saved yet are withdrawn.
        """
        if self._is_stopped:
            return
        self._is_unsaved = False
        self.context.output.withdraw(self._unsaved_answers)
        self._unsaved_answers.clear()
        try:
            self.stop(INTERRUPTED, now)
        finally:
            if self.context.outages is not None:
                self.context.outages.give_up_consumer(self, incident, now)

    def delete(self, now: int) -> None:
        """Remove the consumer from its stream."""
        self.stop("409 Consumer Deleted", now)
        self.stream.remove_consumer(self, now)

    def advance(self, now: int) -> None:
        """Deliver what can be delivered now."""
        if self._is_stopped:
            return
        self.blocked = False
        if self.push is not None:
            self.push.advance(now)
        else:
            self.pull.advance(now)
        if self.blocked:
            # The client's connection wakes it when it drains; what waits for a flush does not.
            self.timers.schedule("retry", now + _RETRY_NS)
        if self._delivered:
            # Delivered is as good as acknowledged here; only now nobody reads from the store's
            # buffers any more.
            self.settle(self._delivered, now)
            self._delivered = array("Q")
        if self._must_save_now:
            self._save(lazily=False)
        self._unsaved_answers.clear()
        self._arm()

    def tick(self, now: int) -> None:
        """Do what has become due, then schedule the next deadline."""
        for key in self.timers.pop_due(now):
            if isinstance(key, PullRequest):
                self.pull.tick(key, now)
            else:
                _DUE[key](self, now)
            if self._is_stopped:
                return
        self._arm()

    def _arm(self) -> None:
        deadline = self.progress.next_deadline()
        if deadline is None:
            self.timers.cancel("ack")
        else:
            self.timers.schedule("ack", deadline)
        next_deadline = self.timers.next_deadline()
        if next_deadline is None:
            self.context.deadlines.cancel(self)
        else:
            self.context.deadlines.schedule(self, next_deadline)

    # -- what can go out -------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Return whether delivery is paused."""
        return "pause" in self.timers

    def count_available(self, now: int) -> int:
        """Return how many messages there are to send, 0 when none may go now.

        Messages that were out as often as allowed are given up on the way, whoever waits.
        """
        if self.is_paused:
            return 0
        progress = self.progress
        redelivery, cursor = progress.redelivery, progress.cursor
        while (run := redelivery.next_run(1)) and progress.is_exhausted(run[0]):
            self._give_up(run[0], now)
        cursor.pass_unwanted()
        return redelivery.queued + (cursor.num_pending() if progress.room else 0)

    def peek(self, count_max: int, bytes_max: int, now: int) -> Offer | None:
        """Return what may go out next, None when nothing may: redeliveries come first."""
        if self.is_paused:
            return None
        again = self._next_redelivery(count_max, bytes_max, now)
        if again is not None:
            return Offer(again, True)
        count_max = min(count_max, self.progress.room)
        if count_max <= 0:
            return None
        window = self.progress.cursor.window(count_max, bytes_max)
        if window is None:
            return None
        if self._pace is not None:
            count, again_at = self._pace.allowed(window, now)
            if not count:
                self.timers.schedule("pace", again_at)
                return None
            if count < len(window):
                window = shortened(window, count)
        return Offer(window, False)

    def _next_redelivery(self, count_max: int, bytes_max: int, now: int) -> Window | None:
        progress = self.progress
        while run := progress.redelivery.next_run(count_max):
            if progress.is_exhausted(run[0]):
                for sequence in run:
                    self._give_up(sequence, now)
                continue
            window = chosen_window(self.stream.store, run, bytes_max)
            for sequence in missing_below(run, window):
                progress.removed(sequence, sequence + 1)
                self.changed(now)
            if len(window):
                return window
        return None

    def _give_up(self, sequence: int, now: int) -> None:
        deliveries = self.progress.redelivery.deliveries(sequence)
        self.progress.exhaust(sequence)
        self.advisories.exhausted(sequence, deliveries, now)
        self.changed(now)

    def preview(self, offer: Offer, count: int) -> Batch:
        """Return the first `count` messages of an offer as they would be sent now."""
        progress, window = self.progress, offer.window
        first, pending = progress.consumer_seq + 1, progress.cursor.num_pending()
        if offer.is_redelivery:
            delivered = progress.redelivery.deliveries(window.sequences[0]) + 1
            return Batch(window, count, delivered, first, pending, is_falling=False)
        return Batch(window, count, 1, first, max(pending - 1, 0))

    def take(self, offer: Offer, count: int, now: int) -> Batch:
        """Count the first `count` messages of an offer as delivered; they must be sent."""
        progress, window = self.progress, offer.window
        batch = self.preview(offer, count)
        self.delivered_at = now
        if offer.is_redelivery:
            progress.redeliver(window.sequences[:count], now)
        else:
            progress.deliver(window, count, now)
            if self._pace is not None:
                self._pace.sent(window, count, now)
            if not progress.rules.tracks and self.stream.config.retention != "limits":
                self._delivered += window.sequences[:count]
        if self.push is not None:
            self.push.restart_heartbeat(now)
        self.changed(now)
        return batch

    def send_heartbeat(self, subject: bytes, fields: bytes = b"") -> None:
        """Tell a client how far it should have come."""
        fields = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n%b" % (
            self.progress.consumer_seq,
            self.progress.stream_seq,
            fields,
        )
        self.delivery.status(subject, b"100 Idle Heartbeat", fields)

    def offers_level(self, level: bytes) -> bool:
        """Tell whether a request's required API level is offered."""
        try:
            return int(level or b"0") <= API_LEVEL
        except ValueError:
            return False

    # -- time ------------------------------------------------------------------------------

    def touch(self, now: int) -> None:
        """Somebody uses the consumer: the time to its removal for inactivity starts anew."""
        threshold = self.config.inactive_threshold
        if threshold > 0 and self.push is None and "inactive" not in self.timers:
            self.timers.schedule("inactive", now + threshold + self._jitter())
            self._arm()
        self.pull.active_at = now

    def _jitter(self) -> int:
        spread = DIGITS.index(self.context.nuid.short(1)) / (len(DIGITS) - 1)
        return _JITTER_NS_MIN + int(spread * (_JITTER_NS_MAX - _JITTER_NS_MIN))

    def _inactive(self, now: int) -> None:
        threshold = self.config.inactive_threshold
        if self.push is not None:
            if not self.push.has_interest():
                self.delete(now)
            return
        idle_until = self.pull.active_at + threshold
        is_used = self.pull.num_waiting() or len(self.progress.pending)
        if is_used or idle_until > now:
            wait = threshold if is_used else idle_until - now
            self.timers.schedule("inactive", now + wait + self._jitter())
            return
        self.delete(now)

    def _expire_acks(self, now: int) -> None:
        due = self.progress.expire(now)
        if self.config.max_deliver == 1:
            for sequence in due:
                self._give_up(sequence, now)
        if due:
            self.changed(now)  # a restart keeps the order in which they came due
            self.context.wake(self)

    def _resume(self, now: int) -> None:
        self.advisories.paused(self.paused_until, False, now)
        self.context.wake(self)

    def _heartbeat(self, now: int) -> None:
        if self.push is not None:
            self.push.heartbeat(now)

    def _wake(self, now: int) -> None:
        self.context.wake(self)

    def _unpin(self, now: int) -> None:
        self.pull.unpin("timeout", now)

    def pause(self, until: int, now: int) -> None:
        """Pause delivery until a time; one that has passed resumes."""
        if until != self.paused_until:
            self.advisories.paused(until, until > now, now)
        self.paused_until = until
        if until > now:
            self.timers.schedule("pause", until)
        else:
            self.timers.cancel("pause")
            self.context.wake(self)
        self._arm()

    # -- state -----------------------------------------------------------------------------

    def changed(self, now: int, *, must_precede_answer: bool = False) -> None:
        """Progress changed: save it before an answer that tells of it, or else before long."""
        if self.files is None:
            return
        self._is_unsaved = True
        if must_precede_answer:
            # One save at the end of the turn serves every answer of the turn.
            self._must_save_now = True
            self.context.wake(self)
        elif "save" not in self.timers:
            self.timers.schedule("save", now + _SAVE_NS)

    def answer(self, reply: bytes) -> None:
        """Answer an ack; not before what it changed is saved."""
        self._unsaved_answers.append(self.context.output.publish(reply, b""))

    def save(self) -> None:
        """Queue the progress for the disk now."""
        self._save(lazily=False)

    def _save_late(self, now: int) -> None:
        if self._is_unsaved:
            self._save(lazily=True)

    def _save(self, *, lazily: bool) -> None:
        self._is_unsaved = self._must_save_now = False
        self._unsaved_answers.clear()
        self.timers.cancel("save")
        if self.files is not None:
            self.files[1].save(encode_state(self.progress), lazily=lazily)
            self.has_state_file = True

    def save_config(self) -> None:
        """Queue the config for the disk, and the state with it."""
        if self.files is None:
            return
        stored = {
            "name": self._name,
            "created": format_time(self.created),
            "config": self.config.to_wire(),
        }
        if self.has_state_file:
            self.files[0].save(encode(stored))
            self._save(lazily=False)
            return
        # Both in one file, for a second one takes two syncs more.
        stored["state"] = b64encode(encode_state(self.progress)).decode()
        self._is_unsaved = self._must_save_now = False
        self._unsaved_answers.clear()
        self.timers.cancel("save")
        self.files[0].save(encode(stored))

    # -- the stream's side -----------------------------------------------------------------

    def wants(self, subject: bytes) -> bool:
        """Tell whether the filter matches the subject."""
        return self.progress.cursor.wants(subject)

    def needs(self, sequence: int, subject: bytes) -> bool:
        """Tell whether a stored message is still to be delivered to or acknowledged by this
        consumer."""
        if not self.wants(subject):
            return False
        progress = self.progress
        if not progress.cursor.has_passed(sequence):
            return sequence > progress.floor_stream_seq
        return sequence in progress.pending

    def stored(self, first_seq: int, last_seq: int, now: int) -> None:
        """Messages were stored (or sequences skipped); wake up if they matter."""
        if self.push is not None or self.pull.is_waiting:
            self.context.wake(self)

    def removed(self, ranges: list[tuple[int, int]], now: int) -> None:
        """Messages in these half-open sequence ranges are gone: drop what is pending of them."""
        progress = self.progress
        if not progress.pending and not progress.redelivery.counts:
            # The common case where limits trim behind every publish.
            progress.cursor.removed(min(ranges)[0], max(stop for _, stop in ranges))
            return
        is_heard = self.advisories.wants_terminations()
        for start, stop in ranges:
            gone = [
                (consumer_seq, sequence, progress.redelivery.deliveries(sequence))
                for sequence, consumer_seq in (
                    progress.pending.within(start, stop) if is_heard else ()
                )
            ]
            known = len(progress.redelivery.counts)
            if progress.removed(start, stop):
                self.acked_at = now
                self.changed(now)
                self.context.wake(self)
            elif len(progress.redelivery.counts) < known:  # it had been given up on
                self.changed(now)
            for consumer_seq, sequence, deliveries in gone:
                self.advisories.terminated(consumer_seq, sequence, deliveries, _DELETED_TEXT, now)

    def purged(self, first_seq: int, last_seq: int, now: int, *, is_single: bool) -> None:
        """The stream was purged, perhaps of single subjects; its new bounds are given.

        Args:
            is_single: one message went, of a subject or to keep others. Of it the genuine server
                tells as if it had been deleted, of more or of another purge it does not.
        """
        progress = self.progress
        known = {*progress.pending.sequences(), *progress.redelivery.counts}
        gone = missing(self.stream.store, array("Q", sorted(known)))
        told = [
            (consumer_seq, sequence, progress.redelivery.deliveries(sequence))
            for sequence in (gone if is_single else ())
            if (consumer_seq := progress.pending.consumer_seq(sequence))
        ]
        taken = progress.purged(first_seq)
        if progress.lost(gone) or taken:
            self.acked_at = now
        for consumer_seq, sequence, deliveries in told:
            self.advisories.terminated(consumer_seq, sequence, deliveries, _DELETED_TEXT, now)
        self.changed(now)
        self.context.wake(self)

    def settle(self, sequences: array[int], now: int) -> None:
        """Let the stream remove what this consumer is done with."""
        if sequences and self.stream.config.retention != "limits":
            self.stream.settle(self, sequences, now)

    # -- description -----------------------------------------------------------------------

    def info(self, now: int) -> dict[str, Any]:
        """Return ConsumerInfo as STREAM.INFO and CONSUMER.INFO show it, without `type`."""
        return consumer_info(self, now)


_DUE = {
    "ack": Consumer._expire_acks,
    "heartbeat": Consumer._heartbeat,
    "inactive": Consumer._inactive,
    "pace": Consumer._wake,
    "pause": Consumer._resume,
    "pin": Consumer._unpin,
    "retry": Consumer._wake,
    "save": Consumer._save_late,
}


def account_hash(account: str) -> str:
    """Return how ack subjects of the longer form name an account.

    See docs/reference/consumers.md#delivery.
    """
    return name_hash(account)
