"""What a client says about a delivered message: the bodies of acks, and their subjects.

Plain acks are taken out of a run by a kernel; this reads all others
(docs/reference/consumers.md#acks). Unknown bodies are answered when an answer is asked for, and
change nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import orjson

from jetstream_server.base.digits import unsigned
from jetstream_server.base.nuid import DIGITS, Nuid
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.consumer_files import ConsumerFiles
from jetstream_server.jetstream.consumers.inactivity import Inactivity
from jetstream_server.jetstream.streams.messages.publish_headers import header
from jetstream_server.jetstream.streams.removal.removal import CONSUMERS_AS_MESSAGE, SWEPT_AT_ONCE
from jetstream_server.jetstream.wire.go_duration import parse_duration
from jetstream_server.jetstream.wire.go_json import READ_BYTES_OF_UNIT, Spend, spend_nothing
from jetstream_server.jetstream.wire.json_extent import excess
from jetstream_server.kernels.acks import take_plain_acks
from jetstream_server.protocol.ops import PubRun

_LAST_STREAM_SEQ = b"Nats-Last-Stream"
# Tokens of `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>...` and of the form with domain and
# account hash in front.
_TOKENS_V1 = 9
_SEQUENCE_TOKEN_V1 = 5
_SEQUENCE_TOKEN_V2 = 7
_DELAY_NS_MAX = 2**62
# What one client may say of very many messages takes long where each is looked at by itself, or
# where the stream removes it; so there is a limited amount of it in a turn.
_ODD_OF_UNIT = 5  # acks that are not plain, of the workload
_ASKED_OF_UNIT = 25  # messages that the stream removes if nobody needs them
_LOOKED_AT_AT_ONCE = 500
_ANY_COUNT = 1 << 62


class Verb(Enum):
    """What an ack body asks for."""

    ACK = "ack"
    NAK = "nak"
    TERM = "term"
    WORK = "work in progress"
    NEXT = "ack and next"
    UNKNOWN = "unknown"


def ack_sequence(subject: bytes) -> int:
    """Return the stream sequence of an ack subject, -1 when it has none."""
    parts = subject.split(b".")
    token = _SEQUENCE_TOKEN_V1 if len(parts) == _TOKENS_V1 else _SEQUENCE_TOKEN_V2
    text = parts[token] if len(parts) > token else b""
    return unsigned(text)


def ack_counts(subject: bytes) -> tuple[int, int]:
    """Return what an ack subject tells of a message: how often it had been out, and which of the
    consumer's deliveries it was; -1 for what is not a number."""
    parts = subject.split(b".")
    token = _SEQUENCE_TOKEN_V1 if len(parts) == _TOKENS_V1 else _SEQUENCE_TOKEN_V2
    return unsigned(parts[token - 1]), unsigned(parts[token + 1])


def ack_verb(body: bytes) -> tuple[Verb, bytes]:
    """Return what a body asks for, and the text after the verb."""
    if body in (b"", b"+ACK", b"+OK"):
        return Verb.ACK, b""
    if body.startswith(b"-NAK"):
        return Verb.NAK, body[4:].strip()
    if body.startswith(b"+TERM"):
        return Verb.TERM, body[5:].strip()
    if body.startswith(b"+WPI"):
        return Verb.WORK, b""
    if body.startswith(b"+NXT"):
        return Verb.NEXT, body[4:].strip()
    return Verb.UNKNOWN, b""


def nak_delay(text: bytes, spend: Spend = spend_nothing) -> int:
    """Return the delay in ns that is asked for after `-NAK`, 0 when it is missing or malformed.

    Args:
        spend: told of the units of work that it takes to read a long text.
    """
    if text[:1] == b"{":
        if len(text) > READ_BYTES_OF_UNIT:
            spend(len(text) / READ_BYTES_OF_UNIT)
        if excess(text):
            return 0
        try:
            delay = orjson.loads(text).get("delay", 0)
        except orjson.JSONDecodeError:
            return 0
        if type(delay) is not int:
            return 0
    else:
        delay = parse_duration(text.decode("utf-8", "replace")) or 0
    return min(max(delay, 0), _DELAY_NS_MAX)


