"""A consumer: one reader's position in a stream, and what it may send to whom and when.

It ties the parts together: `progress.py` knows what is delivered and acknowledged, `supply.py` what
comes next, `pull.py` or `push.py` who gets it, `ack.py` takes what clients answer, `delivery.py`
encodes, `consumer_files.py` saves. This class owns the subscriptions, the timers and the port that
the stream sees; how consumers are made, changed and restored is `consumer_creation.py`.

Life: `advance` sends what can be sent (once a turn, when woken), `tick` does what has become due.
Both end by saving what changed and arming the next deadline.

Specification: docs/reference/consumers.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.containment import Incident
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.ack import Acks
from jetstream_server.jetstream.consumers.consumer_advisory import ConsumerAdvisories
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.consumer_files import ConsumerFiles
from jetstream_server.jetstream.consumers.consumer_info import consumer_info
from jetstream_server.jetstream.consumers.delivery import Delivery
from jetstream_server.jetstream.consumers.inactivity import Inactivity
from jetstream_server.jetstream.consumers.progress.progress import AckRules, Progress
from jetstream_server.jetstream.consumers.pull import Pull
from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.jetstream.consumers.push import Push
from jetstream_server.jetstream.consumers.supply import Supply
from jetstream_server.jetstream.consumers.terminations import Terminations
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.wire.go_time import ZERO
from jetstream_server.jetstream.wire.name_hash import name_hash
from jetstream_server.store.ports import StateFile
from jetstream_server.structures.deadline_heap import DeadlineHeap
from jetstream_server.structures.sequence_set import SequenceSet

if TYPE_CHECKING:
    from jetstream_server.jetstream.stream import Stream

# How soon a consumer looks again whether a client that was behind has caught up. If it is not only
# behind because its frames wait for a flush, and has not caught up, that is twice as late each
# time: a client that reads again wakes it, and thousands of consumers are not to look every few
# milliseconds whether one that does not read does.
_RETRY_NS = 5 * MILLISECOND
_RETRY_NS_MAX = SECOND
_ANY_SIZE = 1 << 30
_SNAPSHOT_AS_INFO = 4000  # messages of a snapshot that are gone through to tell what is pending
DUE_AT_ONCE = 500  # timers, nearly all of which are those of requests
# They are looked at so many together, and no more if what they say is worth so much, because it
# reaches very many.
DUE_TOGETHER = 20
UNITS_OF_TICK = 60
GIVEN_UP_AT_ONCE = 100  # messages that come due and are not sent again, each with an advisory
EXPIRED_OF_UNIT = 500  # messages that were not acknowledged in time, of the workload


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
        context: what it shares with others of its account.
        created: nanoseconds since the epoch.
        shared: what its parts have in common: config, position and timers.
        files: where it is kept.
        acks: takes what clients acknowledge.
        pull: sends messages to those who ask for them.
        push: sends messages to those who listen, None for a pull consumer.
        paused_until: when delivery goes on; in the past if it is not paused.
        outage: always empty: one that does not serve is replaced by a `HaltedConsumer`.
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
        self.context = context = stream.context
        self.created = created
        self.outage = ""
        self.paused_until = int(config.pause_until or ZERO)
        self.progress = progress
        self.delivery = Delivery(context, stream.name, name, config.headers_only)
        self.advisories = ConsumerAdvisories(context, stream.name, name)
        self._timers: DeadlineHeap[PullRequest | str] = DeadlineHeap()  # of requests, and by name
        self.shared = shared = ConsumerContext(
            stream,
            name,
            config,
            progress,
            self.delivery,
            self.advisories,
            self._timers,
            context.nuid,
            wake=self.wake,
            note_answer=self._note_answer,
            arm=self._arm,
            give_up=self.give_up,
            settle=self.settle,
        )
        self.files = ConsumerFiles(shared, created, files, context.output)
        self.inactivity = Inactivity(shared)
        self._terminations = Terminations(shared)
        self._supply = Supply(shared, self.files)
        self.pull = Pull(shared, self._supply, self.inactivity)
        self.acks = Acks(shared, self.files, self.inactivity, self.pull.request)
        self.push: Push | None = None
        if config.is_push:
            self.push = Push(shared, self._supply, self.inactivity, self.acks.take_last)
        self._is_stopped = False  # it takes no more input, and never will
        self._retry_ns = _RETRY_NS  # after which it looks again for clients that are behind
        self._subscriptions: list[Subscription] = []  # to acks and pulls; end with it

    def __repr__(self) -> str:
        return f"Consumer({self.stream.name}.{self.name})"

    @property
    def name(self) -> str:
        """Return the consumer's name."""
        return self.shared.name

    @property
    def config(self) -> ConsumerConfig:
        """Return its config as it is now."""
        return self.shared.config

    @property
    def internal(self) -> bool:
        """Return whether it is a mirror's or source's (direct) consumer: not listed or counted."""
        return self.config.direct

    # -- life ------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Start listening and delivering."""
        path = f"{self.stream.name}.{self.name}"
        self._subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{path}", self.pull)
        if self.progress.rules.tracks and self.config.ack_policy != "flow_control":
            self._subscribe(f"$JS.ACK.{path}.*.*.*.*.*", self.acks)
            place = f"{self.context.domain or '_'}.{account_hash(self.context.account)}"
            self._subscribe(f"$JS.ACK.{place}.{path}.*.*.*.*.>", self.acks)
        if self.push is not None:
            self.context.watching[self] = None
            if self.config.flow_control:
                self._subscribe(f"$JS.FC.{path}.*", self.push)
        self.inactivity.touch(now)
        if self.push is not None:
            self.push.watch_inactivity(now)
        if self.paused_until > now:
            self._timers.schedule("pause", self.paused_until)
        self.wake()

    def _subscribe(self, subject: str, receiver: Receiver) -> None:
        subscription = Subscription(subject.encode(), receiver)
        self.context.sublist.insert(subscription)
        self._subscriptions.append(subscription)

    def stop(self, ending: Ending, now: int) -> None:
        """Stop for good or for now: waiting pulls are told, subscriptions go, timers end. When the
        consumer is deleted its files go too, and others are told."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self.shared.delivery.end(is_for_good=ending is not Ending.SHUTDOWN)
        self.pull.stop(ending.value, now, tells_rest=ending is Ending.SHUTDOWN)
        for subscription in self._subscriptions:
            self.context.sublist.remove(subscription)
        self.context.deadlines.cancel(self)
        self.context.ready.pop(self, None)
        self.context.reporting.pop(self, None)
        self.context.watching.pop(self, None)
        self.context.blocked.pop(self, None)
        if ending.is_for_good:
            self.files.remove()
            self.advisories.deleted(now)
        else:
            self.files.save_rest()
        if ending is not Ending.SHUTDOWN:
            self.shared.part()

    def give_up(self, incident: Incident, now: int) -> None:
        """Stop, and save nothing: what memory says may be wrong.

        Answers of this turn that report what is not saved yet are withdrawn.
        """
        if self._is_stopped:
            return
        self.files.withdraw()
        try:
            self.stop(Ending.INTERRUPTED, now)
        finally:
            if self.context.outages is not None:
                self.context.outages.give_up_consumer(self, incident, now)

    def delete(self, now: int) -> None:
        """Remove the consumer from its stream."""
        self.stop(Ending.DELETED, now)
        self.stream.remove_consumer(self, now)

    def wake(self) -> None:
        """Have it advanced at the end of this turn."""
        self.context.wake(self)

    def advance(self, now: int) -> None:
        """Deliver what can be delivered now."""
        if self._is_stopped:
            return
        shared, supply = self.shared, self._supply
        if shared.delivery.under_way is not None:
            shared.delivery.go_on()
            self.wake()
            return
        shared.is_blocked = shared.waits_for_flush = False
        output = self.context.output
        delivered_bytes = output.delivered_bytes
        if self.push is not None:
            self.push.advance(now)
        else:
            self.pull.advance(now)
        if shared.is_blocked and not self._is_stopped:
            self.context.blocked[self] = None
            if shared.waits_for_flush or output.delivered_bytes != delivered_bytes:
                self._retry_ns = _RETRY_NS
            self._timers.schedule("retry", now + self._retry_ns)
            self._retry_ns = min(2 * self._retry_ns, _RETRY_NS_MAX)
        else:
            self.context.blocked.pop(self, None)
            self._retry_ns = _RETRY_NS
        if supply.settled:
            # Without acks, what is delivered is done with. It is settled only now, because the
            # store's buffers were read from until now.
            self.settle(supply.settled, now)
            supply.settled = array("Q")
        self.files.end_turn()
        self._arm()

    def _note_answer(self) -> None:
        self.context.reporting[self] = None

    def save_reported(self, now: int) -> None:
        """Save what its answers of this turn report, whether it delivers in this turn or not."""
        if not self._is_stopped:
            self.files.end_turn()

    def tick(self, now: int) -> None:
        """Do what has become due, then schedule the next deadline, which may be now: very many
        requests may wait, each with its time."""
        workload, left = self.context.workload, DUE_AT_ONCE
        enough = workload.used + UNITS_OF_TICK
        while left > 0 and workload.used < enough:
            due = self._timers.pop_due(now, min(DUE_TOGETHER, left))
            if not due:
                break
            left -= len(due)
            for key in due:
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
            self._timers.cancel("ack")
        else:
            self._timers.schedule("ack", deadline)
        next_deadline = self._timers.next_deadline()
        if next_deadline is None:
            self.context.deadlines.cancel(self)
        else:
            self.context.deadlines.schedule(self, next_deadline)

    # -- time ------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Return whether delivery is paused."""
        return self.shared.is_paused

    def _inactive(self, now: int) -> None:
        if self.push is not None:
            is_over = not self.push.has_interest()
        else:
            self.pull.drop_unheard()
            is_used = bool(self.pull.num_waiting or len(self.progress.pending))
            is_over = self.inactivity.check(now, is_used=is_used)
        if is_over:
            self.delete(now)

    def _expire_acks(self, now: int) -> None:
        gives_up = self.config.max_deliver == 1
        due = self.progress.expire(now, GIVEN_UP_AT_ONCE if gives_up else None)
        self.context.workload.spend(len(due) // EXPIRED_OF_UNIT)
        if gives_up:
            for sequence in due:
                self._supply.give_up(sequence, now)
        if due:
            self.files.changed(now)  # a restart keeps the order in which they came due
            self.wake()

    def _resume(self, now: int) -> None:
        self.advisories.paused(self.paused_until, False, now)
        self.wake()

    def _heartbeat(self, now: int) -> None:
        if self.push is not None:
            self.push.heartbeat(now)

    def _wake(self, now: int) -> None:
        self.wake()

    def _save_late(self, now: int) -> None:
        self.files.save_late()

    def _tell_terminations(self, now: int) -> None:
        self._terminations.go_on(now)

    def _unpin(self, now: int) -> None:
        self.pull.unpin("timeout", now)

    def pause(self, until: int, now: int) -> None:
        """Pause delivery until a time; one that has passed resumes."""
        if until != self.paused_until:
            self.advisories.paused(until, until > now, now)
        self.paused_until = until
        if until > now:
            self._timers.schedule("pause", until)
        else:
            self._timers.cancel("pause")
            self.wake()
        self._arm()

    # -- the stream's side -----------------------------------------------------------------

    @property
    def patterns(self) -> Sequence[bytes]:
        """Return the filter subjects; empty for everything."""
        return self.progress.cursor.patterns

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
            self.wake()

    def removed(self, gone: SequenceSet, now: int) -> None:
        """Messages are gone: drop what is pending of them."""
        progress = self.progress
        if progress.is_settled:
            progress.removed(gone)  # the common case: limits trim after every publish
            return
        departure = self._terminations.of(gone)
        known = len(progress.redelivery.counts)
        if taken := progress.removed(gone):
            self.shared.acked_at = now
            self.files.changed(now)
            self.wake()
        elif len(progress.redelivery.counts) < known:  # it had been given up on
            self.files.changed(now)
        self._terminations.tell(departure, taken, now)

    def purged(self, first_seq: int, gone: SequenceSet, now: int, *, is_single: bool) -> None:
        """The stream was purged, perhaps of single subjects.

        Args:
            first_seq: where it begins now.
            gone: what went.
            is_single: one message went, because of its subject or because others were kept. The
                genuine server reports that like a deletion; it does not report any other purge.
        """
        progress = self.progress
        is_passed = first_seq <= progress.floor_stream_seq + 1  # what is below the first message
        if progress.is_settled:
            # Thousands of consumers that wait for nothing may hear of each message rolled up.
            if gone and (is_passed or progress.cursor.has_snapshot):
                progress.cursor.removed(gone)
            if not is_passed:
                progress.begin_at(first_seq)
                self.files.changed(now)
            return
        departure = self._terminations.of(gone) if is_single else None
        known = len(progress.redelivery.counts)
        taken = progress.removed(gone, by_purge=True)
        taken += progress.purged(first_seq)
        if taken:
            self.shared.acked_at = now
            self.wake()
        if taken or not is_passed or len(progress.redelivery.counts) < known:
            self.files.changed(now)
        self._terminations.tell(departure, taken, now)

    def settle(self, sequences: array[int], now: int) -> None:
        """Let the stream remove what this consumer is done with."""
        retention = self.stream.config.retention
        if not sequences or retention == "limits":
            return
        self.stream.removal.settle(self, sequences)
        if retention == "workqueue" and len(self.stream.consumers) > 1:
            self._tell_copiers(sequences, now)

    def _tell_copiers(self, sequences: array[int], now: int) -> None:
        """Of a work queue a mirror or source may have the same messages as another consumer: what
        one of the two has settled is gone for the other."""
        everybody = self.stream.consumers
        concerned = everybody.values() if self.config.sourcing else everybody.copiers(_copies)
        others = [each for each in concerned if each is not self and isinstance(each, Consumer)]
        if not others:
            return
        gone = SequenceSet.of(sorted(sequences))
        for each in others:
            each.removed(gone, now)

    # -- description -----------------------------------------------------------------------

    @property
    def info_cost(self) -> int:
        """Return how many others could be described in the time that it takes now."""
        return 1 + self.progress.cursor.unsettled // _SNAPSHOT_AS_INFO

    def info(self, now: int) -> dict[str, Any]:
        """Return ConsumerInfo as STREAM.INFO and CONSUMER.INFO show it, without `type`.

        Asking for it ends those requests to whose replies nobody listens, as in the genuine server.
        """
        self.pull.drop_unheard()
        return consumer_info(
            self.shared, self.created, self.pull, self.push, self.paused_until, now
        )


_DUE = {
    "ack": Consumer._expire_acks,
    "heartbeat": Consumer._heartbeat,
    "inactive": Consumer._inactive,
    "pace": Consumer._wake,
    "pause": Consumer._resume,
    "pin": Consumer._unpin,
    "retry": Consumer._wake,
    "save": Consumer._save_late,
    "terminations": Consumer._tell_terminations,
}


def account_hash(account: str) -> str:
    """Return the name of an account in ack subjects of the longer form.

    See docs/reference/consumers.md#delivery.
    """
    return name_hash(account)


def _copies(consumer: StreamConsumer) -> bool:
    return isinstance(consumer, Consumer) and consumer.config.sourcing
