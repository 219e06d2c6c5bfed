"""Waiting pull requests against a twin that serves one message at a time.

The consumer deals windows out to several requests at once, redeliveries too; the twin walks the
queue for every message, as docs/reference/consumers.md#pull-requests and #delivery say it. What
each subscription gets, in which order, and with which status a request ends must be the same: for
every priority policy, with requests that limit bytes, share a subscription, expire, or do not wait,
and however few of them the consumer looks at, or serves, at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig, with_defaults
from jetstream_server.jetstream.consumers import pull
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Frames, Output
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryFolder

ACK_WAIT = SECOND
DUE = ACK_WAIT + MILLISECOND
PIN_TIMEOUT = 1500 * MILLISECOND
MAX_WAITING = 4
BOUNDS = pull._TURNS_AT_ONCE, pull._LOOKED_AT_MAX
# The first two are read by one subscription.
REPLIES = (b"in.a.1", b"in.a.2", b"in.b", b"in.c")
SIDS = {b"in.a.1": b"1", b"in.a.2": b"1", b"in.b": b"2", b"in.c": b"3"}


class Client:
    """Takes frames by way of the output; nothing is routed to it."""

    headers = True
    backlog_bytes = 0

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("deliveries are encoded for it")


@dataclass(eq=False)
class Request:
    """A request of the twin."""

    reply: bytes
    left: int
    max_bytes: int
    limits_bytes: bool
    expires_at: int
    no_wait: bool
    priority: int
    min_pending: int
    min_ack_pending: int
    pin: str
    is_text: bool
    delivered: int = 0

    @property
    def fields(self):
        return f"{self.left} {self.max_bytes}"


class PullQueueMachine(RuleBasedStateMachine):
    def teardown(self):
        pull._TURNS_AT_ONCE, pull._LOOKED_AT_MAX = BOUNDS

    @initialize(
        policy=st.sampled_from(["", "", "overflow", "prioritized", "pinned_client"]),
        max_ack_pending=st.sampled_from([-1, 2, 7]),
        max_deliver=st.sampled_from([-1, 2]),
        headers_only=st.booleans(),
        turns_at_once=st.sampled_from([2, 3, 256]),
        looked_at_max=st.sampled_from([1, 2, 3000]),
    )
    def start(
        self, policy, max_ack_pending, max_deliver, headers_only, turns_at_once, looked_at_max
    ):
        pull._TURNS_AT_ONCE, pull._LOOKED_AT_MAX = turns_at_once, looked_at_max
        self.headers_only = headers_only
        self.now = 1_700_000_000 * SECOND
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.context = Context("$G", "S", "", self.sublist, self.output, Nuid(Random(1)))
        config = with_defaults(StreamConfig(name="S", subjects=["s"], storage="memory"))
        folder = MemoryFolder(0)
        self.stream = Stream(self.context, config, self.now, folder, folder.messages(), self.now)
        client = Client()
        for subject, sid in ((b"in.a.*", b"1"), (b"in.b", b"2"), (b"in.c", b"3")):
            self.sublist.insert(Subscription(subject, client, sid=sid, outlet=client))
        self.policy, self.max_ack_pending = policy, max_ack_pending
        self.max_deliver = max_deliver
        self.consumer = create_consumer(
            self.stream,
            ConsumerConfig(
                durable_name="C",
                ack_policy="explicit",
                ack_wait=ACK_WAIT,
                max_deliver=max_deliver,
                max_ack_pending=max_ack_pending,
                max_waiting=MAX_WAITING,
                headers_only=headers_only,
                priority_policy=policy or "none",
                priority_groups=["g"] if policy else [],
                priority_timeout=PIN_TIMEOUT if policy == "pinned_client" else 0,
            ),
            self.now,
        )
        self.output.sends_after_flush.clear()
        self.stored: dict[int, tuple[int, int]] = {}  # sequence -> time, payload bytes
        self.new: list[int] = []
        self.pending: dict[int, int] = {}  # sequence -> deadline
        self.deliveries: dict[int, int] = {}
        self.consumer_seqs: dict[int, int] = {}
        self.queue: list[int] = []
        self.waiting: list[Request] = []
        self.consumer_seq = 0
        self.pin, self.pin_deadline, self.pins = "", 0, 0
        self.messages: dict[bytes, list[tuple[int, ...]]] = {}
        self.statuses: list[tuple[bytes, str]] = []

    # -- the twin --------------------------------------------------------------------------

    def serve(self):
        while self.waiting and (sequence := self.next_message()):
            request = self.choose()
            if request is None:
                break
            self.deliver(sequence, request)
        if not self.is_full:
            for request in list(self.waiting):
                if request.no_wait and (request.delivered or not request.expires_at):
                    self.end(request, "404 No Messages")

    @property
    def is_full(self):
        return 0 <= self.max_ack_pending <= len(self.pending)

    def choose(self):
        for request in list(self.waiting):
            if self.policy == "overflow" and (request.min_pending or request.min_ack_pending):
                is_behind = 0 < request.min_pending <= len(self.new)
                is_busy = 0 < request.min_ack_pending <= len(self.pending)
                if not is_behind and not is_busy:
                    continue
            if self.policy == "pinned_client" and request.pin != self.pin:
                if request.pin:
                    self.end(request, f"423 Nats-Wrong-Pin-Id {request.fields}")
                    continue
                if self.pin:
                    continue
            return request
        return None

    def next_message(self):
        while self.queue:
            if not 0 < self.max_deliver <= self.deliveries[self.queue[0]]:
                return self.queue[0]
            del self.pending[self.queue.pop(0)]
        return self.new[0] if self.new and not self.is_full else 0

    def deliver(self, sequence, request):
        is_new = sequence not in self.pending
        count = self.deliveries.get(sequence, 0) + 1
        left = len(self.new) - is_new
        stored_at, stored_bytes = self.stored[sequence]
        numbers = (count, sequence, self.consumer_seq + 1, stored_at, left)
        sent_bytes = stored_bytes
        if self.headers_only:
            sent_bytes = len(b"NATS/1.0\r\nNats-Msg-Size: %d\r\n\r\n" % stored_bytes)
        size = 1 + sent_bytes + len(b"$JS.ACK.S.C.%d.%d.%d.%d.%d" % numbers)
        if request.limits_bytes:
            if size > request.max_bytes:
                self.end(request, f"409 Message Size Exceeds MaxBytes {request.fields}")
                return
            request.max_bytes -= size
        (self.new if is_new else self.queue).remove(sequence)
        self.consumer_seq += 1
        self.deliveries[sequence] = count
        self.consumer_seqs[sequence] = self.consumer_seq
        self.pending[sequence] = self.now + DUE
        if self.policy == "pinned_client" and not request.is_text:
            if not self.pin:
                self.pins += 1
                self.pin = f"pin {self.pins}"
            if request.pin != self.pin:
                request.pin = self.pin
                self.pin_deadline = self.now + PIN_TIMEOUT
        self.messages.setdefault(SIDS[request.reply], []).append(numbers)
        request.delivered += 1
        request.left -= 1
        self.waiting.remove(request)
        if request.left:
            self.wait(request)
        elif request.limits_bytes:
            self.statuses.append((request.reply, f"409 Batch Completed {request.fields}"))

    def wait(self, request):
        self.waiting.append(request)
        if self.policy == "prioritized":
            self.waiting.sort(key=lambda waiting: waiting.priority)

    def end(self, request, status):
        self.waiting.remove(request)
        self.statuses.append((request.reply, status))

    def take(self, request):
        if self.policy == "pinned_client" and self.pin and request.pin:
            if request.pin != self.pin:
                self.statuses.append((request.reply, "423 Nats-Pin-Id mismatch"))
                return
            self.pin_deadline = self.now + PIN_TIMEOUT
        if request.no_wait:
            available = len(self.new) + len(self.queue)
            if not available and not request.expires_at:
                self.statuses.append((request.reply, "404 No Messages"))
                return
            if 0 < available < sum(waiting.left for waiting in self.waiting):
                self.statuses.append((request.reply, "408 Requests Pending"))
                return
        if len(self.waiting) >= MAX_WAITING:
            self.statuses.append((request.reply, "409 Exceeded MaxWaiting"))
            return
        self.wait(request)

    def expire(self):
        for request in list(self.waiting):
            if 0 < request.expires_at <= self.now:
                self.end(request, f"408 Request Timeout {request.fields}")
        if 0 < self.pin_deadline <= self.now:
            self.pin, self.pin_deadline = "", 0
        for sequence in sorted(self.pending):
            if self.pending[sequence] <= self.now and sequence not in self.queue:
                self.queue.append(sequence)

    # -- rules -----------------------------------------------------------------------------

    @rule(sizes=st.lists(st.sampled_from([0, 0, 0, 60]), min_size=1, max_size=9))
    def publish(self, sizes):
        run = PubRun.of([(b"s", b"", b"", bytes(size)) for size in sizes])
        first = self.stream.store.last_seq + 1
        self.stream.receive(Stretch.of_server(run, None, self.now))
        for sequence, size in enumerate(sizes, first):
            self.stored[sequence] = self.now, size
            self.new.append(sequence)
        self.settle_turn()

    @rule(
        wanted=st.lists(
            st.fixed_dictionaries(
                {
                    "reply": st.sampled_from(REPLIES),
                    "batch": st.integers(1, 9),
                    "max_bytes": st.sampled_from([0, 0, 0, 0, 130, 400]),
                    "expires": st.sampled_from([0, 0, 500 * MILLISECOND, 3 * SECOND]),
                    "no_wait": st.booleans(),
                    "priority": st.integers(0, 2),
                    "min_pending": st.sampled_from([0, 0, 1, 4]),
                    "min_ack_pending": st.sampled_from([0, 0, 3]),
                    "has_pin": st.booleans(),
                    "is_text": st.sampled_from([False, False, False, True]),
                }
            ),
            min_size=1,
            max_size=4,
        )
    )
    def pull(self, wanted):
        for fields in wanted:
            reply, expires, has_pin, is_text = (
                fields.pop(key) for key in ("reply", "expires", "has_pin", "is_text")
            )
            if is_text:  # a number, and nothing else
                expires, has_pin = 0, False
                fields |= dict.fromkeys(("max_bytes", "min_pending", "min_ack_pending"), 0)
                fields |= {"no_wait": False, "priority": 10}
            if self.policy != "overflow":
                fields["min_pending"] = fields["min_ack_pending"] = 0
            is_pinned = self.policy == "pinned_client" and has_pin
            body = fields | {"expires": expires, "group": "g" if self.policy else ""}
            if is_pinned:
                body["id"] = self.consumer.pull.pin.id or "lost"
            text = str(fields["batch"]) if is_text else json.dumps(body)
            self.consumer.pull.request(reply, text.encode(), self.now)
            pin = (self.pin or "lost") if is_pinned else ""
            self.take(
                Request(
                    reply,
                    fields["batch"],
                    fields["max_bytes"],
                    fields["max_bytes"] > 0,
                    self.now + expires if expires else 0,
                    fields["no_wait"],
                    fields["priority"],
                    fields["min_pending"],
                    fields["min_ack_pending"],
                    pin,
                    is_text,
                )
            )
        self.settle_turn()

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), body=st.sampled_from([b"", b"", b"-NAK", b"+TERM"]))
    def answer(self, data, body):
        some = st.lists(st.sampled_from(sorted(self.pending)), min_size=1, unique=True)
        sequences = data.draw(some)
        subject = b"$JS.ACK.S.C.1.%d.%d.1.0"
        run = PubRun.of(
            [(subject % (seq, self.consumer_seqs[seq]), b"", b"", body) for seq in sequences]
        )
        self.consumer.acks.receive(Stretch.of_server(run, None, self.now))
        for sequence in sequences:
            if body != b"-NAK":
                del self.pending[sequence]
                if sequence in self.queue:
                    self.queue.remove(sequence)
            elif sequence not in self.queue:
                self.queue.append(sequence)
        self.settle_turn()

    @rule(milliseconds=st.sampled_from([1, 499, 501, 1001, 2600]))
    def time_passes(self, milliseconds):
        until = self.now + milliseconds * MILLISECOND
        while (due := self.context.deadlines.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.expire()
            self.settle_turn()
        self.now = until
        self.expire()
        self.settle_turn()

    @precondition(lambda self: self.policy == "pinned_client")
    @rule()
    def unpin(self):
        self.consumer.pull.unpin("admin", self.now)
        self.pin, self.pin_deadline = "", 0
        self.settle_turn()

    # -- the machinery ---------------------------------------------------------------------

    def settle_turn(self):
        """Let a turn pass on both sides, and compare what came of it."""
        for scheduled in self.context.deadlines.pop_due(self.now):
            scheduled.tick(self.now)
        while self.context.ready:
            ready = list(self.context.ready)
            self.context.ready.clear()
            for runnable in ready:
                runnable.advance(self.now)
        self.serve()
        messages, statuses = self.sent()
        assert messages == self.messages
        assert sorted(statuses) == sorted(self.statuses)
        self.messages, self.statuses = {}, []

    def sent(self):
        messages, statuses = {}, []
        for send in self.output.sends_after_flush:
            if not isinstance(send, Frames):
                subject, block = send.run.subject(0), send.run.headers(0)
                if subject.startswith(b"in."):
                    line, *fields = block.decode().strip().split("\r\n")
                    numbers = [field.split(": ")[1] for field in fields]
                    statuses.append((subject, " ".join([line[len("NATS/1.0 ") :], *numbers])))
                continue
            for line in send.data.split(b"\r\n"):
                if line.startswith((b"MSG s ", b"HMSG s ")):
                    parts = line.split(b" ")
                    numbers = tuple(int(number) for number in parts[3].split(b".")[4:])
                    messages.setdefault(parts[2], []).append(numbers)
        self.output.sends_after_flush.clear()
        return messages, statuses

    @invariant()
    def counters_agree(self):
        info = self.consumer.info(self.now)
        assert info["num_ack_pending"] == len(self.pending)
        assert info["num_pending"] == len(self.new)
        assert info["num_waiting"] == len(self.waiting)
        assert [seq for seq, _ in self.consumer.progress.pending] == sorted(self.pending)
        assert list(self.consumer.progress.redelivery.queued_sequences()) == self.queue


TestPullQueue = PullQueueMachine.TestCase
TestPullQueue.settings = settings(stateful_step_count=30, deadline=None)
