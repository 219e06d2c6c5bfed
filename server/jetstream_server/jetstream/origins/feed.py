"""The line from an origin: the consumer that a mirror or a source makes there, and what arrives.

A feed asks the origin's API for a consumer that pushes to a subject of its own, as any client
could, so an origin in another account or domain is reached the same way as one next door. It hands
on what arrives in order, answers flow control, and starts over when something is missing, when
nothing is heard for too long, or when what it serves could not take a message. It stores nothing:
where to go on is known by the mirror or source (`FeedReader`).

What arrives before the answer to the request waits for it, as the answer tells who the origin is.

Specification: docs/reference/mirrors.md#consumers-at-the-origin.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol
from weakref import ref

import orjson

from jetstream_server import API_LEVEL
from jetstream_server.base.clock import MILLISECOND, MINUTE, SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.base.nuid import DIGITS
from jetstream_server.core.containment import Incident
from jetstream_server.core.provenance import OWN_INBOX, is_from_server
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.arrival import Arrival, delivery_numbers
from jetstream_server.jetstream.origins.origin_request import FeedKind, OriginRequest
from jetstream_server.protocol import headers as header_block
from jetstream_server.protocol.ops import PubRun

IDENTITY = b"Nats-Stream-Identity"
LAST_CONSUMER_SEQ = b"Nats-Last-Consumer"
LAST_STREAM_SEQ = b"Nats-Last-Stream"

_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
_STALLED = b"Nats-Consumer-Stalled"
_ACK = b"$JS.ACK."
_FLOW_CONTROL = b"FlowControl Request"
_HEARTBEAT = b"Idle Heartbeat"

_DIGITS_MAX = 20  # of 64 bits
_FIRST_ATTEMPT_NS = 100 * MILLISECOND
_AGAIN_NS = 2 * SECOND
_SILENCE_NS_MAX = 10 * SECOND
_SETUP_NS_MAX = 30 * SECOND
_PREPARED_SETUP_NS_MAX = 5 * SECOND
_RETRY_NS = 10 * SECOND
_PAUSE_NS = SECOND  # before what tripped is tried again
_RETRY_NS_MAX = 2 * MINUTE
_JITTER_NS_MAX = 100 * MILLISECOND


class FeedReader(Protocol):
    """Who stores what a feed brings: a mirror or a source."""

    @property
    def position(self) -> int:
        """Return the last origin sequence that is stored, 0 for none."""
        ...

    @property
    def identity(self) -> bytes | None:
        """Return the identity of the origin that `position` is about, None if it may be any."""
        ...

    def begin(self, skipped: int, identity: bytes, now: int) -> None:
        """The origin has made the consumer.

        Args:
            skipped: the consumer starts after this origin sequence.
            identity: of the origin, empty when it does not tell.
        """
        ...

    def start_over(self) -> None:
        """The origin is another one now: what `position` says means nothing there."""
        ...

    @property
    def is_complete(self) -> bool:
        """Return whether all that was taken is held, so that it may be acknowledged."""
        ...

    def take(self, arrival: Arrival, now: int) -> bool:
        """Store what arrived; return False when some was refused and has to come again."""
        ...


class _Stage(Enum):
    WAITING = "until the next attempt"
    ASKED = "for the answer"
    RUNNING = "for messages"
    STOPPED = "for nothing"


class Feed:
    """One internal consumer on an origin. A Receiver for deliveries and the answer.

    Attributes:
        lag: messages left at the origin when last heard of.
        active_at: when something last came, 0 for never.
        error: why the consumer could not be made, None when it could or is not known.
    """

    def __init__(
        self,
        context: Context,
        stream: str,
        source: OriginConfig,
        kind: FeedKind,
        name_seed: str,
        reader: FeedReader,
    ) -> None:
        """Prepare a feed; `start` lets it ask.

        Args:
            stream: who copies.
            source: what is copied.
            name_seed: what the consumer's name is made of; the same after a restart.
        """
        self.lag = 0
        self.active_at = 0
        self.error: ApiError | None = None
        self._context = context
        self._stream = stream
        self._source = source
        self._reader_ref = ref(reader)  # it holds this, and is not to be held by it
        self._request = OriginRequest(context, stream, source, kind, name_seed)
        self._made_name = ""  # of the consumer, as the origin says
        self._stage = _Stage.STOPPED
        self._deliveries: Subscription | None = None  # to what the consumer sends
        self._answers: Subscription | None = None  # to the answer to the request for it
        self._early: list[tuple[PubRun, int, int]] = []  # deliveries that came before the answer
        self._last_consumer_seq = 0  # of what was taken
        self._held = 0, 0  # the last consumer and stream sequence that may be acknowledged
        self._heard_at = 0  # when the consumer last gave a sign of life
        self._failures = 0  # attempts in a row without a consumer
        self._has_asked = False
        self._incidents = 0  # since something was taken

    def __repr__(self) -> str:
        return f"Feed({self._source.name!r} to {self._stream!r}, waiting {self._stage.value})"

    # -- life ------------------------------------------------------------------------------

    @property
    def _reader(self) -> FeedReader:
        reader = self._reader_ref()
        assert reader is not None, "a line ends before who reads from it"
        return reader

    @property
    def is_started(self) -> bool:
        """Return whether it copies, or tries to."""
        return self._stage is not _Stage.STOPPED

    @property
    def has_asked(self) -> bool:
        """Return whether the first attempt was made."""
        return self._has_asked

    def start(self, now: int, later_ns: int = 0) -> None:
        """Ask the origin before long.

        Args:
            later_ns: so much later than others that are started with it.
        """
        self._wait(_FIRST_ATTEMPT_NS + later_ns, now)

    def weigh(self, weight: int) -> None:
        """Say how long whoever takes a message has to do with it, as many times as long as most
        (`core/handing_over.py`)."""
        weights = self._context.workload.handing.weights
        if weight > 1:
            weights[self] = weight
        else:
            weights.pop(self, None)

    def stop(self, *, for_good: bool) -> None:
        """Listen no more; `for_good` also removes the consumer at the origin."""
        self._stage = _Stage.STOPPED
        self.weigh(1)
        self._recovered()
        self._context.deadlines.cancel(self)
        self._disconnect()
        if for_good and self._source.consumer is None and self._made_name:
            subject = self._request.api_subject(
                f"CONSUMER.DELETE.{self._source.name}.{self._made_name}"
            )
            self._context.output.publish(subject, b"")
        self._made_name = ""

    def give_up(self, incident: Incident, now: int) -> None:
        """Set the line up again after a pause, which doubles each time."""
        if self._stage is _Stage.STOPPED:
            return
        self._incidents += 1
        self.error = errors.STREAM_GENERAL_ERROR(str(incident))
        if self._context.outages is not None:
            self._context.outages.give_up_feed(self, self._stream, self._source.name, incident)
        pause_ns = min(_PAUSE_NS << min(self._incidents - 1, 30), _RETRY_NS_MAX)
        self._wait(pause_ns, now)

    def _recovered(self) -> None:
        """Note that what comes is taken again."""
        self._incidents = 0
        self.error = None
        if self._context.outages is not None:
            self._context.outages.feed_recovered(self)

    def origin_appeared(self, now: int) -> None:
        """A stream of the origin's name was made here: no need to wait out a long retry."""
        if self._stage is _Stage.WAITING and self._failures:
            self._failures = 0
            self._wait(_FIRST_ATTEMPT_NS, now)

    def tick(self, now: int) -> None:
        """Ask, ask again, or see whether the origin has fallen silent."""
        if self._stage is _Stage.WAITING:
            self._ask(now)
        elif self._stage is _Stage.ASKED:
            self._failures += 1
            self._wait(self._retry_ns(), now)
        elif self._stage is _Stage.RUNNING:
            silent_at = self._heard_at + _SILENCE_NS_MAX
            if now >= silent_at:
                self._wait(0, now)
            else:
                self._context.deadlines.schedule(self, silent_at)

    def _wait(self, delay_ns: int, now: int) -> None:
        self._disconnect()
        self._stage = _Stage.WAITING
        spread = DIGITS.index(self._context.nuid.short(1)) / len(DIGITS)
        at = now + delay_ns + int(spread * _JITTER_NS_MAX)
        self._context.deadlines.schedule(self, at)

    def _retry_ns(self) -> int:
        return min(_RETRY_NS * self._failures, _RETRY_NS_MAX)

    # -- asking ----------------------------------------------------------------------------

    def _ask(self, now: int) -> None:
        self._stage = _Stage.ASKED
        self._has_asked = True
        self._last_consumer_seq = 0
        deliver_subject = self._request.new_deliver_subject()
        inbox = b"%bR.%b" % (OWN_INBOX, self._context.nuid.short().encode())
        self._deliveries = self._subscribe(deliver_subject.encode())
        self._answers = self._subscribe(inbox)
        subject, body = self._request.message(self._reader.position, deliver_subject)
        lines = [(_REQUIRED_LEVEL, b"%d" % min(self._request.kind.level, API_LEVEL))]
        identity = self._reader.identity
        if identity is not None:
            lines.append((IDENTITY, identity))
        if self._source.consumer is not None and identity is None:
            lines = []
        block = header_block.build(lines) if lines else b""
        self._context.output.publish(subject, body, reply=inbox, headers=block)
        is_prepared = self._source.consumer is not None
        patience = _PREPARED_SETUP_NS_MAX if is_prepared else _SETUP_NS_MAX
        self._context.deadlines.schedule(self, now + patience)

    def _subscribe(self, subject: bytes) -> Subscription:
        subscription = Subscription(subject, self)
        self._context.sublist.insert(subscription)
        return subscription

    def _disconnect(self) -> None:
        for subscription in (self._deliveries, self._answers):
            if subscription is not None and not subscription.closed:
                self._context.sublist.remove(subscription)
        self._deliveries = self._answers = None
        self._early.clear()

    # -- hearing ---------------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Take deliveries, statuses, and the answer to the request; nothing that clients send."""
        if not is_from_server(stretch.sender):
            return
        run, start = stretch.run, stretch.start
        if stretch.subscription is self._answers:
            self._answered(run.headers(start), run.payload(start), stretch.now)
        elif stretch.subscription is self._deliveries:
            if self._stage is _Stage.ASKED:
                self._early.append((run, start, stretch.stop))
            elif self._stage is _Stage.RUNNING:
                self._take(run, start, stretch.stop, stretch.now)

    def _answered(self, headers: bytes, body: bytes, now: int) -> None:
        answer = _decoded(body)
        if answer is None or self._stage is not _Stage.ASKED:
            return
        assert self._answers is not None
        self._context.sublist.remove(self._answers)
        error = _refusal(answer)
        if error is None and self._source.consumer is not None:
            config = answer.get("config")
            policy = config.get("ack_policy") if isinstance(config, dict) else ""
            error = None if policy == "flow_control" else self._request.kind.needs_flow_control()
        if not self._incidents or error is not None:
            self.error = error
        if error is not None:
            self._refused(error, now)
            return
        delivered = answer.get("delivered")
        if not isinstance(delivered, dict):
            return
        self._failures = 0
        self._made_name = str(answer.get("name", ""))
        self._stage = _Stage.RUNNING
        self._heard_at = self.active_at = now
        self._last_consumer_seq = _count(delivered.get("consumer_seq"))
        self._held = self._last_consumer_seq, _count(delivered.get("stream_seq"))
        self.lag = _count(answer.get("num_pending"))
        self._context.deadlines.schedule(self, now + _SILENCE_NS_MAX)
        self._reader.begin(self._held[1], header_block.get(headers, IDENTITY) or b"", now)
        early, self._early = self._early, []
        for run, start, stop in early:
            self._take(run, start, stop, now, is_early=True)

    def _refused(self, error: ApiError, now: int) -> None:
        if error.err_code == errors.CONSUMER_STREAM_IDENTITY_MISMATCH("").err_code:
            self.error = None
            self._reader.start_over()
            self._wait(_FIRST_ATTEMPT_NS, now)
            return
        self._failures += 1
        self._wait(self._retry_ns(), now)

    def _take(
        self, run: PubRun, start: int, stop: int, now: int, *, is_early: bool = False
    ) -> None:
        """Take a stretch of what came to the deliver subject.

        Args:
            is_early: it came before the answer; a prepared consumer may have sent it before it was
                reset, so it need not be what is expected next.
        """
        if self._stage is not _Stage.RUNNING:
            return  # the messages before were refused
        self._heard_at = self.active_at = now
        if not run.reply(start).startswith(_ACK):
            for at in range(start, stop):
                self._take_status(run.headers(at), run.reply(at), now)
            return
        numbers = delivery_numbers(run, start, stop, self._made_name.encode())
        if numbers is None:
            return
        sequences, consumer_seqs, timestamps, pending = numbers
        if consumer_seqs[0] <= self._last_consumer_seq:
            return
        expected = range(self._last_consumer_seq + 1, self._last_consumer_seq + stop - start + 1)
        if consumer_seqs != list(expected):
            if not is_early:
                self._wait(0, now)  # something is missing
            return
        is_taken = self._reader.take(Arrival(run, start, sequences, timestamps), now)
        # Counted as in the genuine server, where a single message left is no lag.
        refused = sum(sequence > self._reader.position for sequence in sequences)
        self.lag = max(pending + max(refused - 1, 0) - 1, 0)
        if not is_taken:
            self._wait(_AGAIN_NS, now)
            return
        self._last_consumer_seq = consumer_seqs[-1]
        if self._reader.is_complete:
            self._held = consumer_seqs[-1], sequences[-1]
        if self._incidents:
            self._recovered()

    def _take_status(self, headers: bytes, reply: bytes, now: int) -> None:
        status = header_block.status(headers)
        if status.endswith(_FLOW_CONTROL):
            self._answer_flow_control(reply)
        elif status.endswith(_HEARTBEAT):
            last = header_block.get(headers, LAST_CONSUMER_SEQ) or b""
            if _is_above(last, self._last_consumer_seq):
                self._wait(0, now)
            elif stalled := header_block.get(headers, _STALLED):
                self._answer_flow_control(stalled)

    def _answer_flow_control(self, subject: bytes) -> None:
        """Say up to where everything is held; for a consumer with acks by flow control that is the
        ack."""
        if subject:
            block = header_block.build(
                [
                    (LAST_CONSUMER_SEQ, b"%d" % self._held[0]),
                    (LAST_STREAM_SEQ, b"%d" % self._held[1]),
                ]
            )
            self._context.output.publish(subject, b"", headers=block)


def _decoded(body: bytes) -> dict[str, Any] | None:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return answer if isinstance(answer, dict) else None


def _refusal(answer: dict[str, Any]) -> ApiError | None:
    error = answer.get("error")
    if not isinstance(error, dict):
        return None
    return ApiError(
        _count(error.get("code")), _count(error.get("err_code")), str(error.get("description", ""))
    )


def _is_above(digits: bytes, number: int) -> bool:
    return digits.isdigit() and len(digits) <= _DIGITS_MAX and int(digits) > number


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
