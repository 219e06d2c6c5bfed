"""Pull consumers: requests wait in a queue, and messages are dealt out to them.

Messages go out a window at a time; when several requests wait, each message goes to the next one in
turn, so that workers share fairly. A request leaves with a status, or silently when it has got all
it wanted or nobody listens on its inbox any more. Statuses are byte-exact: client libraries match
on them (docs/reference/consumers.md#statuses).
"""

from __future__ import annotations

import dataclasses
from itertools import islice
from operator import itemgetter

from jetstream_server import API_LEVEL
from jetstream_server.base import limits
from jetstream_server.base.clock import NEVER
from jetstream_server.core.match import Match
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.dealing import deal, picked
from jetstream_server.jetstream.consumers.delivery import room_for_all
from jetstream_server.jetstream.consumers.delivery_batch import DeliveryBatch
from jetstream_server.jetstream.consumers.inactivity import Inactivity
from jetstream_server.jetstream.consumers.late_endings import LateEndings
from jetstream_server.jetstream.consumers.priority import (
    LAST_PRIORITY,
    PassedOver,
    Pin,
    is_overflowing,
    refusal,
)
from jetstream_server.jetstream.consumers.progress.cursor import SUBJECTS_AT_ONCE
from jetstream_server.jetstream.consumers.progress.selection import shortened
from jetstream_server.jetstream.consumers.pull_request import PullRequest, parse_request
from jetstream_server.jetstream.consumers.supply import (
    OFFER_UNITS,
    OFFERS_AT_ONCE,
    OFFERS_FREE,
    UNITS_AT_ONCE,
    Offer,
    Supply,
)
from jetstream_server.jetstream.consumers.waiting_requests import WaitingRequests
from jetstream_server.jetstream.wire.go_duration import format_duration
from jetstream_server.protocol import headers

# What one consumer sends in one turn before others get theirs; the rest follows in the next turn.
TURN_BYTES = limits.OUTBOX_LOW_BYTES
_REQUESTS_OF_UNIT = 4  # of the workload: so many are taken in 0.1 ms
_NO_MESSAGES = b"404 No Messages"
_WRONG_PIN = b"423 Nats-Wrong-Pin-Id"
_ANY_COUNT = 1 << 62
# Requests that are served together, a message to each if more wait; and that are looked at before
# others get their turn: clients may have very many wait.
_TURNS_AT_ONCE = 256
_LOOKED_AT_MAX = 600
_HEARD_AT_ONCE = 400  # of which it is looked up whether anybody listens
_REACHED_AS_LOOKED_AT = 4  # so many subscriptions whose clients may not read
_WAITING_OF_UNIT = 1000  # of the workload, to add up what all of them want
_HEARD_OF_UNIT = 30  # to look up whether anybody listens
# One part in this many of the smallest byte limit is dealt out at once: replies are charged, too.
_SHARE = 8


