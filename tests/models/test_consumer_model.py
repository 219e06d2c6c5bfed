"""A consumer against a dictionary that says, for each message, what has become of it.

Pull and push, every ack policy, on a stream of every retention. Rules deliver, acknowledge, refuse,
terminate, prolong, let time pass, publish, delete, purge, listen and restart. After each step the
consumer's counters must be those of the dictionary, neither floor may have gone back, and an
interest or work queue stream must hold what the consumer still needs and nothing else. Who gets
what when several requests wait is `test_pull_queue_model.py`.
"""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig, with_defaults
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer, restore_consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.output import Frames, Output
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryFolder

ACK_WAIT = SECOND
SUBJECTS = (b"s.wanted", b"s.other")


class Client:
    """Takes frames by way of the output; nothing is routed to it."""

    headers = True
    backlog_bytes = 0


class Fate:
    """One wanted message: new, pending, settled, given up or gone."""

    def __init__(self) -> None:
        self.state = "new"
        self.deliveries = 0
        self.consumer_seq = 0  # of the last delivery
        self.deadline = 0
        self.is_queued = False


class ConsumerMachine(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from(["explicit", "explicit", "all", "none"]),
        is_push=st.booleans(),
        retention=st.sampled_from(["limits", "limits", "interest", "workqueue"]),
        max_deliver=st.sampled_from([-1, 1, 2, 3]),
        backoff=st.sampled_from([[], [], [200 * MILLISECOND], [300 * MILLISECOND, SECOND]]),
        max_ack_pending=st.sampled_from([-1, 1, 4]),
        is_filtered=st.booleans(),
        headers_only=st.booleans(),
    )
    def start(
        self,
        policy,
        is_push,
        retention,
        max_deliver,
        backoff,
        max_ack_pending,
        is_filtered,
        headers_only,
    ):
        self.now = 1_700_000_000 * SECOND
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.context = Context("$G", "S", "", self.sublist, self.output, Nuid(Random(1)))
        fields = {"name": "S", "subjects": ["s.>"], "storage": "memory", "retention": retention}
        config = with_defaults(StreamConfig(**fields))
        folder = MemoryFolder(0)
        self.stream = Stream(self.context, config, self.now, folder, folder.messages(), self.now)
        self.client = Client()
        self.sublist.insert(Subscription(b"in", self.client, sid=b"1", outlet=self.client))
        self.listening = None
        self.policy = "explicit" if retention == "workqueue" else policy
        self.tracks = self.policy != "none"
        self.is_push, self.retention, self.is_filtered = is_push, retention, is_filtered
        self.max_deliver = max_deliver if self.tracks else -1
        self.max_ack_pending = max_ack_pending if self.tracks else -1
        self.waits = [ACK_WAIT]
        if self.tracks and not 0 < self.max_deliver < len(backoff):
            self.waits = backoff or self.waits
        requested = ConsumerConfig(
            durable_name="C",
            ack_policy=self.policy,
            ack_wait=ACK_WAIT if self.tracks else 0,
            backoff=self.waits if self.waits != [ACK_WAIT] else [],
            max_deliver=self.max_deliver,
            max_ack_pending=self.max_ack_pending if self.tracks else 0,
            filter_subject="s.wanted" if is_filtered else "",
            deliver_subject="out" if is_push else "",
            headers_only=headers_only,
        )
        self.consumer = create_consumer(self.stream, requested, self.now)
        self.fates: dict[int, Fate] = {}
        self.unwanted: set[int] = set()
        self.subjects: dict[int, bytes] = {}
        self.queue: list[int] = []
        self.consumer_seq = 0
        self.floors = (0, 0)
        self.publish_all([False] * 5)

    # -- the twin --------------------------------------------------------------------------

    def in_state(self, state):
        return [seq for seq, fate in self.fates.items() if fate.state == state]

    def leave(self, sequence, state):
        fate = self.fates[sequence]
        fate.state = state
        fate.is_queued = False
        if sequence in self.queue:
            self.queue.remove(sequence)

    def expected_delivery(self, wanted):
        """Return the sequences that a request for so many messages gets."""
        expected = []
        while len(expected) < wanted and self.queue:
            sequence = self.queue[0]
            fate = self.fates[sequence]
            if 0 < self.max_deliver <= fate.deliveries:
                self.leave(sequence, "given up")
                continue
            self.queue.pop(0)
            fate.is_queued = False
            expected.append(sequence)
        if len(expected) < wanted or not self.queue:
            for sequence in sorted(self.in_state("new")):
                is_full = 0 <= self.max_ack_pending <= len(self.in_state("pending"))
                if len(expected) == wanted or is_full:
                    break
                self.fates[sequence].state = "pending"
                expected.append(sequence)
        for sequence in expected:
            fate = self.fates[sequence]
            fate.deliveries += 1
            fate.deadline = self.now + self.wait(fate)
            if not self.tracks:
                self.leave(sequence, "settled")
        return expected

    def wait(self, fate):
        """Return how long the ack of a delivered message is waited for."""
        return self.waits[min(fate.deliveries, len(self.waits)) - 1] + MILLISECOND

    # -- rules -----------------------------------------------------------------------------

    @rule(choices=st.lists(st.booleans(), min_size=1, max_size=6))
    def publish(self, choices):
        self.publish_all(choices)

    def publish_all(self, choices):
        messages = [(SUBJECTS[choice], b"", b"", b"") for choice in choices]
        run = PubRun.of(messages)
        first = self.stream.store.last_seq + 1
        self.stream.receive(Stretch.of_server(run, None, self.now))
        for at, choice in enumerate(choices):
            self.subjects[first + at] = SUBJECTS[choice]
            if not (choice and self.is_filtered):
                self.fates[first + at] = Fate()
            elif self.retention != "interest":
                self.unwanted.add(first + at)
        self.settle_turn()

    @precondition(lambda self: not self.is_push)
    @rule(batch=st.integers(1, 8))
    def pull(self, batch):
        self.consumer.pull.request(b"in", b'{"batch":%d,"no_wait":true}' % batch, self.now)
        self.settle_turn(batch)
        self.consumer.pull.stop(b"", self.now)

    @precondition(lambda self: self.is_push)
    @rule()
    def listen(self):
        """Begin to listen on the deliver subject, or end it."""
        if self.listening is None:
            self.listening = Subscription(b"out", self.client, sid=b"2", outlet=self.client)
            self.sublist.insert(self.listening)
        else:
            self.sublist.remove(self.listening)
            self.listening = None
        self.settle_turn()

    def check(self, delivered, expected):
        assert [sequence for _, sequence, _ in delivered] == expected
        for deliveries, sequence, consumer_seq in delivered:
            self.consumer_seq += 1
            assert consumer_seq == self.consumer_seq
            assert deliveries == self.fates[sequence].deliveries
            self.fates[sequence].consumer_seq = consumer_seq
            assert not 0 < self.max_deliver < deliveries

    @precondition(lambda self: self.fates and self.tracks)
    @rule(data=st.data())
    def ack(self, data):
        some = st.lists(st.sampled_from(sorted(self.fates)), min_size=1, max_size=6)
        sequences = data.draw(some)
        self.tell(sequences, b"")
        if self.policy == "all":
            last = max(set(sequences).intersection(self.in_state("pending")), default=0)
            for sequence in self.in_state("pending"):
                if sequence <= last:
                    self.leave(sequence, "settled")
        else:
            for sequence in sequences:
                if self.fates[sequence].state in ("pending", "given up"):
                    self.leave(sequence, "settled")
        self.settle_turn()

    @precondition(lambda self: self.fates and self.tracks)
    @rule(data=st.data(), delay=st.sampled_from([b"", b" 300ms"]))
    def nak(self, data, delay):
        sequence = self.some_sequence(data)
        self.tell([sequence], b"-NAK" + delay)
        fate = self.fates[sequence]
        if fate.state == "pending":
            if delay:
                self.leave(sequence, "pending")
                fate.deadline = self.now + 300 * MILLISECOND
            elif not fate.is_queued:
                self.queue.append(sequence)
                fate.is_queued = True
        self.settle_turn()

    @precondition(lambda self: self.fates and self.tracks)
    @rule(data=st.data())
    def work_in_progress(self, data):
        sequence = self.some_sequence(data)
        self.tell([sequence], b"+WPI")
        fate = self.fates[sequence]
        if fate.state == "pending":
            self.leave(sequence, "pending")
            fate.deadline = self.now + self.wait(fate)
        self.settle_turn()

    @precondition(lambda self: self.fates and self.tracks)
    @rule(data=st.data())
    def terminate(self, data):
        sequence = self.some_sequence(data)
        self.tell([sequence], b"+TERM")
        if self.fates[sequence].state == "pending":
            self.leave(sequence, "settled")
        self.settle_turn()

    @rule(milliseconds=st.sampled_from([1001, 2500, 301, 299, 1]))
    def time_passes(self, milliseconds):
        until = self.now + milliseconds * MILLISECOND
        while (due := self.context.deadlines.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.expire()
            self.settle_turn()
        self.now = until
        self.expire()
        self.settle_turn()

    def expire(self):
        for sequence in sorted(self.in_state("pending")):
            fate = self.fates[sequence]
            if fate.deadline <= self.now and not fate.is_queued:
                if self.max_deliver == 1:
                    self.leave(sequence, "given up")
                else:
                    fate.is_queued = True
                    self.queue.append(sequence)

    @precondition(lambda self: self.stream.store.state().messages)
    @rule(data=st.data())
    def delete_message(self, data):
        state = self.stream.store.state()
        sequence = data.draw(st.integers(state.first_seq, state.last_seq))
        if self.stream.store.load(sequence) is not None:
            self.stream.delete_message(sequence, False, self.now)
            self.forget([sequence])
        self.settle_turn()

    @rule(data=st.data(), pattern=st.sampled_from([b"", *SUBJECTS]))
    def purge(self, data, pattern):
        below = data.draw(st.integers(0, self.stream.store.last_seq + 1))
        self.stream.purge(pattern, below, 0, self.now)
        self.forget(
            seq for seq in {*self.fates, *self.unwanted}
            if (not below or seq < below) and pattern in (b"", self.subjects[seq])
        )  # fmt: skip
        self.settle_turn()

    def forget(self, gone):
        sequences = list(gone)
        self.unwanted.difference_update(sequences)
        for sequence in sequences:
            if sequence in self.fates:
                self.leave(sequence, "gone")
                del self.fates[sequence]

    @rule()
    def restart(self):
        self.consumer.stop(Ending.SHUTDOWN, self.now)
        self.stream.consumers.clear()
        files = self.stream.folder.consumer("C")
        self.consumer = restore_consumer(self.stream, "C", files, self.now)
        self.settle_turn()

    # -- the machinery ---------------------------------------------------------------------

    def some_sequence(self, data):
        """Draw a sequence, mostly of what is pending."""
        pending = self.in_state("pending")
        return data.draw(st.sampled_from(pending * 3 + sorted(self.fates)))

    def tell(self, sequences, body):
        """Answer deliveries; nothing goes out before the turn is settled."""
        subject = b"$JS.ACK.S.C.1.%d.%d.1.0"
        messages = [
            (subject % (seq, self.fates[seq].consumer_seq), b"", b"", body) for seq in sequences
        ]
        run = PubRun.of(messages)
        self.consumer.acks.receive(Stretch.of_server(run, None, self.now))

    def settle_turn(self, wanted=0):
        """Let a turn pass, in which so many messages are asked for; check what is sent."""
        delivered = self.turn()
        if self.listening is not None:
            wanted = 1 << 30
        self.check(delivered, self.expected_delivery(wanted) if wanted else [])

    def turn(self):
        """Let a turn pass; return (deliveries, stream sequence, consumer sequence) sent."""
        self.context.notice_interest()
        for scheduled in self.context.deadlines.pop_due(self.now):
            scheduled.tick(self.now)
        while self.context.ready:
            ready = list(self.context.ready)
            self.context.ready.clear()
            for runnable in ready:
                runnable.advance(self.now)
        delivered = []
        for send in self.output.sends_after_flush:
            if isinstance(send, Frames):
                for line in send.data.split(b"\r\n"):
                    if line.startswith((b"MSG ", b"HMSG ")):
                        numbers = line.split(b" ")[3].split(b".")[4:7]
                        delivered.append(tuple(int(number) for number in numbers))
        self.output.sends_after_flush.clear()
        return delivered

    @invariant()
    def counters_agree(self):
        info = self.consumer.info(self.now)
        pending = self.in_state("pending")
        assert info["num_ack_pending"] == len(pending)
        assert [seq for seq, _ in self.consumer.progress.pending] == sorted(pending)
        assert info["num_pending"] == len(self.in_state("new"))
        assert info["delivered"]["consumer_seq"] == self.consumer_seq
        redelivered = [
            seq for seq, fate in self.fates.items()
            if fate.deliveries > 1 and fate.state in ("pending", "given up")
        ]  # fmt: skip
        assert info["num_redelivered"] == len(redelivered)

    @invariant()
    def the_stream_holds_what_is_needed(self):
        held = {seq for seq in range(1, self.stream.store.last_seq + 1) if self.is_stored(seq)}
        kept = [
            seq for seq, fate in self.fates.items()
            if self.retention == "limits" or fate.state != "settled"
        ]  # fmt: skip
        assert held == {*kept, *self.unwanted}

    def is_stored(self, sequence):
        return self.stream.store.load(sequence) is not None

    @invariant()
    def floors_never_go_back(self):
        progress = self.consumer.progress
        floors = progress.floor_consumer_seq, progress.floor_stream_seq
        assert floors[0] >= self.floors[0]
        assert floors[1] >= self.floors[1]
        assert floors[0] <= progress.consumer_seq
        assert not [seq for seq in self.in_state("pending") if seq <= floors[1]]
        self.floors = floors


TestConsumer = ConsumerMachine.TestCase
TestConsumer.settings = settings(stateful_step_count=40, deadline=None)
