"""Where the answers to requests from other accounts go.

A request that an import carries into an account gets a reply subject of that account,
`_R_.<account>.<request>`, instead of the requester's, which means nothing there. What is published
to it is published to the requester's, in the requester's account. A request to a `singleton`
service has one answer; those to others end with an empty one. An answer that takes longer than the
export allows is lost. Replies that are ack subjects are left alone by imports, so a pull request's
messages can be acknowledged (docs/reference/accounts.md#imports-and-exports; texts and limits
probed with 2.15.1).

Consumers do not publish their deliveries; they look up what is behind the stand-in
(`core/relay.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from jetstream_server.base.nuid import Nuid
from jetstream_server.core.match import Match
from jetstream_server.core.provenance import OWN_INBOX, is_from_server
from jetstream_server.core.relay import REPLY_PREFIX, resolved
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.jetstream.output import Output
from jetstream_server.kernels.parts import PartedNames, PartedSequences
from jetstream_server.node import service_latency
from jetstream_server.node.accounts.crossing import (
    DELIVERIES_OF_CROSSING,
    cross,
    has_to_wait,
    put_off,
)
from jetstream_server.node.router import Router
from jetstream_server.node.service_latency import LatencyTerms, TimedRequest
from jetstream_server.protocol.ops import PubRun
from jetstream_server.structures.deadline_heap import DeadlineHeap

ACK_PREFIX = b"$JS.ACK."
# A reply subject of a fast batch ends with six tokens that speak to the stream.
_FAST_BATCH_MARK, _FAST_BATCH_TOKENS = b".$FI", 6
SINGLETON = "singleton"
_NAME_CHARACTERS = 6
# Requests that nobody answers are forgotten when their time is over, or when there are too many.
_OPEN_MAX = 1 << 18
# How many are reported in a turn because their time is over, which takes some 20 microseconds each,
# in pieces, of which the first one is in time always.
TIMEOUTS_OF_TURN_MAX = 300
TIMEOUTS_OF_PIECE = 50
_DELIVERIES_OF_TIMEOUT = 40  # made in the time in which a request is reported that nobody answered


@dataclass(frozen=True, slots=True)
class ResponseTerms:
    """What an export says about answers: `singleton`, `stream` or `chunked`, how long they may
    take, and how their latency is reported."""

    kind: str
    threshold_ns: int
    latency: LatencyTerms | None = None


class Space(Protocol):
    """An account, as far as answers pass through it: its subjects, and who knows its replies."""

    @property
    def sublist(self) -> Sublist:
        """All its interest."""
        ...

    @property
    def output(self) -> Output:
        """What it sends in the server's name."""
        ...

    @property
    def router(self) -> Router:
        """Who delivers in it."""
        ...

    @property
    def replies(self) -> ServiceReplies:
        """The stand-ins in it for reply subjects of others."""
        ...

    def stir(self) -> None:
        """Have it run in this turn, or in the next one."""
        ...


@dataclass(slots=True)
class _Expected:
    """One request that waits for answers."""

    requester: Space
    reply: bytes
    terms: ResponseTerms
    touched_at: int
    is_looked_at: bool = False  # by a consumer, which delivers without a message to count
    timed: TimedRequest | None = None
    place: int = 0  # among all that wait


