"""Push consumers: messages go to the deliver subject while somebody listens there.

Without a deliver group a plain subscription makes the consumer active, with one a member of that
queue group does (docs/reference/consumers.md#push). Everybody else on the subject gets a copy. What
slows delivery down: flow control, the rate limit, the recorded pace, and a client that does not
read (`Consumer.blocked`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.base import limits
from jetstream_server.core.provenance import is_from_server
from jetstream_server.core.sublist import Match
from jetstream_server.core.subscription import Origin, Subscription
from jetstream_server.jetstream.consumers.flow_control import FlowControl
from jetstream_server.jetstream.consumers.pacing import RateLimit
from jetstream_server.protocol.ops import PubRun

if TYPE_CHECKING:
    from jetstream_server.jetstream.consumers.consumer import Consumer

TURN_BYTES = limits.OUTBOX_LOW_BYTES
_COUNT_MAX = 1 << 20
_NUMBERS_BYTES = 32  # the numbers of an ack subject, roughly; only flow control counts with it


class Push:
    """The delivering side of one push consumer. A Receiver for flow control answers.

    Attributes:
        is_active: somebody listened when last looked.
    """

    def __init__(self, consumer: Consumer) -> None:
        config = consumer.config
        self._consumer = consumer
        self.subject = config.deliver_subject.encode()
        self._group = config.deliver_group.encode()
        self._flow: FlowControl | None = None
        if config.flow_control:
            self._flow = FlowControl(consumer.stream.name, consumer.name, consumer.context.nuid)
        self._acks_by_flow_control = config.ack_policy == "flow_control"
        self._rate: RateLimit | None = None
        if config.rate_limit_bps:
            burst = max(consumer.stream.config.max_msg_size, 0) or limits.PAYLOAD_BYTES_MAX
            self._rate = RateLimit(config.rate_limit_bps, burst)
        self.is_active = False

    def retarget(self) -> None:
        """Follow an update of deliver subject or group."""
        config = self._consumer.config
        self.subject = config.deliver_subject.encode()
        self._group = config.deliver_group.encode()

    def has_interest(self) -> bool:
        """Tell whether the subscription is there that makes this consumer deliver."""
        match = self._consumer.delivery.match(self.subject)
        if not self._group:
            return bool(match.plain)
        return any(members[0].queue == self._group for members in match.queues)

    def receive(
        self,
        run: PubRun,
        start: int,
        stop: int,
        subscription: Subscription,
        origin: Origin | None,
        now: int,
    ) -> None:
        """Take answers to flow control questions."""
        if self._consumer.config.sourcing and not is_from_server(origin):
            return  # it was the mirror or source that was asked
        for at in range(start, stop):
            if self._flow is not None and self._flow.answered(run.subject(at)):
                if self._acks_by_flow_control:
                    self._consumer.acks.take_last(run.headers(at), now)
                self._consumer.context.wake(self._consumer)

    # -- messages go out -------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Deliver what there is to whoever listens."""
        self._look(now)
        if not self.is_active:
            return
        consumer = self._consumer
        match = consumer.delivery.match(self.subject)
        budget = TURN_BYTES
        while True:
            if budget <= 0:
                consumer.context.wake(consumer)
                return
            if consumer.delivery.is_congested(match):
                consumer.blocked = True
                return
            if self._flow is not None and self._flow.is_stalled:
                return
            sent = self._deliver(match, budget, now)
            if not sent:
                return
            budget -= sent

    def _deliver(self, match: Match, budget: int, now: int) -> int:
        """Deliver one batch; return the bytes queued, 0 when nothing may go."""
        consumer = self._consumer
        offer = consumer.peek(_COUNT_MAX, budget, now)
        if offer is None:
            return 0
        count = len(offer.window)
        if self._flow is None and self._rate is None:
            return consumer.delivery.send(match, consumer.take(offer, count, now))
        extra = len(consumer.delivery.ack_head) + _NUMBERS_BYTES
        size = sum(offer.window.sizes) + count * extra
        if self._rate is not None or (self._flow is not None and not self._flow.has_room(size)):
            # Something is to be decided within the batch; without a rate, twice a window.
            sizes = [size + extra for size in offer.window.sizes]
            if self._flow is not None:
                count = min(count, self._flow.allowed(sizes))
            if self._rate is not None:
                count, again_at = self._rate.allowed(sizes[:count], now)
                if not count:
                    consumer.timers.schedule("pace", again_at)
                    return 0
            size = sum(sizes[:count])
        sent = consumer.delivery.send(match, consumer.take(offer, count, now))
        if self._rate is not None:
            self._rate.spend(size)
        if self._flow is not None and self._flow.sent(size):
            self._send_question()
        elif self._acks_by_flow_control:
            pending = len(consumer.progress.pending)
            if pending >= consumer.config.max_ack_pending // 2:
                self._ask_for_acks()
        return sent

    def _ask_for_acks(self) -> None:
        """Ask how far the client came, as nothing else will acknowledge what is pending."""
        if self._flow is not None and not self._flow.asked and self._consumer.progress.pending:
            self._flow.ask()
            self._send_question()

    def _send_question(self) -> None:
        assert self._flow is not None
        line = b"100 FlowControl Request"
        self._consumer.delivery.status(self.subject, line, reply=self._flow.asked)

    def _look(self, now: int) -> None:
        """Notice that somebody came or went."""
        is_active = self.has_interest()
        if is_active == self.is_active:
            return
        self.is_active = is_active
        consumer = self._consumer
        if self._flow is not None:
            self._flow.reset()
        if is_active:
            consumer.timers.cancel("inactive")
            self.restart_heartbeat(now)
        else:
            consumer.timers.cancel("heartbeat")
            self.watch_inactivity(now)

    def watch_inactivity(self, now: int) -> None:
        """Start the time after which the consumer goes, if nobody comes to listen."""
        threshold = self._consumer.config.inactive_threshold
        if threshold > 0 and not self.is_active:
            self._consumer.timers.schedule("inactive", now + threshold)

    # -- heartbeats ------------------------------------------------------------------------

    def restart_heartbeat(self, now: int) -> None:
        """Have a heartbeat sent unless something is delivered before it is due."""
        interval = self._consumer.config.idle_heartbeat
        if interval and self.is_active:
            self._consumer.timers.schedule("heartbeat", now + interval)

    def heartbeat(self, now: int) -> None:
        """Send a heartbeat; it repeats an open flow control question, in case that was lost."""
        self._look(now)
        if not self.is_active:
            return
        fields = b""
        if self._flow is not None and self._flow.asked:
            fields = b"Nats-Consumer-Stalled: %b\r\n" % self._flow.asked
        self._consumer.send_heartbeat(self.subject, fields)
        if self._acks_by_flow_control:
            self._ask_for_acks()
        self.restart_heartbeat(now)