class Pull:
    """The requests of one consumer. A Receiver for MSG.NEXT.

    Attributes:
        pin: the chosen client of a `pinned_client` consumer.
    """

    def __init__(self, shared: ConsumerContext, supply: Supply, inactivity: Inactivity) -> None:
        self._shared = shared
        self._supply = supply
        self._inactivity = inactivity
        self._waiting = WaitingRequests()
        self._passed_over = PassedOver()
        self._looked_at = 0  # in this turn
        self._in_vain = 0  # looked at in a row, over turns, without one that can take anything
        self._heard = 0  # of the first that wait, whose replies were looked up last
        self._none_expires_before = NEVER  # of those that wait
        self._searches = False  # whether a search for messages goes on in the next turn
        self._is_behind = False  # whether it is not known yet what there is to send
        self.pin = Pin()

    # -- requests come in ------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Take requests, as far as there is time for them."""
        run, answers, workload = stretch.run, stretch.answers, self._shared.stream.context.workload
        for at in stretch.indices:
            if answers is not None and not workload.takes(1 / _REQUESTS_OF_UNIT, answers):
                answers.postpone(stretch.postponed_from(at))
                workload.wait(answers.look_again, answers)
                return
            reply = run.reply(at)
            if reply:
                block = run.headers(at)
                level = headers.get(block, b"Nats-Required-Api-Level") if block else None
                self.request(reply, run.payload(at), stretch.now, level)

    def request(self, reply: bytes, body: bytes, now: int, level: bytes | None = None) -> None:
        """Take one request: queue it, or refuse it with a status."""
        shared = self._shared
        self._inactivity.touch(now)
        if shared.delivery.match(reply).empty:
            return
        if shared.config.is_push:
            shared.delivery.status(reply, b"409 Consumer is push based")
            return
        if level is not None and not _offers_level(level):
            shared.delivery.status(reply, b"412 Required Api Level")
            return
        request = parse_request(reply, body, now, shared.stream.context.workload.spend)
        if isinstance(request, str):
            line = b"400 Bad Request - " + request.encode()
            shared.delivery.status(reply, line)
            return
        if request.is_text:
            request.priority = LAST_PRIORITY
        line = self._refusal(request, now)
        if line:
            shared.delivery.status(reply, line)
            return
        if 0 < request.expires_at <= now:
            shared.delivery.status(reply, b"408 Request Timeout", request.pending_fields)
            return
        if request.no_wait and not self._admit_no_wait(request):
            return
        if len(self._waiting) >= shared.config.max_waiting:
            self._prune(now)
        if len(self._waiting) >= shared.config.max_waiting:
            # A client that waits for heartbeats would take the status for the end of its request.
            if not request.heartbeat_ns:
                shared.delivery.status(reply, b"409 Exceeded MaxWaiting")
            return
        self._enqueue(request)
        shared.wake()

    def _refusal(self, request: PullRequest, now: int) -> bytes:
        config = self._shared.config
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

    def _admit_no_wait(self, request: PullRequest) -> bool:
        """Refuse a no_wait request that can get nothing; True if it is to be queued."""
        progress = self._shared.progress
        self._is_behind = self._is_behind or not progress.cursor.look_ahead(SUBJECTS_AT_ONCE)
        if self._is_behind:
            return True  # if there is nothing, that is answered when it is known
        available = progress.cursor.num_pending() + progress.redelivery.queued
        if not available:
            if not request.expires_at:
                self._shared.delivery.status(request.reply, _NO_MESSAGES)
                return False
        else:
            units = len(self._waiting) / _WAITING_OF_UNIT
            self._shared.stream.context.workload.spend(units)
            if available < sum(waiting.batch for waiting in self._waiting):
                self._shared.delivery.status(request.reply, b"408 Requests Pending")
                return False
        return True

    def _enqueue(self, request: PullRequest) -> None:
        is_prioritized = self._shared.config.priority_policy == "prioritized"
        # Where priorities count no more, nobody comes before those who have waited.
        self._waiting.add(request, request.priority if is_prioritized else LAST_PRIORITY + 1)
        self._watch(request)

    def _rotate(self, served: list[PullRequest]) -> None:
        """Have requests wait behind all others, or behind their equals."""
        if len(self._waiting) >= 2:
            self._waiting.move_back(served)
            self._passed_over.gone(len(served))

    def _watch(self, request: PullRequest) -> None:
        if 0 < request.expires_at < self._none_expires_before:
            self._none_expires_before = request.expires_at
        if request.deadline:
            self._shared.timers.schedule(request, request.deadline)

    def _drop(self, request: PullRequest, line: bytes = b"", fields: bytes = b"") -> None:
        self._waiting.remove(request)
        self._passed_over.gone(1)
        self._shared.timers.cancel(request)
        if line:
            self._shared.delivery.status(request.reply, line, fields)

    # -- messages go out -------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Serve the waiting requests with what there is."""
        shared = self._shared
        self._is_behind = bool(self._waiting) and not shared.progress.cursor.look_ahead(
            SUBJECTS_AT_ONCE
        )
        if self._is_behind:
            shared.wake()
            return
        budget, offers, self._looked_at = TURN_BYTES, 0, 0
        workload = shared.stream.context.workload
        enough = workload.used + UNITS_AT_ONCE
        while self._waiting:
            if (
                budget <= 0
                or offers == OFFERS_AT_ONCE
                or self._looked_at > _LOOKED_AT_MAX
                or workload.used >= enough
            ):
                shared.wake()
                return
            offers += 1
            if offers > OFFERS_FREE:
                workload.spend(OFFER_UNITS)
            sent = self._serve_next(budget, now)
            if sent is None:
                if self._searches:
                    shared.wake()
                    return
                break
            if shared.delivery.under_way is not None:
                shared.wake()
                return
            budget -= sent
        if not shared.is_blocked and shared.progress.room:
            self._end_no_wait()

    def _serve_next(self, budget: int, now: int) -> int | None:
        """Serve those whose turn it is; return the bytes queued, None when nothing can be sent."""
        shared = self._shared
        self._searches = False
        self._supply.pass_over(now)
        if self._supply.is_searching:
            self._searches = True
            return None
        available = self._supply.count
        policy, is_many = shared.config.priority_policy, len(self._waiting) > _TURNS_AT_ONCE
        turns_max = 1 if is_many and policy == "overflow" else _TURNS_AT_ONCE
        turns = self._pick_turns(min(available, turns_max), now) if available else []
        if not turns:
            return None
        request, match = turns[0]
        is_limited = any(request.limits_bytes for request, _ in turns)
        count_max, budget = room_for_all(budget, *(each for _, each in turns))
        room = min(sum(request.batch for request, _ in turns), count_max)
        is_part = self._searches or (is_many and len(turns) == turns_max)
        if is_part:
            room = min(room, len(turns))  # the others come before these get more
        is_shared = len(self._waiting) > 1
        if is_shared and is_limited and not (request.is_text or shared.config.priority_policy):
            sent = self._deal_within(turns, room if is_part else _ANY_COUNT, budget, now)
            if sent:
                return sent
        if is_shared and (is_limited or (request.is_text and shared.config.priority_policy)):
            # Whether the next one fits, or somebody can be pinned, may change with each message.
            room = 1
        elif policy == "overflow" and not is_many:
            room = min(room, self._steady_count())
        offer = self._supply.prepare(room, budget, now)
        if offer is None:
            self._searches = self._supply.is_searching
            return None
        extra = b""
        if shared.config.priority_policy == "pinned_client":
            if not request.is_text:
                self._pin(request, now)
            extra = b"Nats-Pin-Id: %b\r\n" % self.pin.id.encode()
        if is_limited:
            return self._serve(request, match, offer, extra, now)
        outpinned = self._outpinned(turns, len(offer.window)) if extra else []
        sent = self._deal(turns, offer, extra, now)
        for other in outpinned:
            self._drop(other, _WRONG_PIN, other.pending_fields)
        return sent

    def _deal_within(
        self, turns: list[tuple[PullRequest, Match]], count_max: int, budget: int, now: int
    ) -> int:
        """Deal out to requests with byte limits what is sure to fit even the smallest limit.

        Returns:
            The bytes queued; 0 when it has to be looked at message by message.
        """
        shared = self._shared
        if shared.progress.redelivery.queued or shared.delivery.headers_only:
            return 0
        limited = [(at, request) for at, (request, _) in enumerate(turns) if request.limits_bytes]
        limit = min(request.max_bytes for _, request in limited)
        # Up to the first one that is complete, as its status follows right after its last message.
        room = min(
            (request.batch - 1) * len(turns) + at + 1 for at, (request, _) in enumerate(turns)
        )
        room = min(room, count_max)
        offer = self._supply.prepare(room, min(budget, limit // _SHARE), now)
        if offer is None:
            return 0
        whole = self._supply.preview(offer, len(offer.window))
        count, reply_bytes = shared.delivery.even_stretch(whole)
        offer = dataclasses.replace(offer, window=shortened(offer.window, count))
        sizes = offer.window.sizes
        if sum(sizes) + count * reply_bytes > limit:
            return 0
        shares = deal([request.batch for request, _ in turns], count)
        for at, request in limited:
            for share in shares[at]:
                own = sizes[share.start : share.stop : share.step]
                request.max_bytes -= sum(own) + reply_bytes * len(share)
        sent = self._deal(turns, offer, b"", now)
        for _, request in limited:
            if not request.batch:
                line = b"409 Batch Completed"
                shared.delivery.status(request.reply, line, request.pending_fields)
        return sent

    def _pick_turns(self, count_max: int, now: int) -> list[tuple[PullRequest, Match]]:
        """Return the requests that are to get the next messages in turn, at most this many, and
        drop those met on the way that are over.

        What makes them eligible is the same for all of them, and stays so while they are served
        (`_steady_count`).
        """
        shared = self._shared
        policy = shared.config.priority_policy
        turns: list[tuple[PullRequest, Match]] = []
        over: list[tuple[PullRequest, bytes]] = []
        blocked: list[PullRequest] = []
        # Those that were looked at in vain before are passed over, as long as that holds.
        passed_over, progress = self._passed_over, shared.progress
        pending = progress.cursor.num_pending() if policy == "overflow" else 0
        passed_over.follow(policy, self.pin.id, pending, len(progress.pending))
        is_beginning, passed = True, 0
        for request in islice(self._waiting, passed_over.count, None):
            if len(turns) >= count_max:
                break
            if self._looked_at > _LOOKED_AT_MAX:
                self._searches = True
                break
            self._looked_at += 1
            passed += 1
            if turns and policy == "prioritized" and request.priority != turns[0][0].priority:
                break
            if turns and policy == "pinned_client" and request.pin != self.pin.id:
                continue
            if 0 < request.expires_at <= now:
                over.append((request, b"408 Request Timeout"))
                continue
            # Who is not to be served is not looked up either: that takes longer.
            if policy and not self._claim_turn(request, policy, over):
                is_beginning = is_beginning and passed_over.include(request)
                continue
            is_beginning = False
            match = shared.delivery.match(request.reply)
            if match.empty:
                over.append((request, b""))
                continue
            self._looked_at += match.size // _REACHED_AS_LOOKED_AT
            if shared.delivery.is_congested(match):
                shared.block(match)
                blocked.append(request)
                continue
            turns.append((request, match))
            if policy == "pinned_client" and not self.pin.id:
                break  # it is the one to be pinned, unless it can name no group
        known = passed_over.count
        for request, line in over:
            self._drop(request, line, request.pending_fields if line else b"")
        passed_over.count = known  # those were not among them
        if not self._searches or turns:
            self._in_vain = 0
        if self._searches and blocked:
            # Or clients that do not read would keep those behind them waiting for ever.
            self._waiting.move_back(blocked)
            if not turns:
                self._in_vain += passed
            if self._in_vain >= len(self._waiting):
                self._searches, self._in_vain = False, 0
        return turns

    def _outpinned(self, turns: list[tuple[PullRequest, Match]], count: int) -> list[PullRequest]:
        """Return the requests with another pin whose turn comes up among so many messages."""
        served = {request for request, _ in turns}
        ahead = 0
        outpinned: list[PullRequest] = []
        for request in self._waiting:
            if ahead >= count:
                break
            self._looked_at += 1
            if request in served:
                ahead += 1
            elif request.pin and request.pin != self.pin.id:
                outpinned.append(request)
        return outpinned

    def _steady_count(self) -> int:
        """Return how many messages may go before a minimum is met, or no longer met."""
        progress = self._shared.progress
        pending, ack_pending = progress.cursor.num_pending(), len(progress.pending)
        self._looked_at += len(self._waiting)
        changes = [
            change
            for request in self._waiting
            for change in (
                pending - request.min_pending + 1 if request.min_pending > 0 else 0,
                request.min_ack_pending - ack_pending,
            )
            if change > 0
        ]
        return min(changes, default=_ANY_COUNT)

    def _deal(
        self, turns: list[tuple[PullRequest, Match]], offer: Offer, extra: bytes, now: int
    ) -> int:
        """Deal an offer out to requests in turn, a message to each; return the bytes queued.

        What goes to one subscription is sent together and in order, whichever of its requests it is
        for: clients ask again before the last request is used up, on the same inbox or on another
        that the same wildcard subscription reads.
        """
        shared = self._shared
        count = len(offer.window)
        batch = self._supply.take(offer, count, now)
        shares = deal([request.batch for request, _ in turns], count)
        last_places: list[tuple[int, PullRequest]] = []
        outlets: dict[object, tuple[Match, list[range]]] = {}
        for (request, match), share in zip(turns, shares, strict=True):
            if not share:
                break  # nor is there anything for those after it
            outlets.setdefault(match.only or request.reply, (match, []))[1].extend(share)
            taken = sum(map(len, share))
            request.delivered += taken
            request.batch -= taken
            if request.batch:
                last_places.append((share[-1][-1], request))
                self._restart_heartbeat(request, now)
            else:
                self._drop(request)
        last_places.sort(key=itemgetter(0))
        self._rotate([request for _, request in last_places])
        if len(outlets) == 1:
            return shared.delivery.send(turns[0][1], batch, None, extra)
        return sum(
            shared.delivery.send(match, batch, picked(ranges), extra)
            for match, ranges in outlets.values()
        )

    def _restart_heartbeat(self, request: PullRequest, now: int) -> None:
        """Note that a request got something."""
        if request.heartbeat_ns:
            request.heartbeat_at = now + request.heartbeat_ns
            self._watch(request)

    def _claim_turn(
        self, request: PullRequest, policy: str, over: list[tuple[PullRequest, bytes]]
    ) -> bool:
        """Tell whether a policy lets a request be served now; one with a wrong pin is over."""
        progress = self._shared.progress
        if policy == "overflow":
            pending = progress.cursor.num_pending()
            return is_overflowing(request, pending, len(progress.pending))
        if policy != "pinned_client" or request.pin == self.pin.id:
            return True
        if request.pin:
            over.append((request, _WRONG_PIN))
            return False
        return not self.pin.id

    def _serve(
        self, request: PullRequest, match: Match, offer: Offer, extra: bytes, now: int
    ) -> int:
        """Send as much of an offer as a request takes; return the bytes queued."""
        shared = self._shared
        count = len(offer.window)
        if request.limits_bytes:
            count = self._charge(request, self._supply.preview(offer, count))
            if not count:
                line = b"409 Message Size Exceeds MaxBytes"
                self._drop(request, line, request.pending_fields)
                return 0
        sent = shared.delivery.send(match, self._supply.take(offer, count, now), None, extra)
        request.batch -= count
        request.delivered += count
        self._restart_heartbeat(request, now)
        if not request.batch:
            line = b"409 Batch Completed" if request.limits_bytes else b""
            self._drop(request, line, request.pending_fields)
        else:
            self._rotate([request])
        return sent

    def _charge(self, request: PullRequest, batch: DeliveryBatch) -> int:
        """Charge the request for what fits its bytes of a batch; return how many messages."""
        delivery = self._shared.delivery
        whole = delivery.charged_bytes(batch)
        if whole is not None and whole <= request.max_bytes:
            request.max_bytes -= whole
            return batch.count
        for at in range(batch.count):
            size = delivery.charged_at(batch, at)
            if size > request.max_bytes:
                return at
            request.max_bytes -= size
        return batch.count

    def _end_no_wait(self) -> None:
        """Answer the no_wait requests that got what there was.

        If `max_ack_pending` holds more back, they wait for acks like any other, but not beyond the
        next heartbeat of any request.
        """
        for request in list(self._waiting.no_wait):
            if request.delivered or not request.expires_at:
                self._drop(request, _NO_MESSAGES)

    # -- the pinned client -----------------------------------------------------------------

    def _pin(self, request: PullRequest, now: int) -> None:
        shared = self._shared
        if not self.pin.id:
            self.pin.id = shared.nuid.next()
            self.pin.group = request.group
            self.pin.pinned_at = now
            shared.advisories.pinned(request.group, self.pin.id, now)
        if request.pin != self.pin.id:
            request.pin = self.pin.id
            self._hold_pin(now)

    def _hold_pin(self, now: int) -> None:
        shared = self._shared
        self.pin.deadline = now + shared.config.priority_timeout
        shared.timers.schedule("pin", self.pin.deadline)

    def unpin(self, reason: str, now: int) -> None:
        """Give up the chosen client; for an `admin` the advisory is sent even if there is none."""
        shared = self._shared
        if self.pin.id or reason == "admin":
            group = self.pin.group or shared.config.priority_groups[0]
            shared.advisories.unpinned(group, reason, now)
        self.pin.clear()
        shared.timers.cancel("pin")
        shared.wake()

    # -- time, and the end -----------------------------------------------------------------

    def tick(self, request: PullRequest, now: int) -> None:
        """A request's time has come: it expired, or a heartbeat is due."""
        if request not in self._waiting:
            return
        if 0 < request.expires_at <= now:
            self._drop(request, b"408 Request Timeout", request.pending_fields)
            return
        if 0 < request.heartbeat_at <= now:
            if not self._shared.is_blocked and not self._is_behind:
                self._end_no_wait()
            if request not in self._waiting:
                return
            if self._shared.delivery.match(request.reply).empty:
                self._drop(request)
                return
            self._shared.delivery.heartbeat(request.reply, self._shared.progress)
            request.heartbeat_at = now + request.heartbeat_ns
        self._watch(request)

    def _prune(self, now: int) -> None:
        """Drop the requests that have expired, of which the timers have yet to tell."""
        if now < self._none_expires_before:
            return  # or each request too many would look at all that wait
        for request in list(self._waiting):
            if 0 < request.expires_at <= now:
                self._drop(request, b"408 Request Timeout", request.pending_fields)
        ends = (each.expires_at for each in self._waiting if each.expires_at)
        self._none_expires_before = min(ends, default=NEVER)

    def drop_unheard(self) -> None:
        """Forget the requests to whose replies nobody listens any more; of very many some, and the
        next ones when it is asked for again."""
        first = self._heard if self._heard < len(self._waiting) else 0
        looked_at = list(islice(self._waiting, first, first + _HEARD_AT_ONCE))
        unheard = [each for each in looked_at if self._shared.delivery.match(each.reply).empty]
        for request in unheard:
            self._drop(request)
        self._shared.stream.context.workload.spend(len(looked_at) / _HEARD_OF_UNIT)
        self._heard = first + len(looked_at) - len(unheard)

    @property
    def num_waiting(self) -> int:
        """Return how many requests wait."""
        return len(self._waiting)

    @property
    def is_waiting(self) -> bool:
        """Return whether there may be somebody to deliver to."""
        return self._waiting.count > 0  # asked with each message

    def stop(self, line: bytes, now: int, *, tells_rest: bool = False) -> None:
        """End all requests with a status if there is one, which may tell what is left of them. The
        consumer stops, and its timers with it."""
        shared, ended = self._shared, self._waiting
        self._waiting, self._passed_over = WaitingRequests(), PassedOver()
        if tells_rest:  # there is no later turn
            for request in ended:
                shared.delivery.status(request.reply, line, request.pending_fields)
        elif line:
            context = shared.stream.context
            deadlines, workload = context.deadlines, context.workload
            LateEndings(ended, line, shared.delivery, deadlines, workload).begin(now)


def _offers_level(level: bytes) -> bool:
    """Tell whether a request's required API level is offered."""
    try:
        return int(level or b"0") <= API_LEVEL
    except ValueError:
        return False
