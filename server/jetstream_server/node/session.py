"""One client's session: what it says is acted on, and what it should hear is queued.

A session reads bytes (`feed`), acts on them when its turn comes (`run`), and is itself the
receiver of its subscriptions. It has no socket: `net` takes its output and closes the connection
once `closing` names a reason.

It puts its parts together and knows what each is for: where it is between greeting and farewell
(`session_state.py`), who it is (`sign_in.py`), what it may do (`rights.py`), what it publishes
(`publishing.py`) and has subscribed to (`client_subscriptions.py`), whether it is still there
(`pings.py`), and what it has yet to be sent (`outbox.py`).

Specification: docs/reference/protocol.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import chain, compress, islice, repeat
from operator import attrgetter, is_
from random import Random
from typing import Any, Protocol
from weakref import ref

from jetstream_server.base.limits import SUBJECT_BYTES_OF_OP
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.answers import Answers
from jetstream_server.core.containment import Containment, Incident
from jetstream_server.core.deliveries import cost_of
from jetstream_server.core.subject import is_literal
from jetstream_server.core.subscription import Sender, Stretch, Subscription, ops_of
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.kernels import frames
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.following import Following
from jetstream_server.node.auth.auth import Gatekeeper, User
from jetstream_server.node.auth.password_check import PasswordChecker
from jetstream_server.node.auth.permissions import SubjectRules
from jetstream_server.node.auth.sign_in import SignIn
from jetstream_server.node.client_subscriptions import ClientSubscriptions
from jetstream_server.node.client_tls import ClientTls
from jetstream_server.node.late_output import LateOutput
from jetstream_server.node.listener import Listener
from jetstream_server.node.outbox import Outbox
from jetstream_server.node.pings import Pings
from jetstream_server.node.publishing import Publishing
from jetstream_server.node.rights import NOBODY, Rights
from jetstream_server.node.session_state import Event, Lifecycle, State
from jetstream_server.node.stats import NodeStats, Traffic
from jetstream_server.node.trace import Trace
from jetstream_server.node.upkeep import Upkeep
from jetstream_server.protocol import encoder
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault
from jetstream_server.protocol.ops import (
    Connect,
    Op,
    Ping,
    Pong,
    PubRun,
    Sub,
    Unsub,
    Violation,
)
from jetstream_server.protocol.parser import OPS_MAX, Parser

_MESSAGES_OF_OP = 2  # of those that are looked at one by one
# What CONNECT counts besides itself; one with a signature takes 0.2 ms.
_OPS_OF_CONNECT = 2
BYTES_OF_READ_OP = 4096  # of messages, which are read in the time of another op
_BYTES_OF_JOINED_OP = 16_384  # of a message that has come in pieces, which are put together
_OPS_OF_SIGNATURE = 20
_OPS_OF_LOOK = 64  # after so many it is looked whether the turn is over
# Messages that are looked at for a client, because it may not be sent all that it listens to.
DELIVERIES_OF_FILTERED = 10
# To end a subscription that has had enough, and to take it out.
_DELIVERIES_OF_ENDING = 6
_DELIVERIES_OF_FOLLOWED = 10  # made in the time in which an import follows a subscription
# Of rules, looked at in the time of an op, a delivery, or a subscription that is looked at again.
PLACES_OF_OP = 16
_PLACES_OF_DELIVERY = 3
_PLACES_OF_REVIEWED = 8
# Subscriptions that a client may have for each of them to be compared with the reply of a message
# that nobody takes. If it has more, it is looked among all that the reply reaches, so many of which
# take 20 ms.
_FEW_OWN = 16
_LOOKED_FOR_OWN_MAX = 200_000
_RECEIVER = attrgetter("receiver")


class Heard(Protocol):
    """Those who are heard in their turn."""

    def note(self, session: Session) -> None:
        """Note that somebody has something to act on."""
        ...


class SessionNode(Protocol):
    """The server, as its clients' sessions know it.

    Attributes:
        name: of the server.
        server_id: its key.
        random: the only source of chance.
        events: how often it has introduced itself in answers and events.
        options: what the operator said.
        authenticator: who may connect.
        password_checker: compares passwords that take long.
        containment: of exceptions that nobody foresaw.
        note: takes what the operator should know: a level and a text.
        stats: what is counted for the server as a whole.
        protocol_trace: takes what clients and server say; None where nobody looks.
        late: what accounts have to send still.
        touched: sessions with output to write, or that are to be closed.
        to_read: how many operations of clients are read in this turn as they come.
        workload: what a turn takes on.
        upkeep: of subscriptions, which takes time.
    """

    name: str
    server_id: str
    random: Random
    events: int
    options: ServerOptions
    authenticator: Gatekeeper
    password_checker: PasswordChecker
    containment: Containment
    note: Callable[[str, str], None]
    stats: NodeStats
    protocol_trace: Trace | None
    workload: Workload
    late: LateOutput
    touched: dict[Session, None]
    to_read: int
    upkeep: Upkeep

    @property
    def fed(self) -> Heard:
        """Return the clients who have something to act on."""
        ...

    @property
    def strangers(self) -> Heard:
        """Return likewise those who have not signed in."""
        ...

    def account_of(self, user: User | None) -> Account:
        """Return the account of a user; unknown clients wait in the global one."""
        ...

    def info(
        self, session: Session, *, connect_info: bool = False, lame_duck: bool = False
    ) -> bytes:
        """Return an INFO line for one client."""
        ...

    def connected(self, session: Session, now: int) -> None:
        """A client has logged in."""
        ...

    def note_output(self, session: Session) -> None:
        """A session has output to write, or is to be closed."""
        ...

    def deadline_changed(self, session: Session) -> None:
        """A session has something to do at another time."""
        ...


class Session:
    """One client.

    Attributes:
        cid: its number, never used again.
        host, port: where it is.
        listener: the listener by which it came.
        start: when it came.
        last_activity: when it was last heard.
        tls: what TLS has told about it.
        parser: makes ops of its bytes.
        unheard_bytes: how much came since it was heard last.
        sign_in: who it says it is.
        user: who it is, None for nobody yet.
        account: where it publishes and subscribes.
        echo: whether it gets what it publishes itself.
        headers: whether it understands HMSG.
        outbox: bytes for its socket.
        has_spoken: whether it has said something since it was written to.
        answers: what is under way to it, and what it asks for that waits.
        is_connected: whether somebody has signed in.
        closing: why it ends, empty while it does not.
        left: why its connection is gone while what it said before is yet to be acted on, empty as
            long as it has not.
        traffic: what it has published and was sent.
    """

    # There may be ten thousand, and where there are more than thirty each takes longer to reach.
    __slots__ = (
        "__weakref__",
        "_hears",
        "_is_info_due",
        "_lifecycle",
        "_node",
        "_ops",
        "_ops_more",
        "_pings",
        "_publishing",
        "_reviews",
        "_rights",
        "_subscriptions",
        "_traced",
        "account",
        "answers",
        "cid",
        "closing",
        "echo",
        "has_spoken",
        "headers",
        "host",
        "is_connected",
        "last_activity",
        "left",
        "listener",
        "outbox",
        "parser",
        "port",
        "sign_in",
        "start",
        "tls",
        "traffic",
        "unheard_bytes",
        "user",
    )

    is_server = False

    def __init__(
        self, node: SessionNode, cid: int, host: str, port: int, now: int, listener: Listener
    ) -> None:
        options, authenticator = node.options, node.authenticator
        self._node = node
        self.cid = cid
        self.host = host
        self.port = port
        self.listener = listener
        self.start = self.last_activity = now
        self.tls = ClientTls()
        self.parser = Parser(
            options.max_control_line, options.max_payload, headers_supported=options.has_headers
        )
        self.sign_in = SignIn(host, listener, authenticator.nonce(), self._password_compared)
        self.user: User | None = authenticator.anonymous()
        self.account: Account = node.account_of(self.user)
        self.echo, self.headers = self.sign_in.wishes.echo, self.sign_in.wishes.headers
        self.outbox = Outbox()
        self.has_spoken = False
        self.answers = Answers(self.outbox, self._note_input, node.containment)
        self.closing = self.left = ""
        self.traffic = Traffic()
        self._lifecycle = Lifecycle()
        # What that allows where it is, at hand.
        self.is_connected, self._hears = False, True
        self._rights = Rights(self.user, self.account.limits, options)
        self._publishing = Publishing(
            ref(self), node, self.answers, self.traffic, self.account, self._rights
        )
        self._subscriptions = ClientSubscriptions()
        # How many of them may not be permitted any more: until that is known each of their messages
        # is looked at.
        self._reviews = 0  # that have yet to end
        self._pings = Pings(now, options.ping_interval_ns)  # when to ask whether it is there
        self._ops: list[Op] = []  # heard, and not acted on
        self.unheard_bytes = 0
        # What this turn's ops count in addition: subscriptions to long subjects, and messages that
        # were looked at one by one.
        self._ops_more = 0
        self._traced: Op | None = None  # the first of them, when the log has it already
        self._is_info_due = False  # with the answer to the first PING after CONNECT
        self._adopt()

    # -- what net calls ----------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes from the socket; they are acted on in the node's next run."""
        if self.closing:
            return
        node, parser, size = self._node, self.parser, len(data)
        if node.to_read > 0:
            joined_bytes = parser.joined_bytes
            ops = parser.feed(data)
            self._ops += ops
            read_bytes = size + parser.joined_bytes - joined_bytes
            node.to_read -= len(ops) + read_bytes // BYTES_OF_READ_OP
        else:
            parser.put_off(data)
        self.unheard_bytes += size
        self.has_spoken = True
        (node.fed if self.is_connected else node.strangers).note(self)

    def take_output(self) -> bytes:
        """Return what is unsent; the caller tells the outbox what becomes of it."""
        self.has_spoken = False
        return self.outbox.take()

    def take_piece(self, bytes_max: int) -> bytes | memoryview:
        """Return so many bytes of what is unsent, or all; the caller tells the outbox what becomes
        of them."""
        self.has_spoken = False
        return self.outbox.take_piece(bytes_max)

    @property
    def backlog_bytes(self) -> int:
        """Return how much output its socket has not taken."""
        return self.outbox.backlog_bytes

    # -- what others want to know of it ------------------------------------------------------

    @property
    def is_put_off(self) -> bool:
        """Return whether it is not heard because of what it has asked for before."""
        return bool(self.answers.postponed)

    @property
    def options(self) -> dict[str, Any]:
        """Return what it said in CONNECT."""
        return self.sign_in.options

    @property
    def rtt_ns(self) -> int:
        """Return how long the way there and back takes, 0 before that is known."""
        return self._pings.rtt_ns

    @property
    def subscriptions(self) -> PartedOrder[bytes, Subscription]:
        """Return what it has subscribed to, by its own names."""
        return self._subscriptions.by_sid

    @property
    def subscription_count(self) -> int:
        """Return how many subscriptions it has."""
        return len(self._subscriptions)

    @property
    def has_postponed(self) -> bool:
        """Return whether it has heard more than it has acted on, and is not to hear more yet."""
        return bool(self.answers.postponed or self._ops or self.parser.later)

    def _note_input(self) -> None:
        """Note that there is something to act on."""
        node = self._node
        (node.fed if self.is_connected else node.strangers).note(self)

    def _happened(self, event: Event) -> None:
        lifecycle = self._lifecycle
        lifecycle.happened(event)
        self.is_connected, self._hears = lifecycle.allowed.is_connected, lifecycle.allowed.hears

    # -- one turn ----------------------------------------------------------------------------

    def run(self, now: int, ops_max: int = sys.maxsize) -> int:
        """Act on what was fed so far: on no more than `ops_max`, of which the last may count for
        more, and as there is room for answers.

        Returns:
            On how much.
        """
        self.last_activity = now
        self.unheard_bytes = 0
        answers = self.answers
        if answers.postponed:
            if not self.closing:
                answers.resume(now)
            if answers.postponed:
                return 0
        if not self.is_connected and self._lifecycle.state is State.GREETED:
            self._happened(Event.SPOKE)
        if not self._hears:
            if self.closing:
                self._ops.clear()
            return 0
        ops, self._ops = self._ops, []
        parser = self.parser
        self._ops_more = number = 0
        if parser.later:
            joined_bytes = parser.joined_bytes
            ops = ops or parser.read_on(min(ops_max, OPS_MAX))
            self._ops_more = (parser.joined_bytes - joined_bytes) // _BYTES_OF_JOINED_OP
            if parser.later:
                self._note_input()
        trace = self._node.protocol_trace
        is_known = self.user is not None
        for op in ops:
            number += 1
            if number + self._ops_more > ops_max or (
                number % _OPS_OF_LOOK == 0 and self._node.workload.is_over
            ):
                self._ops = ops[number - 1 :]
                self._note_input()
                return number - 1 + self._ops_more  # the last one may have counted for many
            if trace is not None and op is not self._traced and not self.sign_in.is_answered:
                trace.arrived(self, op)
            if not is_known and not self._may_say(op):
                self.refuse(faults.AUTHORIZATION_VIOLATION)
                return number
            left = _ACTIONS[type(op)](self, op)
            if left is not None:
                self._traced = left
                self._ops = [left, *ops[number:]]
                # CONNECT is acted on again once the answer is known, which is noted then.
                if not answers.postponed and type(left) is not Connect:
                    self._note_input()
                return number + self._ops_more
            if answers.postponed:
                self._ops = ops[number:]
                break
            if self.closing:
                break
        return number + self._ops_more

    def _may_say(self, op: Op) -> bool:
        """Tell whether somebody who may not have signed in may say this."""
        return (
            self.user is not None
            or isinstance(op, Connect | Violation)
            or not self._node.authenticator.is_required
        )

    def tick(self, now: int) -> None:
        """Look after pings and the time allowed for CONNECT."""
        options, pings = self._node.options, self._pings
        if self._must_sign_in:
            if now >= self.next_deadline():
                self.refuse(faults.AUTHENTICATION_TIMEOUT)
        elif fault := self._rights.expired(now):
            self.refuse(fault)
        elif now >= pings.next_at and not self.closing:
            if pings.has_lost(options.ping_max):
                self._node.stats.stale_connections += 1
                self.refuse(faults.STALE_CONNECTION)
            else:
                pings.sent(now, options.ping_interval_ns)
                self.send(encoder.PING)

    def next_deadline(self) -> int:
        """Return when `tick` has something to do."""
        if self._must_sign_in:
            begun = self.sign_in.asked_at if self.is_connected else self.start
            return begun + self.listener.auth_timeout_ns
        return min([self._pings.next_at, *self._rights.ends])

    @property
    def _must_sign_in(self) -> bool:
        authenticator = self._node.authenticator
        return self._lifecycle.must_sign_in(
            is_required=authenticator.is_required, admits_anonymous=authenticator.admits_anonymous
        )

    # -- output ------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue bytes for the client; a client that does not read is cut off."""
        if self.left:
            return
        if self.closing and self.closing == faults.SLOW_CONSUMER_PENDING_BYTES.reason:
            return
        node = self._node
        node.touched[self] = None
        if node.protocol_trace is not None:
            node.protocol_trace.left(self, data)
        if self.outbox.put(data) > node.options.max_pending and not self.closing:
            self._cut_off()

    def _cut_off(self) -> None:
        """End the connection of a client that does not read; it would not read -ERR either."""
        self._node.stats.slow_consumers += 1
        self.refuse(faults.SLOW_CONSUMER_PENDING_BYTES)
        self.outbox.drop()

    def refuse(self, fault: Fault) -> None:
        """Say -ERR, and close if the fault is one that ends the connection."""
        if fault.text:
            self.send(encoder.err(fault.text))
        if fault.closes:
            self.close(fault.reason)

    def accept(self) -> None:
        """Say +OK, if the client wants to hear it."""
        if self.sign_in.wishes.verbose:
            self.send(encoder.OK)

    def close(self, reason: str) -> None:
        """End the session once its output is written."""
        if not self.closing:
            self.closing = reason
            self._happened(Event.ENDED)
            # What others say in the same turn goes to those who share a queue group with it.
            self._subscriptions.silence()
            if self.left:
                self._note_input()  # which ends it
            else:
                self._node.note_output(self)

    def give_up(self, incident: Incident, now: int) -> None:
        """End the connection, as an exception may have left its work half done."""
        if not self.closing:
            self._ops.clear()
            self.refuse(faults.INTERNAL)

    def receive(self, stretch: Stretch) -> None:
        """Deliver published messages to the client (the Receiver of its subscriptions)."""
        subscription = stretch.subscription
        if self.closing or subscription.closed:
            return
        permissions = self._rights.permissions
        if permissions is not None and (self._reviews or subscription.is_filtered):
            self._deliver_filtered([subscription], stretch, permissions.subscribe)
            return
        run, start, stop = stretch.run, stretch.start, stretch.stop
        if subscription.max_messages:
            stop = min(stop, start + subscription.max_messages - subscription.delivered)
            if start >= stop:
                return
        data, content_bytes = frames.encode_messages(
            run.chunk, run.fields, start, stop, subscription.sid, self.headers
        )
        self._deliver(subscription, data, stop - start, stretch.now, content_bytes)

    def may_hear(self, subject: bytes) -> bool:
        """Tell whether one of its subscriptions may match a subject."""
        return len(self._subscriptions) > _FEW_OWN or self._subscriptions.hears(subject)

    def receive_for_each(self, subscriptions: list[Subscription], stretch: Stretch) -> None:
        """Deliver published messages once for each of several subscriptions, none of which has
        ended; in one go, unless it may end now."""
        self._receive_for_each(subscriptions, stretch, is_late=False)

    def _receive_for_each(
        self, subscriptions: list[Subscription], stretch: Stretch, *, is_late: bool
    ) -> None:
        run, start, stop = stretch.run, stretch.start, stretch.stop
        permissions = self._rights.permissions
        whole: list[Subscription] = []
        filtered: dict[bytes, list[Subscription]] = {}
        for each in subscriptions:
            if each.max_messages and each.max_messages - each.delivered <= stop - start:
                self.receive(Stretch(run, start, stop, each, stretch.sender, stretch.now))
            elif permissions is None or not (self._reviews or each.is_filtered):
                whole.append(each)
            else:
                queue = each.queue if permissions.subscribe.names_queues else b""
                filtered.setdefault(queue, []).append(each)
        if whole:
            self._send_for_each(whole, run, start, stop, stretch.now)
        for alike in filtered.values():
            assert permissions is not None, "they are filtered"
            self._deliver_filtered(alike, stretch, permissions.subscribe, is_late=is_late)

    def _send_for_each(
        self, subscriptions: list[Subscription], run: PubRun, start: int, stop: int, now: int
    ) -> None:
        """Send messages, if there are any, once for each of some subscriptions."""
        if self.closing or start >= stop:
            return
        count = stop - start
        sids = [each.sid for each in subscriptions]
        data, content_bytes = frames.encode_for_each(
            run.chunk, run.fields, start, stop, sids, self.headers
        )
        self._send_messages(data, count * len(sids), content_bytes, now)
        for each in subscriptions:
            each.delivered += count
            if 0 < each.max_messages <= each.delivered:
                self._end(each)

    def chooses(self, subscription: Subscription, subject: bytes, sender: Sender | None) -> bool:
        """Tell whether the client may be sent messages on a subject."""
        permissions = self._rights.permissions
        if permissions is None:
            return True
        rules = permissions.subscribe
        looked_at = rules.looked_at
        is_delivered = rules.delivers(subject, subscription.queue)
        more = (rules.looked_at - looked_at) // _PLACES_OF_DELIVERY
        self.account.router.spend(DELIVERIES_OF_FILTERED + more)
        return is_delivered

    def _deliver_filtered(
        self,
        subscriptions: list[Subscription],
        stretch: Stretch,
        rules: SubjectRules,
        *,
        is_late: bool = False,
    ) -> None:
        """Deliver those messages of a stretch that the client may be sent, until it has had enough
        of them; whoever has published them waits where there is no time for more.

        Args:
            subscriptions: one, or several about which the rules say the same, and which these
                messages do not end.
            is_late: nobody has counted yet what it takes to deliver them to several.
        """
        run, answers, count = stretch.run, stretch.answers, len(subscriptions)
        queue, router = subscriptions[0].queue, self.account.router
        first = index = stretch.start  # those from `first` on are delivered together
        while index < stretch.stop and not self.closing:
            if count == 1 and subscriptions[0].closed:  # it has had as many as it wanted
                break
            if answers is not None and not router.has_time_for_few:
                answers.postpone(_Filtered(self, subscriptions, stretch, index))
                answers.look_again()
                break
            subject, looked_at = run.subject(index), rules.looked_at
            is_delivered = rules.delivers(subject, queue)
            router.spend(
                DELIVERIES_OF_FILTERED
                + len(subject) // SUBJECT_BYTES_OF_OP
                + (rules.looked_at - looked_at) // _PLACES_OF_DELIVERY
            )
            if is_delivered and is_late and count > 1:
                router.spend(cost_of(1, count, count * run.span(index, index + 1)))
            if not is_delivered:
                self._send_for_each(subscriptions, run, first, index, stretch.now)
                first = index + 1
            index += 1
            if count == 1 and subscriptions[0].max_messages:  # it may have had enough
                self._send_for_each(subscriptions, run, first, index, stretch.now)
                first = index
        self._send_for_each(subscriptions, run, first, index, stretch.now)

    def deliver_frames(
        self,
        subscription: Subscription,
        data: bytes,
        count: int,
        now: int,
        content_bytes: int | None = None,
    ) -> None:
        """Send encoded frames of one of this session's subscriptions.

        Args:
            content_bytes: how many their headers and payloads have, None to be counted.
        """
        if subscription.closed or self.closing:
            return
        if content_bytes is None:
            content_bytes = frames.delivered_bytes(data)
        self._deliver(subscription, data, count, now, content_bytes)

    def _deliver(
        self, subscription: Subscription, data: bytes, count: int, now: int, content_bytes: int
    ) -> None:
        """Send encoded frames; neither the subscription nor the session has ended."""
        subscription.delivered += count
        self._send_messages(data, count, content_bytes, now)
        if 0 < subscription.max_messages <= subscription.delivered:
            self._end(subscription)

    def _end(self, subscription: Subscription) -> None:
        """End a subscription that has had enough messages."""
        if self._subscriptions.remove(subscription):  # one message may end ten thousand of them
            subscription.closed = True
            self.account.router.spend(_DELIVERIES_OF_ENDING)
            self._node.upkeep.give_up(self.account, [subscription])

    def _send_messages(self, data: bytes, count: int, content_bytes: int, now: int) -> None:
        """Send messages to somebody who has not ended."""
        node, expected, traffic = self._node, self._rights.expected, self.traffic
        if expected is not None:
            expected.expect(data, now)
        traffic.out_msgs += count
        traffic.out_bytes += content_bytes
        node.touched[self] = None
        if node.protocol_trace is not None:
            node.protocol_trace.left(self, data)
        if self.outbox.put(data) > node.options.max_pending:
            self._cut_off()

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        """Tell this publisher that nobody listens, for those messages whose reply subject it
        listens to; return how many these are.

        To find its own subscription among thousands that listen to a reply as well takes long, so
        of many such messages it is told of the first ones only.
        """
        told = looked_at = 0
        if not self.sign_in.wishes.no_responders:
            return told
        own = self._subscriptions
        for index in range(start, stop):
            reply = run.reply(index)
            if not reply:
                continue
            if len(own) <= _FEW_OWN:
                subscription = own.plain_to(reply)
            elif looked_at < _LOOKED_FOR_OWN_MAX:
                match = self.account.sublist.match(reply)
                listeners = chain.from_iterable(piece.plain for piece in match.pieces())
                reached = list(islice(listeners, _LOOKED_FOR_OWN_MAX - looked_at))
                looked_at += len(reached)
                are_own = map(is_, map(_RECEIVER, reached), repeat(self))
                subscription = next(compress(reached, are_own), None)
            else:
                break
            if subscription is not None:
                fields = ((b"Nats-Subject", run.subject(index)),)
                frame = encoder.status(reply, subscription.sid, b"503", fields)
                self.deliver_frames(subscription, frame, 1, self.last_activity)
                told += 1
        return told

    def move_on(self) -> None:
        """Tell the client to connect to another server; what it has asked for still counts."""
        if self.is_connected and self.sign_in.wishes.protocol >= 1 and not self._is_info_due:
            self.send(self._node.info(self, lame_duck=True))

    def client_info(self, now: int) -> dict[str, Any]:
        """Describe the client as advisories do."""
        info: dict[str, Any] = {"start": format_time(self.start), "host": self.host}
        info |= {"id": self.cid, "acc": self.account.name}
        user = self.user or NOBODY
        if name := user.name or user.nkey:
            info["user"] = name
        for key, field in (("name", "name"), ("lang", "lang"), ("ver", "version")):
            if value := self.options.get(field):
                info[key] = value
        if self.rtt_ns:
            info["rtt"] = self.rtt_ns
        info["server"] = self._node.name
        if user.claims is not None:
            info |= {"jwt": user.jwt, "issuer_key": user.claims.issuer}
            info["name_tag"] = self.account.name_tag
            if user.claims.nats.tags:
                info["tags"] = list(user.claims.nats.tags)
        return info | {"kind": "Client", "client_type": self.listener.client_type}

    # -- who it is ---------------------------------------------------------------------------

    def _connect(self, op: Connect) -> Connect | None:
        """Act on CONNECT; return it if that is to be done again, once a password is compared."""
        node, sign_in = self._node, self.sign_in
        fault = sign_in.hear(op.options, has_headers=node.options.has_headers)
        self._ops_more += _OPS_OF_SIGNATURE if sign_in.has_signature else _OPS_OF_CONNECT
        self.echo, self.headers = sign_in.wishes.echo, sign_in.wishes.headers
        self._pings.heard_connect(self.last_activity)
        if fault is not None:
            self.refuse(fault)
            return None
        self.parser.headers = sign_in.wishes.headers
        user = sign_in.decide(node.authenticator, node.password_checker, self.last_activity)
        if user is None:
            self._happened(Event.ASKED)
            node.deadline_changed(self)
        elif isinstance(user, Fault):
            if user is faults.AUTHORIZATION_VIOLATION:
                line = f"{self.host}:{self.port} - cid:{self.cid} - authentication error"
                node.note("ERR", line)
            self.refuse(user)
        else:
            self._become(user)
        return op if sign_in.is_waiting else None

    def _password_compared(self) -> None:
        """Go on with CONNECT: what has to be known of the password is."""
        if not self.closing:
            if self._lifecycle.takes(Event.ANSWERED):
                self._happened(Event.ANSWERED)
            self._note_input()
            self._node.deadline_changed(self)

    def _become(self, user: User) -> None:
        """Go on as a user who has signed in."""
        node, was_connected = self._node, self.is_connected
        if was_connected or node.authenticator.is_required:
            node.upkeep.give_up(self.account, self._subscriptions.close())
        self.account.clients.discard(self.cid)
        self.account.traffic.add(self.traffic)
        self.user = user
        self.account = node.account_of(user)
        self.account.traffic.subtract(self.traffic)
        if self.account.is_full:
            self.refuse(faults.ACCOUNT_CONNECTIONS_EXCEEDED)
            return
        self.account.clients.add(self.cid)
        self._happened(Event.ACCEPTED)
        self._is_info_due = True
        self._pings.connected(self.last_activity, node.options.ping_interval_ns)
        node.deadline_changed(self)
        self._adopt()
        if self._rights.permissions is not None:  # which nobody has where all may connect
            for each in self._subscriptions.all():  # that it had before, as somebody else
                self._subscriptions.set_filtered(each, is_filtered=not is_literal(each.subject))
        if not was_connected:
            node.connected(self, self.last_activity)
        self.accept()
        self._leave_at_limit()

    def adopt(self, user: User) -> None:
        """Go on as a user who has other rights now; what they do not cover ends."""
        self.user = user
        self._adopt()
        if self._rights.permissions is not None:
            self._reviews += 1
            self._node.upkeep.review(self, self._subscriptions.doubt())
        self._leave_at_limit()

    def _leave_at_limit(self) -> None:
        """End the connection of somebody with a JWT who has as many subscriptions as are allowed,
        which may be none."""
        most, user = self._rights.subscriptions_max, self.user
        if 0 <= most <= len(self._subscriptions) and user is not None and user.claims is not None:
            self.refuse(faults.SUBSCRIPTIONS_AT_LIMIT)

    def review(self, subscription: Subscription) -> int:
        """End a subscription that the rights of now do not cover; return for how many more than one
        it counts."""
        if self.closing:
            return 0
        subject, queue, rights = subscription.subject, subscription.queue, self._rights
        looked_at = rights.looked_at
        if rights.may_subscribe(subject, queue):
            reaches_further = rights.reaches_further(subject, queue)
            self._subscriptions.set_filtered(subscription, is_filtered=reaches_further)
        else:
            self._end_uncovered(subscription)
        return (rights.looked_at - looked_at) // _PLACES_OF_REVIEWED

    def review_ended(self) -> None:
        """All subscriptions are covered by the rights that were new, or ended."""
        self._reviews -= 1

    def _end_uncovered(self, subscription: Subscription) -> None:
        subject, queue = subscription.subject, subscription.queue
        if self._subscriptions.by_sid.get(subscription.sid) is subscription:
            self.refuse(faults.subscription_denied(subject, queue, subscription.sid))
            self._unsubscribe(subscription)

    def _adopt(self) -> None:
        """Make all parts follow what user and account allow."""
        options, wishes = self._node.options, self.sign_in.wishes
        self._rights = Rights(self.user, self.account.limits, options)
        self.parser.control_line_max = options.max_control_line
        self.parser.payload_max = self._rights.payload_bytes_max
        self._publishing.adopt(self.account, self._rights, wishes, is_connected=self.is_connected)
        if self._rights.ends:
            self._node.deadline_changed(self)

    # -- what it says ------------------------------------------------------------------------

    def _publish(self, run: PubRun) -> PubRun | None:
        late, publishing = self._node.late, self._publishing
        if late.waiting and late.holds_up(self.account):
            return run
        workload, answers = self._node.workload, self.answers
        if workload.promises.much and workload.promises.holds_up(answers):
            answers.postpone(_HeardLater())
            workload.wait(answers.look_again, answers)
            return run
        left = publishing.publish(run, self.last_activity)
        if looked_at := publishing.looked_at:
            self._ops_more += looked_at // _MESSAGES_OF_OP
            publishing.looked_at = 0
        return left

    def _subscribe(self, op: Sub) -> None:
        if self.left:
            return
        if op.sid not in self._subscriptions.by_sid:
            rights, tokens_max = self._rights, self._node.options.max_subject_tokens
            looked_at = rights.looked_at
            fault = self._subscriptions.objection(op, rights, tokens_max)
            is_filtered = fault is None and rights.reaches_further(op.subject, op.queue)
            self._ops_more += (rights.looked_at - looked_at) // PLACES_OF_OP
            if fault is not None:
                self._ops_more += ops_of(op.subject, 0)
                self.refuse(fault)
                return
            told = self.account.sublist.told
            subscription = self._subscriptions.add(op, self, is_filtered=is_filtered)
            following = self.account.subscribe(subscription)
            self._ops_more += ops_of(op.subject, self.account.sublist.told - told)
            if following is not None:
                _Followed(self, following).receive(self.last_activity)
                return
        self.accept()

    def _on_unsub(self, op: Unsub) -> None:
        subscription = self._subscriptions.limited(op)
        if subscription is not None:
            self._unsubscribe(subscription)
        self.accept()

    def _unsubscribe(self, subscription: Subscription) -> None:
        if self._subscriptions.remove(subscription):
            told = self.account.sublist.told
            following = self.account.unsubscribe(subscription)
            self._ops_more += ops_of(subscription.subject, self.account.sublist.told - told)
            if following is not None:
                self._node.upkeep.take_leave(following)

    def _ping(self, op: Ping) -> None:
        self.send(encoder.PONG)
        if self._is_info_due:
            self._is_info_due = False
            if self.sign_in.wishes.protocol >= 1:
                self.send(self._node.info(self, connect_info=True))

    def _pong(self, op: Pong) -> None:
        self._pings.answered(self.last_activity)

    def _violation(self, op: Violation) -> None:
        self.refuse(Fault(op.text, op.reason))

    def leave(self, reason: str) -> Iterator[Subscription]:
        """Go on with what the client has said before it lost the connection: somebody who writes
        and closes has published. It is sent nothing more.

        Returns:
            Its subscriptions, closed, but still in the account's list.
        """
        self.left = reason
        self.outbox.drop()
        self.outbox.socket_holds(0)
        self._note_input()
        return self._subscriptions.close()

    @property
    def is_over(self) -> bool:
        """Return whether it has left, and nothing is to be done any more of what it said."""
        return bool(self.left) and (bool(self.closing) or not self.has_postponed)

    def end(self) -> Iterator[Subscription]:
        """Take no more: the connection is gone.

        Returns:
            Its subscriptions, closed, but still in the account's list.
        """
        self.sign_in.forget(self._node.password_checker)
        self.account.clients.discard(self.cid)
        self.account.traffic.add(self.traffic)
        self._ops.clear()
        self.answers.forget()
        self.parser.end()
        return self._subscriptions.close()


