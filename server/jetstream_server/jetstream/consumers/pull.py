"""Pull consumers: requests wait in a queue, and messages are dealt out to them.

One request alone is served a window at a time; when several wait, each message goes to the next of
them in turn, so that workers share fairly. A request leaves with a status, or silently when all it
wanted came or nobody listens on its inbox any more. Statuses are byte-exact: client libraries
match on them (jetstream.md 6.6 with checked-wire-consumers.md 3).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from jetstream_server.base import limits
from jetstream_server.core.sublist import Match
from jetstream_server.core.subscription import Origin, Subscription
from jetstream_server.jetstream.consumers.delivery import timestamp_at
from jetstream_server.jetstream.consumers.priority import Pin, is_overflowing, refusal
from jetstream_server.jetstream.consumers.pull_request import PullRequest, parse_request
from jetstream_server.jetstream.wire.go_duration import format_duration
from jetstream_server.protocol import headers
from jetstream_server.protocol.ops import PubRun

if TYPE_CHECKING:
    from jetstream_server.jetstream.consumers.consumer import Consumer, Offer

# What one consumer sends in one turn before others get theirs; the rest follows in the next turn.
TURN_BYTES = limits.OUTBOX_LOW_BYTES
_NO_MESSAGES = b"404 No Messages"


class Pull:
    """The requests of one consumer. A Receiver for MSG.NEXT.

    Attributes:
        pin: the chosen client of a `pinned_client` consumer.
        active_at: when somebody last asked, for the inactivity timer.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # Insertion order is the order of service; a served request moves to the end.
        self._waiting: dict[PullRequest, None] = {}
        self.pin = Pin()
        self.active_at = 0

    # -- requests come in ------------------------------------------------------------------

    def receive(
        self,
        run: PubRun,
        start: int,
        stop: int,
        subscription: Subscription,
        origin: Origin | None,
        now: int,
    ) -> None:
        """Take requests."""
        for at in range(start, stop):
            reply = run.reply(at)
            if reply:
                block = run.headers(at)
                level = headers.get(block, b"Nats-Required-Api-Level") if block else None
                self.request(reply, run.payload(at), now, level)

    def request(self, reply: bytes, body: bytes, now: int, level: bytes | None = None) -> None:
        """Take one request: queue it, or refuse it with a status."""
        consumer = self._consumer
        consumer.touch(now)
        self.active_at = now
        if consumer.delivery.match(reply).empty:
            return
        if consumer.config.is_push:
            consumer.delivery.status(reply, b"409 Consumer is push based")
            return
        if level is not None and not consumer.offers_level(level):
            consumer.delivery.status(reply, b"412 Required Api Level")
            return
        request = parse_request(reply, body, now)
        if isinstance(request, str):
            line = b"400 Bad Request - " + request.encode()
            consumer.delivery.status(reply, line)
            return
        if request.is_text:
            request.group = next(iter(consumer.config.priority_groups), "")
        line = self._refusal(request, now)
        if line:
            consumer.delivery.status(reply, line)
            return
        if request.no_wait and not self._may_answer_at_once(request):
            return
        if len(self._waiting) >= consumer.config.max_waiting:
            self._prune(now)
        if len(self._waiting) >= consumer.config.max_waiting:
            # A client that waits for heartbeats would take the status for the end of its request.
            if not request.heartbeat_ns:
                consumer.delivery.status(reply, b"409 Exceeded MaxWaiting")
            return
        self._enqueue(request)
        consumer.context.wake(consumer)

    def _refusal(self, request: PullRequest, now: int) -> bytes:
        config = self._consumer.config
        if 0 < config.max_batch < request.batch:
            return b"409 Exceeded MaxRequestBatch of %d" % config.max_batch
        if 0 < config.max_expires < request.expires_at - now:
            limit = format_duration(config.max_expires).encode()
            return b"409 Exceeded MaxRequestExpires of " + limit
        if 0 < config.max_bytes < request.max_bytes:
            return b"409 Exceeded MaxRequestMaxBytes of %d" % config.max_bytes
        line = refusal(config, request)
        if line:
            return line
        if config.priority_policy == "pinned_client" and self.pin.id and request.pin:
            if request.pin != self.pin.id:
                return b"423 Nats-Pin-Id mismatch"
            self._hold_pin(now)
        return b""

    def _may_answer_at_once(self, request: PullRequest) -> bool:
        """Refuse a no_wait request that can get nothing; True when it shall be queued."""
        progress = self._consumer.progress
        available = progress.cursor.num_pending() + progress.redelivery.queued
        if not available:
            if not request.expires_at:
                self._consumer.delivery.status(request.reply, _NO_MESSAGES)
                return False
        elif available < sum(waiting.batch for waiting in self._waiting):
            self._consumer.delivery.status(request.reply, b"408 Requests Pending")
            return False
        return True

    def _enqueue(self, request: PullRequest) -> None:
        if self._consumer.config.priority_policy == "prioritized":
            # A stable sort puts a request behind its equals.
            ordered = sorted((*self._waiting, request), key=lambda waiting: waiting.priority)
            self._waiting = dict.fromkeys(ordered)
        else:
            self._waiting[request] = None
        self._watch(request)

    def _rotate(self, request: PullRequest) -> None:
        if len(self._waiting) > 1:
            del self._waiting[request]
            if self._consumer.config.priority_policy == "prioritized":
                self._enqueue(request)
            else:
                self._waiting[request] = None

    def _watch(self, request: PullRequest) -> None:
        if request.deadline:
            self._consumer.timers.schedule(request, request.deadline)

    def _drop(self, request: PullRequest, line: bytes = b"", fields: bytes = b"") -> None:
        del self._waiting[request]
        self._consumer.timers.cancel(request)
        if line:
            self._consumer.delivery.status(request.reply, line, fields)

    # -- messages go out -------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Serve the waiting requests with what there is."""
        consumer = self._consumer
        budget = TURN_BYTES
        while self._waiting:
            if budget <= 0:
                consumer.context.wake(consumer)
                return
            sent = self._deal(budget, now) if self._can_deal() else self._serve_next(budget, now)
            if sent is None:
                break
            budget -= sent
        if not consumer.blocked and consumer.progress.room:
            self._end_no_wait()

    def _serve_next(self, budget: int, now: int) -> int | None:
        """Serve one request; return the bytes queued, None when nothing can be served."""
        chosen = self._choose(now)
        if chosen is None:
            return None
        request, match = chosen
        # The minimums of an overflow request are looked at for every message.
        is_alone = len(self._waiting) == 1 and not request.has_minimums
        room = request.batch if is_alone else 1
        offer = self._consumer.peek(room, budget, now)
        return None if offer is None else self._serve(request, match, offer, now)

    def _choose(self, now: int) -> tuple[PullRequest, Match] | None:
        """Return the request that is to get the next message, if there is one."""
        policy = self._consumer.config.priority_policy
        for request in list(self._waiting):
            match = self._reach(request, now)
            if match is not None and not (policy and not self._is_eligible(request, policy)):
                return request, match
        return None

    def _reach(self, request: PullRequest, now: int) -> Match | None:
        """Return where a request's messages go, None when it is over or cannot take any now."""
        delivery = self._consumer.delivery
        if 0 < request.expires_at <= now:
            self._drop(request, b"408 Request Timeout", request.pending_fields)
            return None
        match = delivery.match(request.reply)
        if match.empty:
            self._drop(request)
            return None
        if delivery.is_congested(match):
            self._consumer.blocked = True
            return None
        return match

    def _can_deal(self) -> bool:
        """Tell whether several requests wait, and nothing has to be decided for each message."""
        consumer = self._consumer
        return (
            len(self._waiting) > 1
            and not consumer.config.priority_policy
            and not consumer.progress.redelivery.queued
            and not any(request.limits_bytes for request in self._waiting)
        )

    def _deal(self, budget: int, now: int) -> int | None:
        """Deal a window out to the waiting requests in turn, a message to each; return the bytes
        queued, None when there is nothing to deal or nobody to take it.

        What goes to one subscription is sent together and in order, whoever of its requests it is
        for: clients ask again before the last request is used up, on the same inbox or on another
        that the same wildcard subscription reads.
        """
        consumer = self._consumer
        reached = [(request, self._reach(request, now)) for request in list(self._waiting)]
        turns = deque((request, match) for request, match in reached if match is not None)
        if not turns:
            return None
        offer = consumer.peek(sum(request.batch for request, _ in turns), budget, now)
        if offer is None:
            return None
        count = len(offer.window)
        batch = consumer.take(offer, count, now)
        served = [request for request, _ in turns][:count]
        if len({request.reply for request, _ in turns}) == 1:
            # One client that asks ahead: all goes to it, there is only counting to do.
            self._charge([request for request, _ in turns], count)
            for request in served:
                self._restart_heartbeat(request, now)
            return consumer.delivery.send(turns[0][1], batch)
        shares: dict[object, tuple[Match, list[tuple[int, int]]]] = {}
        for at in range(count):
            request, match = turns.popleft()
            _, stretches = shares.setdefault(match.only or request.reply, (match, []))
            if stretches and stretches[-1][1] == at:
                stretches[-1] = (stretches[-1][0], at + 1)
            else:
                stretches.append((at, at + 1))
            request.delivered += 1
            request.batch -= 1
            if request.batch:
                turns.append((request, match))
            else:
                self._drop(request)
        for request, _ in turns:
            del self._waiting[request]
            self._waiting[request] = None
        for request in served:
            self._restart_heartbeat(request, now)
        return sum(
            consumer.delivery.send_stretches(match, batch, stretches)
            for match, stretches in shares.values()
        )

    def _charge(self, requests: list[PullRequest], count: int) -> None:
        """Count messages as dealt out to requests in turn; used up requests leave, and who is
        next stays next."""
        while count and requests:
            rounds = min(count // len(requests), min(request.batch for request in requests))
            if not rounds:
                break
            for request in requests:
                request.delivered += rounds
                request.batch -= rounds
                if not request.batch:
                    self._drop(request)
            count -= rounds * len(requests)
            requests = [request for request in requests if request.batch]
        for request in requests[:count]:  # behind those that are still to get theirs
            request.delivered += 1
            request.batch -= 1
            if request.batch:
                del self._waiting[request]
                self._waiting[request] = None
            else:
                self._drop(request)

    def _restart_heartbeat(self, request: PullRequest, now: int) -> None:
        """Note that a request got something."""
        if request.heartbeat_ns and request in self._waiting:
            request.heartbeat_at = now + request.heartbeat_ns
            self._watch(request)

    def _is_eligible(self, request: PullRequest, policy: str) -> bool:
        progress = self._consumer.progress
        if policy == "overflow":
            pending = progress.cursor.num_pending()
            return is_overflowing(request, pending, len(progress.pending))
        if policy != "pinned_client" or request.pin == self.pin.id:
            return True
        if request.pin:
            self._drop(request, b"423 Nats-Wrong-Pin-Id", request.pending_fields)
            return False
        return not self.pin.id

    def _serve(self, request: PullRequest, match: Match, offer: Offer, now: int) -> int:
        """Send an offer, or as much of it as the request takes; return the bytes queued."""
        consumer = self._consumer
        count = len(offer.window)
        if request.limits_bytes:
            count = self._count_within(request, offer)
            if not count:
                line = b"409 Message Size Exceeds MaxBytes"
                self._drop(request, line, request.pending_fields)
                return 0
        extra = b""
        if consumer.config.priority_policy == "pinned_client":
            self._pin(request, now)
            extra = b"Nats-Pin-Id: %b\r\n" % self.pin.id.encode()
        sent = consumer.delivery.send(match, consumer.take(offer, count, now), extra)
        request.batch -= count
        request.delivered += count
        self._restart_heartbeat(request, now)
        if not request.batch:
            line = b"409 Batch Completed" if request.limits_bytes else b""
            self._drop(request, line, request.pending_fields)
        else:
            self._rotate(request)
        return sent

    def _count_within(self, request: PullRequest, offer: Offer) -> int:
        """Return how many messages of an offer fit the request's bytes, and charge them."""
        delivery, progress = self._consumer.delivery, self._consumer.progress
        window = offer.window
        pending = progress.cursor.num_pending()
        whole = delivery.charged_bytes(window, progress.consumer_seq + 1, pending)
        if whole is not None and whole <= request.max_bytes:
            request.max_bytes -= whole
            return len(window)
        for at in range(len(window)):
            size = window.sizes[at] + delivery.reply_bytes(
                progress.consumer_seq + 1 + at,
                window.sequences[at],
                timestamp_at(window, at),
                max(pending - 1 - at, 0),
            )
            if size > request.max_bytes:
                return at
            request.max_bytes -= size
        return len(window)

    def _end_no_wait(self) -> None:
        """Answer the no_wait requests that got what there was.

        Behind `max_ack_pending` there is more, so they wait for acks like any other.
        """
        for request in list(self._waiting):
            if request.no_wait and (request.delivered or not request.expires_at):
                self._drop(request, _NO_MESSAGES)

    # -- the pinned client -----------------------------------------------------------------

    def _pin(self, request: PullRequest, now: int) -> None:
        consumer = self._consumer
        if not self.pin.id:
            self.pin.id = consumer.context.nuid.next()
            self.pin.group = request.group
            self.pin.pinned_at = now
            consumer.advisories.pinned(request.group, self.pin.id, now)
        if request.pin != self.pin.id:
            request.pin = self.pin.id
            self._hold_pin(now)

    def _hold_pin(self, now: int) -> None:
        consumer = self._consumer
        self.pin.deadline = now + consumer.config.priority_timeout
        consumer.timers.schedule("pin", self.pin.deadline)

    def unpin(self, reason: str, now: int) -> None:
        """Give up the chosen client; who asks for it (`admin`) is told so even if there is none."""
        consumer = self._consumer
        if self.pin.id or reason == "admin":
            group = self.pin.group or consumer.config.priority_groups[0]
            consumer.advisories.unpinned(group, reason, now)
        self.pin.clear()
        consumer.timers.cancel("pin")
        consumer.context.wake(consumer)

    # -- time, and the end -----------------------------------------------------------------

    def tick(self, request: PullRequest, now: int) -> None:
        """A request's time has come: it expired, or a heartbeat is due."""
        if request not in self._waiting:
            return
        if 0 < request.expires_at <= now:
            self._drop(request, b"408 Request Timeout", request.pending_fields)
            return
        if 0 < request.heartbeat_at <= now:
            if self._consumer.delivery.match(request.reply).empty:
                self._drop(request)
                return
            self._consumer.send_heartbeat(request.reply)
            request.heartbeat_at = now + request.heartbeat_ns
        self._watch(request)

    def _prune(self, now: int) -> None:
        for request in list(self._waiting):
            if 0 < request.expires_at <= now:
                self._drop(request, b"408 Request Timeout", request.pending_fields)

    def num_waiting(self) -> int:
        """Return how many requests wait, forgetting those to which nobody listens."""
        for request in list(self._waiting):
            if self._consumer.delivery.match(request.reply).empty:
                self._drop(request)
        return len(self._waiting)

    @property
    def is_waiting(self) -> bool:
        """Return whether there may be somebody to deliver to."""
        return bool(self._waiting)

    def stop(self, status: bytes) -> None:
        """End all requests with a status; `Server Shutdown` tells what is left of them."""
        for request in list(self._waiting):
            fields = request.pending_fields if b"Shutdown" in status else b""
            self._drop(request, status, fields)