class ServiceReplies:
    """The reply subjects that one account knows for requests of others. A Receiver, and a Relay.

    Attributes:
        timed: by when requests must be answered, where that is reported; `run` when one is due.
    """

    def __init__(self, account: Space, random: Random) -> None:
        self._account = account
        self._nuid = Nuid(random)
        self._prefix = b""
        self._open: PartedNames[_Expected] = PartedNames()
        # Their subjects, the oldest first: a dictionary looks for its first key behind all that
        # were there before.
        self._order: PartedSequences[bytes] = PartedSequences()
        self._place = 0  # of the latest one
        self.timed: DeadlineHeap[bytes] = DeadlineHeap(account.stir)

    def __len__(self) -> int:
        return len(self._open)

    def expect(
        self,
        requester: Space,
        reply: bytes,
        terms: ResponseTerms,
        now: int,
        timed: TimedRequest | None = None,
    ) -> bytes:
        """Return the stand-in for a reply subject of another account.

        What the end of it says about a fast batch is said to the stream there.
        """
        if not self._prefix:
            name = self._nuid.short(_NAME_CHARACTERS).encode()
            self._prefix = b"%b%b." % (REPLY_PREFIX, name)
            self._account.sublist.insert(Subscription(self._prefix + b">", self))
        self._forget_late(now)
        tail = b""
        if reply.endswith(_FAST_BATCH_MARK):
            tail = b"." + b".".join(reply.split(b".")[-_FAST_BATCH_TOKENS:])
        subject = self._prefix + self._nuid.short(_NAME_CHARACTERS).encode() + tail
        while subject in self._open:
            subject = self._prefix + self._nuid.short(_NAME_CHARACTERS).encode() + tail
        self._append(subject, _Expected(requester, reply, terms, now, timed=timed))
        if timed is not None:
            self.timed.schedule(subject, now + terms.threshold_ns)
        return subject

    def unserved(self, subject: bytes, now: int) -> None:
        """Expect no answer: nobody has got the request."""
        expected = self._take(subject)
        if expected is not None:
            self.tell_failure(expected.timed, service_latency.SERVICE_UNAVAILABLE, now)
            self.timed.cancel(subject)

    def run(self, now: int) -> None:
        """Report timed requests whose time is over, as many as the turn has time for."""
        router, left = self._account.router, TIMEOUTS_OF_TURN_MAX
        while left > 0 and self.timed.next_at <= now:
            due = self.timed.pop_due(now, min(TIMEOUTS_OF_PIECE, left))
            if not due:
                return  # which is the next is yet to be found, in the next turn
            for subject in due:
                left -= 1
                expected = self._take(subject)
                if expected is not None:
                    self.tell_failure(expected.timed, service_latency.SERVICE_TIMEOUT, now)
            if not router.has_time:
                return

    def tell_failure(self, timed: TimedRequest | None, status: int, now: int) -> None:
        """Report a timed request that got no answer."""
        if timed is not None:
            self._tell(timed, timed.failed(status, self._nuid.next(), now))

    def _tell(self, timed: TimedRequest, metric: bytes) -> None:
        self._account.output.publish_now(timed.subject, metric)

    def _tell_timeout(self, subject: bytes, expected: _Expected, now: int) -> None:
        """Report a request whose time is over, unless it has been reported."""
        if subject in self.timed:
            self.tell_failure(expected.timed, service_latency.SERVICE_TIMEOUT, now)

    def _forget_late(self, now: int) -> None:
        """Drop the oldest that are over; looking once for each new request keeps up."""
        for _ in range(2):
            subject = next(iter(self._order.values()), b"")
            expected = self._open.get(subject)
            if expected is None:
                return
            is_over = now > expected.touched_at + expected.terms.threshold_ns
            if not is_over and len(self._open) < _OPEN_MAX:
                return
            self._take(subject)
            if is_over:
                self._account.router.spend(_DELIVERIES_OF_TIMEOUT)
                self._tell_timeout(subject, expected, now)
                expected.timed = None
            self.timed.cancel(subject)
            if expected.is_looked_at:
                expected.is_looked_at = False
                expected.touched_at = now
                self._append(subject, expected)

    def _append(self, subject: bytes, expected: _Expected) -> None:
        self._place += 1
        expected.place = self._place
        self._order[self._place] = subject
        self._open[subject] = expected

    def _take(self, subject: bytes) -> _Expected | None:
        expected = self._open.get(subject)
        if expected is not None:
            del self._open[subject], self._order[expected.place]
        return expected

    def behind(self, subject: bytes) -> Match | None:
        """Return what the requester's reply subject reaches."""
        expected = self._open.get(subject)
        if expected is None:
            return None
        expected.is_looked_at = True
        match = expected.requester.sublist.match(expected.reply)
        return resolved(match, expected.reply)

    def receive(self, stretch: Stretch) -> None:
        """Hand answers on to whoever asked, as many as the turn has time for."""
        router, answers = self._account.router, stretch.answers
        for index in stretch.indices:
            if has_to_wait(stretch, index):
                return
            if index > stretch.start and answers is not None and not router.has_time:
                put_off(stretch, index, answers)
                return
            router.spend(DELIVERIES_OF_CROSSING)
            self._answer(stretch.run, index, stretch.sender, stretch.now)

    def _answer(self, run: PubRun, index: int, sender: Sender | None, now: int) -> None:
        subject = run.subject(index)
        expected = self._open.get(subject)
        if expected is None:
            return
        if expected.reply.startswith(OWN_INBOX) and not is_from_server(sender):
            return
        terms = expected.terms
        headers, payload, reply = run.headers(index), run.payload(index), run.reply(index)
        is_late = now > expected.touched_at + terms.threshold_ns
        if is_late or terms.kind == SINGLETON or not (headers or payload):
            self._take(subject)
        expected.touched_at = now
        if is_late:
            self._tell_timeout(subject, expected, now)
        self.timed.cancel(subject)
        if is_late:
            return
        if (timed := expected.timed) is not None:
            if expected.requester.sublist.has_interest(expected.reply):
                responder = sender.client_info(now) if sender is not None else None
                self._tell(timed, timed.answered(responder, self._nuid.next(), now))
            else:
                self.tell_failure(timed, service_latency.REQUEST_TIMEOUT, now)
        if reply and not reply.startswith(ACK_PREFIX):
            reply = expected.requester.replies.expect(self._account, reply, terms, now)
        answer = PubRun.single(expected.reply, reply, headers, payload)
        waiting = None if sender is None else sender.answers
        cross(expected.requester.router, answer, None, now, waiting)
