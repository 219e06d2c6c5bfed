"""Stream on MemoryStore against an obvious list, under every limit and on simulated time.

The twin keeps a list of messages and does everything the slow way, one message after another. It
knows nothing of runs, so it also checks that taking a stretch as a whole and message by message
come to the same. On interest and work queue streams consumers come and go, take messages and
acknowledge them, beside all limits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

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
from jetstream_server.base.errors import ApiError
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig, with_defaults
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer, restore_consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.output import Frames, Output, Publish
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryFolder

WINDOW = 2 * SECOND
HOUR = 3600 * SECOND
SUBJECTS = [b"s.a", b"s.b", b"s.c"]


class Client:
    """Takes deliveries by way of the output; nothing is routed to it."""

    headers = True
    backlog_bytes = 0

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("deliveries are encoded for it")


@dataclass
class Kept:
    """One message of the twin."""

    sequence: int
    timestamp: int
    subject: bytes
    message_id: str
    payload: bytes

    @property
    def size(self) -> int:
        lines = f"Nats-Msg-Id: {self.message_id}\r\n" if self.message_id else ""
        header_bytes = len("NATS/1.0\r\n" + lines + "\r\n") if lines else 0
        return 16 + len(self.subject) + header_bytes + len(self.payload)


@dataclass
class Reader:
    """One consumer of the twin: everything below `next` is acknowledged."""

    subject: bytes  # empty for all
    next: int

    def wants(self, message: Kept) -> bool:
        return self.subject in (b"", message.subject)

    def needs(self, message: Kept) -> bool:
        return self.wants(message) and message.sequence >= self.next


@dataclass
class Twin:
    """A stream as a list."""

    config: StreamConfig
    kept: list[Kept] = field(default_factory=list)
    last: int = 0
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    last_id: str = ""
    readers: dict[str, Reader] = field(default_factory=dict)

    def publish(
        self, subject: bytes, payload: bytes, message_id: str, expected: int | None, now: int
    ) -> int | str:
        """Return the sequence, `-sequence` for a duplicate, or the text of a refusal."""
        if expected is not None and expected != self.last:
            return f"wrong last sequence: {self.last}"
        if message_id in self.ids and self.ids[message_id][1] + WINDOW > now:
            return -self.ids[message_id][0]
        fresh = Kept(self.last + 1, now, subject, message_id, payload)
        is_wanted = self.config.retention != "interest" or any(
            reader.wants(fresh) for reader in self.readers.values()
        )
        if is_wanted and self.config.discard == "new" and (refusal := self.refusal(fresh)):
            return refusal
        self.last += 1
        if is_wanted:
            self.kept.append(fresh)
        self.last_id = message_id
        if message_id:
            self.ids[message_id] = (self.last, now)
        self.trim()
        return self.last

    def refusal(self, fresh: Kept) -> str:
        config = self.config
        same = [m for m in self.kept if m.subject == fresh.subject]
        replaces = 0 < config.max_msgs_per_subject <= len(same)
        if replaces and config.discard_new_per_subject:
            return "maximum messages per subject exceeded"
        if 0 < config.max_msgs <= len(self.kept) and not replaces:
            return "maximum messages exceeded"
        if 0 < config.max_bytes < sum(m.size for m in self.kept) + fresh.size and not (
            replaces and same[0].size >= fresh.size
        ):
            return "maximum bytes exceeded"
        return ""

    def trim(self) -> None:
        config = self.config
        for subject in SUBJECTS:
            same = [m for m in self.kept if m.subject == subject]
            if 0 < config.max_msgs_per_subject < len(same):
                self.drop(same[: -config.max_msgs_per_subject])
        if config.discard == "old":
            while 0 < config.max_msgs < len(self.kept):
                self.drop(self.kept[:1])
            while self.kept and 0 < config.max_bytes < sum(m.size for m in self.kept):
                self.drop(self.kept[:1])

    def age(self, now: int) -> None:
        if self.config.max_age:
            self.drop([m for m in self.kept if m.timestamp + self.config.max_age <= now])

    def pending(self, reader: Reader) -> list[Kept]:
        return [m for m in self.kept if reader.needs(m)]

    def consume(self, reader: Reader, count: int) -> list[int]:
        """Let a consumer take and acknowledge messages; return their sequences."""
        taken = self.pending(reader)[:count]
        if taken:
            reader.next = taken[-1].sequence + 1
        if self.config.retention != "limits":
            self.drop([m for m in taken if not self.is_needed(m)])
        return [m.sequence for m in taken]

    def is_needed(self, message: Kept) -> bool:
        return any(reader.needs(message) for reader in self.readers.values())

    def sweep(self) -> None:
        if self.config.retention == "interest":
            self.drop([m for m in self.kept if not self.is_needed(m)])

    def drop(self, gone: list[Kept]) -> None:
        self.kept = [m for m in self.kept if m not in gone]


class StreamMachine(RuleBasedStateMachine):
    """Drives a stream and its twin alike."""

    @initialize(
        max_msgs=st.sampled_from([-1, 1, 4]),
        max_bytes=st.sampled_from([-1, 60, 150]),
        per_subject=st.sampled_from([-1, 1, 2]),
        max_age=st.sampled_from([0, 3 * SECOND]),
        discard=st.sampled_from(["old", "new", "new per subject"]),
        retention=st.sampled_from(["limits", "interest", "workqueue"]),
    )
    def start(
        self,
        max_msgs: int,
        max_bytes: int,
        per_subject: int,
        max_age: int,
        discard: str,
        retention: str,
    ) -> None:
        self.now = 1_700_000_000 * SECOND
        self.fields: dict[str, Any] = {
            "name": "S",
            "subjects": ["s.*"],
            "storage": "memory",
            "max_msgs": max_msgs,
            "max_bytes": max_bytes,
            "max_msgs_per_subject": per_subject,
            "max_age": max_age,
            "discard": discard.split()[0],
            "discard_new_per_subject": discard == "new per subject" and per_subject > 0,
            "duplicate_window": WINDOW,
            "retention": retention,
        }
        config = with_defaults(StreamConfig(**self.fields))
        sublist = Sublist()
        self.output = Output(sublist)
        self.context = Context("$G", "S", "", sublist, self.output, Nuid(Random(0)))
        client = Client()
        sublist.insert(Subscription(b"in", client, sid=b"1", outlet=client))
        self.folder = MemoryFolder(0)
        self.stream = self.open(config)
        self.twin = Twin(config)
        if retention == "interest":
            self.come("all")

    def open(self, config: StreamConfig) -> Stream:
        store = self.folder.messages()
        return Stream(self.context, config, self.now, self.folder, store, self.now)

    @rule(
        messages=st.lists(
            st.tuples(
                st.sampled_from(SUBJECTS),
                st.sampled_from([b"", b"x", b"x" * 40, b"x" * 200]),
                st.sampled_from(["", "1", "2", "3", "4"]),
                st.sampled_from([None, None, None, -1, 0, 1]),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def publish(self, messages: list[tuple[bytes, bytes, str, int | None]]) -> None:
        """Publish a run; `expected` is relative to what the twin's last sequence now is."""
        if self.is_order_sensitive:
            for message in messages:
                self.publish_run([message])
        else:
            self.publish_run(messages)

    @property
    def is_order_sensitive(self) -> bool:
        """Tell whether limits enforced after a run may keep others than limits enforced after each
        message: of several subjects' oldest messages and the oldest of all, which goes first."""
        config = self.twin.config
        overall = config.max_msgs > 0 or config.max_bytes > 0
        return config.discard == "old" and config.max_msgs_per_subject > 0 and overall

    def publish_run(self, messages: list[tuple[bytes, bytes, str, int | None]]) -> None:
        run_messages, expected_answers = [], []
        for index, (subject, payload, message_id, offset) in enumerate(messages):
            expected = None if offset is None else max(self.twin.last + offset, 0)
            lines = f"Nats-Msg-Id: {message_id}\r\n" if message_id else ""
            if expected is not None:
                lines += f"Nats-Expected-Last-Sequence: {expected}\r\n"
            block = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
            if expected is not None:
                # The twin's sizes leave the second header out: it takes the place of payload.
                payload = b""
            run_messages.append((subject, b"R.%d" % index, block, payload))
            if expected is not None:
                payload = block[len(f"NATS/1.0\r\nNats-Msg-Id: {message_id}\r\n\r\n") :]
                if not message_id:
                    payload = block
            answer = self.twin.publish(subject, payload, message_id, expected, self.now)
            expected_answers.append(answer)
        run = PubRun.of(run_messages)
        subscription = Subscription(b"s.*", self.stream)
        self.stream.receive(Stretch.of_server(run, subscription, self.now))
        assert self.answers() == expected_answers

    def answers(self) -> list[int | str]:
        found: dict[bytes, int | str] = {}
        for send in self.output.sends:  # it is in memory
            if not isinstance(send, Publish) or not send.run.subject(0).startswith(b"R."):
                continue  # advisories, and what consumers send
            answer = json.loads(send.run.payload(0))
            if "error" in answer:
                found[send.run.subject(0)] = answer["error"]["description"]
            else:
                sign = -1 if answer.get("duplicate") else 1
                found[send.run.subject(0)] = sign * answer["seq"]
        self.output.sends.clear()
        self.output.sends_after_flush.clear()
        return [found[b"R.%d" % index] for index in range(len(found))]

    @rule(nanoseconds=st.sampled_from([MILLISECOND, SECOND, WINDOW, 5 * SECOND]))
    def let_time_pass(self, nanoseconds: int) -> None:
        until = self.now + nanoseconds
        deadlines = self.context.deadlines
        while (due := deadlines.next_deadline()) is not None and due <= until:
            for scheduled in deadlines.pop_due(due):
                scheduled.tick(due)
        self.now = until
        # A timer may lag by its granularity; a look right now settles it.
        self.stream.tick(until)
        self.twin.age(until)

    @rule(
        pattern=st.sampled_from([b"", b"s.a", b"s.*"]),
        seq=st.integers(0, 12),
        keep=st.integers(0, 3),
    )
    def purge(self, pattern: bytes, seq: int, keep: int) -> None:
        keep = 0 if seq else keep  # a request with both is refused by the API
        purged = self.stream.purge(pattern, seq, keep, self.now)
        wanted = [m for m in self.twin.kept if pattern in (b"", b"s.*", m.subject)]
        gone = [m for m in wanted if m.sequence < seq] if seq else wanted
        gone = gone[: max(len(gone) - keep, 0)]
        self.twin.drop(gone)
        if not pattern and seq > self.twin.last:
            self.twin.last = seq - 1
        assert purged == len(gone)

    @rule(sequence=st.integers(0, 30), erase=st.booleans())
    def delete(self, sequence: int, erase: bool) -> None:
        gone = [m for m in self.twin.kept if m.sequence == sequence]
        try:
            self.stream.delete_message(sequence, erase, self.now)
            assert gone
        except ApiError as error:
            assert (error.err_code, gone) == (10043, [])
        self.twin.drop(gone)

    @rule(max_msgs=st.sampled_from([-1, 2]), per_subject=st.sampled_from([-1, 1]))
    def reconfigure(self, max_msgs: int, per_subject: int) -> None:
        self.fields |= {"max_msgs": max_msgs, "max_msgs_per_subject": per_subject}
        self.fields["discard_new_per_subject"] &= per_subject > 0
        config = with_defaults(StreamConfig(**self.fields))
        self.stream.reconfigure(config, self.now)
        self.twin.config = config
        self.twin.trim()
        self.twin.age(self.now)

    @rule(name=st.sampled_from(["all", "s.a", "s.b"]))
    def come(self, name: str) -> None:
        """Make a consumer of all subjects or of one, if there may be one more."""
        consumers, retention = self.stream.consumers, self.twin.config.retention
        durable = name.replace(".", "_")
        if durable in consumers or (retention == "workqueue" and consumers):
            return
        subject = "" if name == "all" else name
        requested = ConsumerConfig(
            durable_name=durable, ack_policy="explicit", filter_subject=subject, ack_wait=HOUR
        )
        create_consumer(self.stream, requested, self.now)
        first = self.stream.store.state().first_seq
        self.twin.readers[durable] = Reader(subject.encode(), first)
        self.output.sends_after_flush.clear()

    @precondition(lambda self: self.stream.consumers)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.stream.consumers)))
        consumer: Any = self.stream.consumers[name]  # the port has what a stream needs of it
        consumer.delete(self.now)
        del self.twin.readers[name]
        self.twin.sweep()
        self.output.sends_after_flush.clear()

    @precondition(lambda self: self.stream.consumers)
    @rule(data=st.data(), count=st.integers(1, 4))
    def consume(self, data: Any, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.stream.consumers)))
        consumer: Any = self.stream.consumers[name]
        consumer.pull.request(b"in", b'{"batch":%d,"no_wait":true}' % count, self.now)
        consumer.advance(self.now)
        replies = [
            line.split(b" ")[3]
            for send in self.output.sends_after_flush
            if isinstance(send, Frames)
            for line in send.data.split(b"\r\n")
            if line.startswith((b"MSG s.", b"HMSG s."))
        ]
        self.output.sends_after_flush.clear()
        if replies:
            run = PubRun.of([(reply, b"", b"", b"") for reply in replies])
            consumer.acks.receive(Stretch.of_server(run, None, self.now))
            consumer.advance(self.now)
        sequences = [int(reply.split(b".")[5]) for reply in replies]
        assert sequences == self.twin.consume(self.twin.readers[name], count)

    @rule()
    def restart(self) -> None:
        """What is not in the messages is lost: ids of messages that are gone."""
        self.context.deadlines.cancel(self.stream)
        names = sorted(self.stream.consumers)
        for consumer in self.stream.consumers.values():
            consumer.stop(Ending.SHUTDOWN, self.now)
        self.stream = self.open(self.stream.config)
        for name in names:
            restore_consumer(self.stream, name, self.folder.consumer(name), self.now)
        self.twin.age(self.now)
        self.twin.ids = {
            m.message_id: (m.sequence, m.timestamp)
            for m in self.twin.kept
            if m.message_id and m.timestamp + WINDOW > self.now
        }
        newest = self.twin.kept[-1] if self.twin.kept else None
        is_last = newest is not None and newest.sequence == self.twin.last
        self.twin.last_id = newest.message_id if newest and is_last else ""

    @invariant()
    def same_messages(self) -> None:
        store = self.stream.store
        found = [store.load(n) for n in range(max(store.last_seq - 40, 1), store.last_seq + 1)]
        assert [(m.sequence, m.timestamp, m.subject) for m in found if m] == [
            (m.sequence, m.timestamp, m.subject)
            for m in self.twin.kept
            if m.sequence >= store.last_seq - 40
        ]
        state = store.state()
        assert state.messages == len(self.twin.kept)
        assert state.last_seq == self.twin.last
        assert state.bytes == sum(m.size for m in self.twin.kept)
        assert self.stream.contents.last_message_id == self.twin.last_id.encode()

    @invariant()
    def same_pending(self) -> None:
        for name, reader in self.twin.readers.items():
            info = self.stream.consumers[name].info(self.now)
            assert info["num_pending"] == len(self.twin.pending(reader))
            assert info["num_ack_pending"] == 0


StreamMachine.TestCase.settings = settings(
    stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
TestStreamModel = StreamMachine.TestCase