class _Filtered:
    """Messages on their way to a client that may not be sent all of them. Postponable: who
    publishes them is not heard meanwhile."""

    __slots__ = ("_start", "_stretch", "_subscriptions", "_to")

    def __init__(
        self, to: Session, subscriptions: list[Subscription], stretch: Stretch, start: int
    ) -> None:
        self._to = to
        self._subscriptions = subscriptions
        self._stretch = stretch
        self._start = start

    def receive(self, now: int) -> None:
        """Deliver as many of them as a turn has time for."""
        of, left = self._stretch, [each for each in self._subscriptions if not each.closed]
        if not left:
            return
        rest = Stretch(of.run, self._start, of.stop, left[0], of.sender, now)
        if len(left) == 1:
            self._to.receive(rest)
        else:
            self._to._receive_for_each(left, rest, is_late=True)


class _Followed:
    """A subscription that has come, and that very many imports follow. Postponable: the client is
    not heard before they have."""

    __slots__ = ("_following", "_of")

    def __init__(self, of: Session, following: Following) -> None:
        self._of = of
        self._following = following

    def receive(self, now: int) -> None:
        """Have as many of them follow as a turn has time for."""
        of, following, router = self._of, self._following, self._of.account.router
        while not following.is_over and router.has_time:
            router.spend(_DELIVERIES_OF_FOLLOWED * following.go_on())
        if not following.is_over:
            of.answers.postpone(self)
            of.answers.look_again()
        else:
            of.accept()


class _HeardLater:
    """Nothing but that what a client says next is to wait. Postponable."""

    def receive(self, now: int) -> None:
        """Go on."""


# What each op leads to: what is left of it for a later turn.
_ACTIONS: dict[type, Callable[[Session, Any], Op | None]] = {
    Connect: Session._connect,
    PubRun: Session._publish,
    Sub: Session._subscribe,
    Unsub: Session._on_unsub,
    Ping: Session._ping,
    Pong: Session._pong,
    Violation: Session._violation,
}
