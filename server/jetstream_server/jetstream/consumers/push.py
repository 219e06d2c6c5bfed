"""Push consumers: messages go to the deliver subject while somebody listens there.

Without a deliver group a plain subscription makes the consumer active, with one a member of that
queue group does (docs/reference/consumers.md#push). Everybody else on the subject gets a copy. What
slows delivery down: flow control, the rate limit, the recorded pace, and a client that does not
read (`ConsumerContext.is_blocked`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from jetstream_server.base import limits
from jetstream_server.core.handing_over import BYTES_OF_ONE
from jetstream_server.core.match import Match
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.delivery import is_within, room_for_all
from jetstream_server.jetstream.consumers.flow_control import FlowControl
from jetstream_server.jetstream.consumers.inactivity import Inactivity
from jetstream_server.jetstream.consumers.pacing import RateLimit
from jetstream_server.jetstream.consumers.progress.cursor import SUBJECTS_AT_ONCE
from jetstream_server.jetstream.consumers.supply import (
    OFFER_UNITS,
    OFFERS_AT_ONCE,
    OFFERS_FREE,
    UNITS_AT_ONCE,
    Offer,
    Supply,
)

TURN_BYTES = limits.OUTBOX_LOW_BYTES
_NUMBERS_BYTES = 32  # the numbers of an ack subject, roughly; only flow control uses it
_ASKED_OF_UNIT = 30  # listeners, of the workload


class Push:
    """The delivering side of one push consumer. A Receiver for flow control answers.

    Args:
        take_last: takes the acknowledgement that is in an answer to flow control.

    Attributes:
        is_active: somebody listened at the last look.
    """

    def __init__(
        self,
        shared: ConsumerContext,
        supply: Supply,
        inactivity: Inactivity,
        take_last: Callable[[bytes, int], None],
    ) -> None:
        config = shared.config
        self._shared = shared
        self._supply = supply
        self._handing = shared.stream.context.workload.handing
        self._inactivity = inactivity
        self._take_last = take_last
        self.subject = config.deliver_subject.encode()
        self._group = config.deliver_group.encode()
        self._flow: FlowControl | None = None
        if config.flow_control:
            self._flow = FlowControl(shared.stream.name, shared.name, shared.nuid)
        self._acks_by_flow_control = config.ack_policy == "flow_control"
        self._rate: RateLimit | None = None  # None for no limit
        if config.rate_limit_bps:
            burst = max(shared.stream.config.max_msg_size, 0) or limits.PAYLOAD_BYTES_MAX
            self._rate = RateLimit(config.rate_limit_bps, burst)
        self.is_active = False
        self._searches = False  # whether a search for messages goes on in the next turn

    def retarget(self) -> None:
        """Follow an update of deliver subject or group."""
        config = self._shared.config
        self.subject = config.deliver_subject.encode()
        self._group = config.deliver_group.encode()

    def has_interest(self) -> bool:
        """Tell whether the subscription is there that makes this consumer deliver."""
        match = self._shared.delivery.permitted_match(self.subject)
        if not self._group:
            return match.only is not None or bool(match.some().plain)
        return bool(match.group(self._group))

    def receive(self, stretch: Stretch) -> None:
        """Take answers to flow control questions."""
        if not self._shared.heeds(stretch.sender):
            return
        run = stretch.run
        for at in stretch.indices:
            if self._flow is not None and self._flow.answered(run.subject(at)):
                if self._acks_by_flow_control:
                    self._take_last(run.headers(at), stretch.now)
                self._shared.wake()

    # -- messages go out -------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Deliver what there is to whoever listens."""
        self._follow_interest(now)
        if not self.is_active:
            return
        shared = self._shared
        if not shared.progress.cursor.look_ahead(SUBJECTS_AT_ONCE):
            shared.wake()
            return
        match = shared.delivery.permitted_match(self.subject)
        workload = shared.stream.context.workload
        if match.only is None:  # each is asked whether it reads
            workload.spend(match.some().size / _ASKED_OF_UNIT)
        budget, offers, enough = TURN_BYTES, 0, workload.used + UNITS_AT_ONCE
        within = is_within(match)
        while True:
            if budget <= 0 or offers == OFFERS_AT_ONCE or workload.used >= enough:
                shared.wake()
                return
            offers += 1
            if offers > OFFERS_FREE:
                workload.spend(OFFER_UNITS)
            if shared.delivery.is_congested(match):
                shared.block(match)
                return
            if self._flow is not None and self._flow.is_stalled:
                return
            room = self._handing.room_for(match) if within else sys.maxsize
            if not room:
                self._handing.wait(shared.wake, is_served=budget < TURN_BYTES)
                return
            sent = self._deliver(match, room, budget, now)
            if not sent:
                if self._searches:
                    shared.wake()
                return
            if shared.delivery.under_way is not None:
                shared.wake()
                return
            budget -= sent

    def _deliver(self, match: Match, room: int, budget: int, now: int) -> int:
        """Deliver one batch of so many messages and bytes at most; return the bytes queued, 0 when
        nothing may go."""
        shared = self._shared
        count_max, bytes_max = room_for_all(budget, match)
        if room < sys.maxsize:
            count_max, bytes_max = min(count_max, room), min(bytes_max, room * BYTES_OF_ONE)
        offer = self._supply.prepare(count_max, bytes_max, now)
        self._searches = offer is None and self._supply.is_searching
        if offer is None:
            return 0
        count = len(offer.window)
        if self._flow is None and self._rate is None:
            return self._send(match, offer, count, now)
        extra = len(shared.delivery.ack_head) + _NUMBERS_BYTES
        size = sum(offer.window.sizes) + count * extra
        if self._rate is not None or (self._flow is not None and not self._flow.has_room(size)):
            # Something has to be decided within the batch; without a rate, that is twice a window.
            sizes = [size + extra for size in offer.window.sizes]
            if self._flow is not None:
                count = min(count, self._flow.allowed(sizes))
            if self._rate is not None:
                count, again_at = self._rate.allowed(sizes[:count], now)
                if not count:
                    shared.timers.schedule("pace", again_at)
                    return 0
            size = sum(sizes[:count])
        sent = self._send(match, offer, count, now)
        if self._rate is not None:
            self._rate.spend(size)
        if self._flow is not None and self._flow.sent(size):
            self._send_question()
        elif self._acks_by_flow_control:
            pending = len(shared.progress.pending)
            if pending >= shared.config.max_ack_pending // 2:
                self._ask_for_acks()
        return sent

    def _send(self, match: Match, offer: Offer, count: int, now: int) -> int:
        batch = self._supply.take(offer, count, now)
        self.restart_heartbeat(now)
        return self._shared.delivery.send(match, batch)

    def _ask_for_acks(self) -> None:
        """Ask how far the client came, as nothing else will acknowledge what is pending."""
        if self._flow is not None and not self._flow.asked and self._shared.progress.pending:
            self._flow.ask()
            self._send_question()

    def _send_question(self) -> None:
        assert self._flow is not None
        line = b"100 FlowControl Request"
        self._shared.delivery.status(self.subject, line, reply=self._flow.asked)

    def _follow_interest(self, now: int) -> None:
        """Notice that somebody came or went."""
        is_active = self.has_interest()
        if is_active == self.is_active:
            return
        self.is_active = is_active
        shared = self._shared
        if self._flow is not None:
            self._flow.reset()
        if is_active:
            self._inactivity.end()
            self.restart_heartbeat(now)
        else:
            shared.is_reset_by_server = False  # whoever comes next may be a client
            shared.timers.cancel("heartbeat")
            self.watch_inactivity(now)

    def watch_inactivity(self, now: int) -> None:
        """Unless somebody listens, start the time after which the consumer goes."""
        if not self.is_active:
            self._inactivity.begin(now)

    # -- heartbeats ------------------------------------------------------------------------

    def restart_heartbeat(self, now: int) -> None:
        """Have a heartbeat sent unless something is delivered before it is due."""
        interval = self._shared.config.idle_heartbeat
        if interval and self.is_active:
            self._shared.timers.schedule("heartbeat", now + interval)

    def heartbeat(self, now: int) -> None:
        """Send a heartbeat; it repeats an open flow control question, in case that was lost."""
        self._follow_interest(now)
        if not self.is_active:
            return
        fields = b""
        if self._flow is not None and self._flow.asked:
            fields = b"Nats-Consumer-Stalled: %b\r\n" % self._flow.asked
        self._shared.delivery.heartbeat(self.subject, self._shared.progress, fields)
        if self._acks_by_flow_control:
            self._ask_for_acks()
        self.restart_heartbeat(now)