@dataclass(slots=True, eq=False)
class Acks:
    """Takes the acks of one consumer. A Receiver for its ack subjects.

    Args:
        request: takes a pull request that came with an ack: reply subject, body and time.
    """

    _shared: ConsumerContext
    _files: ConsumerFiles
    _inactivity: Inactivity
    _request: Callable[[bytes, bytes, int], None]

    def receive(self, stretch: Stretch) -> None:
        """Take acks, as far as there is time for it; plain ones a run at a time."""
        if self._shared.stream.store.offline:
            return  # nothing can be saved any more, so nothing is answered
        self._inactivity.touch(stretch.now)
        stopped = self._receive_some(stretch)
        answers = stretch.answers
        if stopped < stretch.stop and answers is not None:
            answers.postpone(stretch.postponed_from(stopped))
            self._shared.stream.context.workload.wait(answers.look_again, answers)
        self._shared.wake()

    def _receive_some(self, stretch: Stretch) -> int:
        """Take acks; return the first one for which there was no time."""
        run, at, stop, now = stretch.run, stretch.start, stretch.stop, stretch.now
        workload, answers = self._shared.stream.context.workload, stretch.answers
        at_once = self._at_once
        while at < stop:
            sequences: array[int] = array("Q")
            first, end = at, min(at + at_once, stop)
            at = take_plain_acks(run.chunk, run.fields, at, end, sequences)
            if sequences:
                if at_once < _ANY_COUNT and answers is not None and not workload.takes(0, answers):
                    return first
                self._ack(run, first, sequences, now)
            if at < end:
                if answers is not None and not workload.takes(1 / _ODD_OF_UNIT, answers):
                    return at
                self._take(run, at, now)
                at += 1
        return stop

    @property
    def _at_once(self) -> int:
        """Return how many plain acks are taken together: not too many where each is looked at by
        itself, because the stream removes its message or a metric is told of it."""
        shared = self._shared
        if shared.stream.config.retention == "limits" and not shared.config.sample_freq:
            return _ANY_COUNT
        return max(_LOOKED_AT_AT_ONCE // self._width, 1)

    @property
    def _width(self) -> int:
        """Return how many messages' time it takes to find out whether one is still needed."""
        return 1 + len(self._shared.stream.consumers) // CONSUMERS_AS_MESSAGE

    def take_last(self, headers: bytes, now: int) -> None:
        """Take an answer to flow control, which a `flow_control` consumer reads as an ack of
        everything up to the last message that it names."""
        last = unsigned(header(headers, _LAST_STREAM_SEQ))
        if last >= 0:
            progress = self._shared.progress
            sequence, floor = min(last, progress.stream_seq), progress.floor_stream_seq
            settled = progress.ack_through(sequence)
            self._acked(settled, floor, now, is_answered=False)

    def _take(self, run: PubRun, index: int, now: int) -> None:
        """Take one ack that is not plain."""
        shared = self._shared
        subject, reply, body = run.subject(index), run.reply(index), run.payload(index)
        sequence = ack_sequence(subject)
        is_known = sequence >= 0 and (not sequence or shared.progress.cursor.has_passed(sequence))
        verb, text = ack_verb(body)
        # What was never delivered is not acknowledged, and an ack of sequence 0 is not answered
        # (docs/reference/consumers.md#acks).
        is_answered = sequence != 0
        if verb is Verb.NEXT:
            if is_known:
                self._ack(run, index, array("Q", [sequence]), now, is_answered=bool(reply))
            self._request(reply, text, now)
            return
        if verb in (Verb.ACK, Verb.TERM):
            if not is_known:
                return
            is_answered = bool(sequence) or not shared.progress.rules.cumulative
        if verb is Verb.ACK:
            self._ack(run, index, array("Q", [sequence]), now, is_answered=bool(reply))
        elif verb is Verb.TERM:
            reason = text.decode("utf-8", "replace")
            self._terminate(sequence, reason, ack_counts(subject), now)
        elif verb is Verb.NAK and is_known:
            counts = ack_counts(subject)
            delay = nak_delay(text, shared.stream.context.workload.spend)
            self._nak(sequence, delay, counts, now, is_answered=bool(reply))
        elif verb is Verb.WORK and is_known and shared.progress.work(sequence, now):
            self._files.changed(now, must_precede_answer=bool(reply))
        if reply and is_answered:
            self._files.answer(reply)

    def _ack(
        self,
        run: PubRun,
        first: int,
        sequences: array[int],
        now: int,
        *,
        is_answered: bool = False,
    ) -> None:
        """Take acks of these sequences, which are in the run from `first` on."""
        shared = self._shared
        progress = shared.progress
        floor = progress.floor_stream_seq
        if not progress.rules.cumulative:
            if shared.config.sample_freq:
                self._sample(sequences, now)
            settled = progress.ack(sequences)
            settled += self._late(sequences, settled)
        elif last := self._last_counting(sequences):
            counted = ack_counts(run.subject(first + sequences.index(last)))[1]
            settled = progress.ack_through(last, max(counted, 0))
        else:
            if is_answered:
                self._files.changed(now, must_precede_answer=True)
            return
        self._acked(settled, floor, now, is_answered=is_answered)

    def _last_counting(self, sequences: array[int]) -> int:
        """Return the last of these whose ack counts for everything before it, 0 for none. It is
        pending, or was when its message was removed from the stream, and something before it still
        is: what was delivered before a reset, and not again, counts for nothing."""
        progress, store = self._shared.progress, self._shared.stream.store
        pending = progress.last_pending(sequences)
        above = max(pending, progress.floor_stream_seq)
        delivered = {each for each in sequences if above < each <= progress.stream_seq}
        first = progress.pending.first()
        for sequence in sorted(delivered, reverse=True):
            if first is None or sequence < first[0]:
                break
            if progress.is_done_with(sequence) and store.load(sequence) is None:
                return sequence
        return pending

    def _late(self, sequences: array[int], settled: array[int]) -> array[int]:
        """Return which of the sequences that were not settled the stream keeps, although this
        consumer is done with them.

        Nothing is remembered of a message that was given up on after its first delivery; it does
        not matter whether the limit was the same then as now.
        """
        shared = self._shared
        progress, stream = shared.progress, shared.stream
        late: array[int] = array("Q")
        if (
            len(settled) == len(sequences)
            or stream.config.retention == "limits"
            or not progress.rules.tracks
        ):
            return late
        known = set(settled)
        for sequence in dict.fromkeys(sequences):
            if sequence in known or not progress.is_done_with(sequence):
                continue
            message = stream.store.load(sequence)
            if message is not None and progress.cursor.wants(message.subject):
                late.append(sequence)
        return late

    def _acked(self, settled: array[int], floor: int, now: int, *, is_answered: bool) -> None:
        """Have saved what an ack changed, and tell the stream; `floor` is the one before the
        ack."""
        shared = self._shared
        shared.acked_at = now
        # What an earlier ack changed may not be on disk yet.
        if settled or is_answered or shared.progress.floor_stream_seq != floor:
            self._files.changed(now, must_precede_answer=is_answered)
        if settled and shared.stream.config.retention != "limits":
            asked = min(len(settled) * self._width, SWEPT_AT_ONCE)  # the rest comes later
            shared.stream.context.workload.spend(asked / _ASKED_OF_UNIT)
        shared.settle(settled, now)

    def _sample(self, sequences: array[int], now: int) -> None:
        shared = self._shared
        if not shared.advisories.wants_metrics():
            return
        shared.stream.context.workload.spend(len(sequences) / _ODD_OF_UNIT)
        progress = shared.progress
        percent = shared.config.sample_percent
        for sequence in sequences:
            consumer_seq = progress.pending.consumer_seq(sequence)
            if not consumer_seq or _percentile(shared.nuid) >= percent:
                continue
            waited = now - progress.pending.sent_at(sequence)
            deliveries = progress.redelivery.deliveries(sequence)
            shared.advisories.acked(consumer_seq, sequence, waited, deliveries, now)

    def _nak(
        self,
        sequence: int,
        delay_ns: int,
        counts: tuple[int, int],
        now: int,
        *,
        is_answered: bool,
    ) -> None:
        shared = self._shared
        progress = shared.progress
        deliveries, consumer_seq = counts
        if not progress.floor_consumer_seq < consumer_seq <= progress.consumer_seq:
            return
        if delay_ns:
            is_pending = progress.postpone(sequence, now + delay_ns)
        else:
            is_pending = progress.refuse(sequence)
        if is_pending:
            self._files.changed(now, must_precede_answer=is_answered)
            shared.advisories.naked(consumer_seq, sequence, max(deliveries, 0), now)

    def _terminate(self, sequence: int, reason: str, counts: tuple[int, int], now: int) -> None:
        shared = self._shared
        progress = shared.progress
        self._files.changed(now, must_precede_answer=True)  # though it may change nothing now
        is_pending = sequence in progress.pending
        if is_pending or not progress.rules.cumulative:
            shared.acked_at = now
        if is_pending:
            shared.settle(progress.terminate(sequence), now)
        # Even of a message that was settled before, as in the genuine server.
        deliveries, consumer_seq = (max(count, 0) for count in counts)
        shared.advisories.terminated(consumer_seq, sequence, deliveries, reason, now)


def _percentile(nuid: Nuid) -> int:
    """Return a number from 0 to 99, all equally likely."""
    number = 0
    for character in nuid.short(4):
        number = number * len(DIGITS) + DIGITS.index(character)
    return number * 100 // len(DIGITS) ** 4
