"""One client's protocol state: what it said in CONNECT, its subscriptions, its unsent output.

A session reads bytes (`feed`), acts on them when its turn comes (`run`), and is itself the
receiver of its subscriptions. It has no socket: `net` takes `outbox` and closes the connection
once `closing` names a reason.

Specification: docs/reference/protocol.md.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from jetstream_server.base.clock import SECOND
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.answers import Answers
from jetstream_server.core.containment import Containment, Incident
from jetstream_server.core.subject import is_valid_literal, is_valid_subject
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.kernels import frames, subjects
from jetstream_server.node import reserved
from jetstream_server.node.account import Account
from jetstream_server.node.auth import Arrival, Gatekeeper, User
from jetstream_server.node.connect_options import is_well_typed, known
from jetstream_server.node.door import Door
from jetstream_server.node.expected_replies import ExpectedReplies
from jetstream_server.node.message_trace import MessageTrace
from jetstream_server.node.password_check import PasswordChecker
from jetstream_server.node.password_inquiry import PasswordInquiry
from jetstream_server.node.permissions import Permissions
from jetstream_server.node.stats import NodeStats, Traffic
from jetstream_server.node.trace import Trace
from jetstream_server.node.trace_request import is_of_other_server, trace_request, without_trace
from jetstream_server.node.traced_route import TracedRoute
from jetstream_server.protocol import encoder
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault
from jetstream_server.protocol.ops import (
    STRIDE,
    Connect,
    Op,
    Ping,
    Pong,
    PubRun,
    Sub,
    Unsub,
    Violation,
)
from jetstream_server.protocol.parser import Parser

_NOBODY = User()

# The genuine server measures the round trip about two seconds after CONNECT; before, a client may
# be busy with TLS, where a PING in clear would be out of place.
FIRST_PING_NS = 2 * SECOND

# A trace costs a hundred times what its message does: how much of that one client has in a turn.
TRACE_EVENTS_OF_TURN_MAX = 200


class Host(Protocol):
    """The server, as its clients' sessions know it.

    Attributes:
        name: of the server.
        server_id: its key.
        random: the only source of chance.
        events: how often it was introduced in answers and events.
        options: what the operator said.
        authenticator: who may connect.
        password_checker: compares passwords that take long.
        containment: of exceptions that nobody foresaw.
        note: takes what the operator should know: a level and a text.
        stats: what is counted for the server as a whole.
        protocol_trace: takes what clients and server say; None where nobody looks.
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

    def has_input(self, session: Session) -> None:
        """A session has ops to act on."""
        ...

    def has_output(self, session: Session) -> None:
        """A session has output to write, or is to be closed."""
        ...

    def deadline_changed(self, session: Session) -> None:
        """A session has something to do at another time."""
        ...


class Session:
    """One client."""

    is_server = False

    def __init__(self, node: Host, cid: int, host: str, port: int, now: int, door: Door) -> None:
        self.node = node
        self.cid = cid
        self.host = host
        self.port = port
        self.door = door
        self.certificate_names: list[str] | None = None
        self.certificate = b""  # in DER, of who came with one by TLS
        self.certificates: tuple[bytes, ...] = ()  # the same, and what it came with
        self.tls_version = self.tls_cipher_suite = ""
        self.start = now
        self.last_activity = now
        self.parser = Parser(
            node.options.max_control_line,
            node.options.max_payload,
            headers_supported=node.options.has_headers,
        )
        self.options: dict[str, Any] = {}
        self.credentials: dict[str, str] = {}  # fields of CONNECT, for when it has them not
        self.nonce = node.authenticator.nonce()
        self.user: User | None = node.authenticator.anonymous()
        self.account: Account = node.account_of(self.user)
        self.is_connected = False
        self._has_spoken = False
        self.verbose = True
        self.pedantic = True
        self.echo = True
        self.headers = False
        self.no_responders = False
        self.protocol = 0
        self.subscriptions: dict[bytes, Subscription] = {}
        self.outbox: list[bytes] = []
        self.backlog_bytes = 0
        self.answers = Answers(self, lambda: node.has_input(self), node.containment)
        self.closing = ""
        self.traffic = Traffic()
        self.rtt_ns = 0
        self._ops: list[Op] = []
        self._left: PubRun | None = None  # of the run that was acted on last
        self._traced: PubRun | None = None  # what is left, and was traced with the run
        self._now = now
        self._pinged_at = 0
        self._pings_out = 0
        self._next_ping = now + node.options.ping_interval_ns
        self._info_due = False
        self._is_plain = False
        self._inquiry = PasswordInquiry(host, self._password_compared)
        self._adopt()

    # -- what net calls ----------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes from the socket; they are acted on in the node's next run."""
        if not self.closing:
            self._ops += self.parser.feed(data)
            self.node.has_input(self)

    def take_output(self) -> bytes:
        """Return everything unsent; the caller keeps `backlog_bytes` up to date from here."""
        data = self.outbox[0] if len(self.outbox) == 1 else b"".join(self.outbox)
        self.outbox.clear()
        if self.node.protocol_trace is not None:
            self.node.protocol_trace.left(self, data)
        return data

    # -- one turn ----------------------------------------------------------------------------

    def run(self, now: int, ops_max: int = sys.maxsize) -> int:
        """Act on what was fed so far: on no more than `ops_max`, and as there is room for answers.

        Returns:
            On how much.
        """
        self._now = self.last_activity = now
        self._has_spoken = True
        if self.answers.postponed:
            if not self.closing:
                self.answers.resume(now)
            if self.answers.postponed:
                return 0
        if self._inquiry.is_open:
            return 0
        ops, self._ops = self._ops, []
        if self.parser.has_more and not self.closing:
            ops = ops or self.parser.read_on()
            if self.parser.has_more:
                self.node.has_input(self)
        trace = self.node.protocol_trace
        for number, op in enumerate(ops, 1):
            if self.closing:
                return number
            if number > ops_max:
                self._ops = ops[ops_max:]
                self.node.has_input(self)
                return ops_max
            if trace is not None and op is not self._traced and not self._inquiry.is_answered:
                trace.arrived(self, op)
            if (
                self.node.authenticator.is_required
                and self.user is None
                and not isinstance(op, Connect | Violation)
            ):
                self.refuse(faults.AUTHORIZATION_VIOLATION)
                return number
            _ACTIONS[type(op)](self, op)
            if self._left is not None:
                self._traced = self._left
                self._ops, self._left = [self._left, *ops[number:]], None
                if not self.answers.postponed:
                    self.node.has_input(self)
                return ops_max
            if self.answers.postponed:
                self._ops = ops[number:]
                return number
            if self._inquiry.is_open:
                self._ops = ops[number - 1 :]  # CONNECT once more, when that is known
                return number
        return len(ops)

    @property
    def has_postponed(self) -> bool:
        """Return whether it has heard more than it has acted on, and is not to hear more yet."""
        return bool(self.answers.postponed or self._ops or self.parser.has_more)

    def tick(self, now: int) -> None:
        """Look after pings and the time allowed for CONNECT."""
        options = self.node.options
        if self._must_connect:
            if now >= self.next_deadline():
                self.refuse(faults.AUTHENTICATION_TIMEOUT)
            return
        if self._has_expired(now) or now < self._next_ping:
            return
        if self._pings_out >= options.ping_max:
            self.node.stats.stale_connections += 1
            self.refuse(faults.STALE_CONNECTION)
            return
        self._pings_out += 1
        self._pinged_at = now
        self._next_ping = now + options.ping_interval_ns
        self.send(encoder.PING)

    def next_deadline(self) -> int:
        """Return when `tick` has something to do."""
        if self._must_connect:
            begun = self._inquiry.asked_at if self.is_connected else self.start
            return begun + self.door.auth_timeout_ns
        user = self.user or _NOBODY
        ends = [each for each in (user.expires_at, user.account_expires_at) if each]
        return min([self._next_ping, *ends])

    def _has_expired(self, now: int) -> bool:
        """End the session of a user who is none any more."""
        user = self.user or _NOBODY
        if 0 < user.expires_at <= now:
            self.refuse(faults.USER_EXPIRED)
        elif 0 < user.account_expires_at <= now:
            self.refuse(faults.ACCOUNT_EXPIRED)
        return bool(self.closing)

    @property
    def subscription_count(self) -> int:
        """Return how many subscriptions it has."""
        return len(self.subscriptions)

    @property
    def _must_connect(self) -> bool:
        """Whether the time for CONNECT runs: who may go without has to say something at least."""
        authenticator = self.node.authenticator
        if self._inquiry.is_open:
            return True
        if self.is_connected or not authenticator.is_required:
            return False
        return not (authenticator.admits_anonymous and self._has_spoken)

    # -- output ------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue bytes for the client; a client that does not read is cut off."""
        if self.closing == faults.SLOW_CONSUMER_PENDING_BYTES.reason:
            return
        self.outbox.append(data)
        self.backlog_bytes += len(data)
        self.node.has_output(self)
        if self.backlog_bytes > self.node.options.max_pending and not self.closing:
            self.node.stats.slow_consumers += 1
            # No -ERR: the client would not read it either.
            self.refuse(faults.SLOW_CONSUMER_PENDING_BYTES)
            self.outbox.clear()

    def refuse(self, fault: Fault) -> None:
        """Say -ERR, and close if the fault is one that ends the connection."""
        if fault.text:
            self.send(encoder.err(fault.text))
        if fault.closes:
            self.close(fault.reason)

    def close(self, reason: str) -> None:
        """End the session once its output is written."""
        if not self.closing:
            self.closing = reason
            self.node.has_output(self)

    def give_up(self, incident: Incident, now: int) -> None:
        """End the connection: what it was in the middle of may be half done."""
        if not self.closing:
            self._ops.clear()
            self.refuse(faults.INTERNAL)

    def receive(self, stretch: Stretch) -> None:
        """Deliver published messages to the client (the Receiver of its subscriptions)."""
        run, start, stop, now = stretch.run, stretch.start, stretch.stop, stretch.now
        subscription = stretch.subscription
        if self.closing or subscription.closed:
            return
        if subscription.max_messages:
            stop = min(stop, start + subscription.max_messages - subscription.delivered)
        if self._permissions is not None:
            rules, queue = self._permissions.subscribe, subscription.queue
            if rules.reaches_further(subscription.subject, queue):
                for index in range(start, stop):
                    if rules.delivers(run.subject(index), queue):
                        self._deliver(run, index, index + 1, subscription, now)
                return
        self._deliver(run, start, stop, subscription, now)

    def _deliver(
        self, run: PubRun, start: int, stop: int, subscription: Subscription, now: int
    ) -> None:
        if start >= stop:
            return
        data, content_bytes = frames.encode_messages(
            run.chunk, run.fields, start, stop, subscription.sid, self.headers
        )
        self.deliver_frames(subscription, data, stop - start, now, content_bytes)

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
        if self._expected is not None:
            self._expected.expect(data, now)
        subscription.delivered += count
        self.send(data)
        if content_bytes is None:
            content_bytes = frames.delivered_bytes(data)
        traffic = self.traffic
        traffic.out_msgs += count
        traffic.out_bytes += content_bytes
        if subscription.max_messages and subscription.delivered >= subscription.max_messages:
            self._unsubscribe(subscription)

    def unanswered(self, run: PubRun, start: int, stop: int) -> None:
        """Tell this publisher that nobody listens, for messages that carry a reply it reads."""
        if not self.no_responders:
            return
        for index in range(start, stop):
            reply = run.reply(index)
            if not reply:
                continue
            for subscription in self.account.sublist.match(reply).plain:
                if subscription.receiver is self:
                    fields = ((b"Nats-Subject", run.subject(index)),)
                    frame = encoder.status(reply, subscription.sid, b"503", fields)
                    self.deliver_frames(subscription, frame, 1, self._now)
                    break

    def move_on(self) -> None:
        """Tell the client to connect to another server; what it has asked for still counts."""
        if self.is_connected and self.protocol >= 1 and not self._info_due:
            self.send(self.node.info(self, lame_duck=True))

    def client_info(self, now: int) -> dict[str, Any]:
        """Describe the client as advisories do."""
        info: dict[str, Any] = {"start": format_time(self.start), "host": self.host}
        info |= {"id": self.cid, "acc": self.account.name}
        user = self.user or _NOBODY
        if name := user.name or user.nkey:
            info["user"] = name
        for key, field in (("name", "name"), ("lang", "lang"), ("ver", "version")):
            if value := self.options.get(field):
                info[key] = value
        if self.rtt_ns:
            info["rtt"] = self.rtt_ns
        info["server"] = self.node.name
        if user.claims is not None:
            info |= {"jwt": user.jwt, "issuer_key": user.claims.issuer}
            info["name_tag"] = self.account.name_tag
            if user.claims.nats.tags:
                info["tags"] = list(user.claims.nats.tags)
        return info | {
            "kind": "Client",
            "client_type": self.door.client_type,
        }

    # -- ops ---------------------------------------------------------------------------------

    def _connect(self, op: Connect) -> None:
        options = self.options = self.options | known(op.options)
        options |= {name: text for name, text in self.credentials.items() if not options.get(name)}
        if not self.rtt_ns:  # the first measure: how long the answer to INFO took
            self.rtt_ns = max(self._now - self.start, 1)
        if not is_well_typed(options):
            self.refuse(faults.MALFORMED)
            return
        self.verbose = options.get("verbose", True)
        self.pedantic = options.get("pedantic", True)
        self.echo = options.get("echo", True)
        self.protocol = options.get("protocol", 0)
        self.headers = self.parser.headers = (
            options.get("headers", False) and self.node.options.has_headers
        )
        self.no_responders = options.get("no_responders", False)
        if self.protocol not in (0, 1):
            self.refuse(faults.INVALID_CLIENT_PROTOCOL)
            return
        arrival = Arrival(
            self.nonce, self.door.connection_type, self.certificate_names, self.host, self._now
        )
        authenticator = self.node.authenticator
        question = authenticator.question(options, arrival)
        self._inquiry.ask(question, self.node.password_checker, self._now)
        if self._inquiry.is_open:
            self.node.deadline_changed(self)
            return
        arrival = dataclasses.replace(arrival, is_password_right=self._inquiry.take())
        user = authenticator.authenticate(options, arrival)
        if user is None or options.get("account") or options.get("new_account"):
            self.node.note(
                "ERR", f"{self.host}:{self.port} - cid:{self.cid} - authentication error"
            )
            self.refuse(faults.AUTHORIZATION_VIOLATION)
            return
        if self.no_responders and not self.headers:
            self.refuse(faults.NO_RESPONDERS_NEEDS_HEADERS)
            return
        if self.is_connected or self.node.authenticator.is_required:
            for subscription in list(self.subscriptions.values()):
                self._unsubscribe(subscription)
        self.account.clients.discard(self.cid)
        self.account.traffic.add(self.traffic)
        is_new = not self.is_connected
        self.user = user
        self.account = self.node.account_of(user)
        self.account.traffic.subtract(self.traffic)
        if self.account.is_full:
            self.refuse(faults.ACCOUNT_CONNECTIONS_EXCEEDED)
            return
        self.account.clients.add(self.cid)
        self.is_connected = self._info_due = True
        self._next_ping = self._now + min(FIRST_PING_NS, self.node.options.ping_interval_ns)
        self.node.deadline_changed(self)
        self._adopt()
        if is_new:
            self.node.connected(self, self._now)
        self._ok()

    def _password_compared(self) -> None:
        """Go on with CONNECT: what has to be known of the password is."""
        if not self.closing:
            self.node.has_input(self)
            self.node.deadline_changed(self)

    def adopt(self, user: User) -> None:
        """Go on as a user who has other rights now; what they do not cover ends."""
        self.user = user
        self._adopt()
        rules = self._permissions
        for subscription in list(self.subscriptions.values()):
            subject, queue = subscription.subject, subscription.queue
            if rules is not None and not rules.subscribe.permits(subject, queue):
                self.refuse(faults.subscription_denied(subject, queue, subscription.sid))
                self._unsubscribe(subscription)

    def _adopt(self) -> None:
        permissions = self.user.permissions if self.user is not None else None
        self._permissions: Permissions | None = (
            None if permissions is None or permissions.is_open else permissions
        )
        responses = permissions.responses if permissions is not None else None
        self._expected = ExpectedReplies(responses) if responses is not None else None
        limits, options = self.account.limits, self.node.options
        self.parser.control_line_max = options.max_control_line
        user = self.user or _NOBODY
        self.parser.payload_max = _lowest(
            options.max_payload, limits.payload_bytes_max, user.payload_bytes_max
        )
        # The server's limit is off at 0, those of accounts and users below 0.
        self._subscriptions_max = _lowest(
            options.max_subscriptions or -1,
            limits.subscriptions_max,
            user.subscriptions_max,
        )
        if user.expires_at or user.account_expires_at:
            self.node.deadline_changed(self)
        self._is_plain = (
            self._permissions is None
            and self.account.mappings is None
            and not (self.verbose or self.pedantic)
            and self.is_connected
        )

    def _publish(self, run: PubRun) -> None:
        count, start, left = run.count, 0, TRACE_EVENTS_OF_TURN_MAX
        traffic = self.traffic
        traffic.in_msgs += count
        traffic.in_bytes += frames.published_bytes(run.fields)
        while True:
            traced = frames.first_traced(run.chunk, run.fields, start, count)
            start = self._publish_stretch(run, start, traced)
            if start < traced or start == count:
                break
            left -= self._publish_traced(run, traced)
            start = traced + 1
            if left <= 0 or self.answers.postponed:
                break
        if start < count:
            self._leave(run, start)

    def _leave(self, run: PubRun, start: int) -> None:
        """Act on the messages from `start` on in a later turn."""
        left = self._left = PubRun(run.chunk, run.fields[start * STRIDE :])
        self.traffic.in_msgs -= left.count
        self.traffic.in_bytes -= frames.published_bytes(left.fields)

    def _publish_stretch(self, run: PubRun, start: int, count: int) -> int:
        """Publish messages of which none asks for a trace; return how far it came: all the way, or
        as far as there is time and room for what they ask for."""
        if not self._is_plain:
            return self._publish_one_by_one(run, start, min(count, start + MESSAGES_OF_TURN_MAX))
        route, answers = self.account.router.route, self.answers
        while start < count:
            index = subjects.first_reserved(
                run.chunk, run.fields, start, count, reserved.SUBJECTS, reserved.REPLIES
            )
            start = route(run, self, self._now, start, index, answers)
            if start < index:
                break
            if index < count:
                self._admits(run, index)  # refuses it
                start += 1
        return start

    def _publish_one_by_one(self, run: PubRun, start: int, count: int) -> int:
        """Look at each message, and route the longest permitted stretches."""
        route, mappings = self.account.router.route, self.account.mappings
        for index in range(start, count):
            subject = mapped = run.subject(index)
            is_admitted = self._admits(run, index)
            if is_admitted and mappings is not None:
                mapped = mappings.apply(subject)
            if is_admitted and mapped == subject:
                if not subject.startswith(_REQUESTS):
                    continue
                route(run, self, self._now, start, index + 1)
            else:
                route(run, self, self._now, start, index)
                if is_admitted and mapped:
                    one = PubRun.single(
                        mapped, run.reply(index), run.headers(index), run.payload(index)
                    )
                    route(one, self, self._now)
            start = index + 1
            if self.answers.postponed:
                return start
        route(run, self, self._now, start, count)
        return count

    def _publish_traced(self, run: PubRun, index: int) -> int:
        """Publish one message that seems to ask for a trace; return how many events it had."""
        subject, reply, headers = run.subject(index), run.reply(index), run.headers(index)
        request = trace_request(headers, self.account.trace_terms, self.node.random)
        if request is None:
            self._publish_stretch(run, index, index + 1)
            return 0
        run = PubRun.single(subject, reply, headers, run.payload(index))
        if is_of_other_server(headers):
            run = PubRun.single(subject, reply, without_trace(headers), run.payload(0))
            self._publish_stretch(run, 0, 1)
            return 1
        if request.is_asked_for and not self._may_publish(request.subject):
            self.refuse(faults.publish_denied(request.subject))
            return 1
        size = len(headers) + len(run.payload(0))
        trace = MessageTrace(self, request, subject, size, self._now)
        if fault := self._objection(run, 0):
            trace.refused(fault.text)
            self.refuse(fault)
        elif (mapped := self._mapped(subject, trace)) is not None:
            run = PubRun.single(mapped, reply, headers, run.payload(0))
            TracedRoute(trace, self, self.node.options.system_account, self._now).route(
                self.account, run, self
            )
        trace.send(self.node, self._now)
        return len(trace)

    def _mapped(self, subject: bytes, trace: MessageTrace) -> bytes | None:
        """Return where a subject goes, None for nowhere."""
        mappings = self.account.mappings
        if mappings is None or not mappings.covers(subject):
            return subject
        mapped = mappings.apply(subject)
        trace.mapped(mapped or subject)
        return mapped or None

    def _admits(self, run: PubRun, index: int) -> bool:
        fault = self._objection(run, index)
        if fault is not None:
            self.refuse(fault)
        return fault is None

    def _objection(self, run: PubRun, index: int) -> Fault | None:
        """Return why a message may not be published; who may is told so, if it wants to know."""
        subject, reply = run.subject(index), run.reply(index)
        if not self._may_publish(subject):
            return faults.publish_denied(subject)
        if reply and reserved.is_reserved(reply, reserved.REPLIES):
            return faults.reply_denied(reply)
        if self.pedantic and not is_valid_literal(subject):
            self.refuse(faults.INVALID_PUBLISH_SUBJECT)
        self._ok()
        return None

    def _may_publish(self, subject: bytes) -> bool:
        rules = self._permissions
        denied = rules is not None and not rules.publish.permits(subject)
        if denied and self._expected is not None:
            denied = not self._expected.take(subject, self._now)
        return not denied and not reserved.is_reserved(subject, reserved.SUBJECTS)

    def _subscribe(self, op: Sub) -> None:
        if op.sid in self.subscriptions:
            self._ok()
            return
        if 0 <= self._subscriptions_max <= len(self.subscriptions):
            self.refuse(faults.SUBSCRIPTIONS_EXCEEDED)
            return
        if op.queue == b"_sys_" or (
            self._permissions is not None
            and not self._permissions.subscribe.permits(op.subject, op.queue)
        ):
            self.refuse(faults.subscription_denied(op.subject, op.queue))
            return
        if not is_valid_subject(op.subject):
            self.refuse(faults.INVALID_SUBJECT)
            return
        if 0 < self.node.options.max_subject_tokens <= op.subject.count(b"."):
            self.refuse(faults.too_many_tokens(op.subject))
            return
        subscription = Subscription(op.subject, self, queue=op.queue, sid=op.sid, outlet=self)
        self.subscriptions[op.sid] = subscription
        self.account.subscribe(subscription)
        self._ok()

    def _on_unsub(self, op: Unsub) -> None:
        subscription = self.subscriptions.get(op.sid)
        if subscription is not None:
            subscription.max_messages = op.max_messages
            if not op.max_messages or subscription.delivered >= op.max_messages:
                self._unsubscribe(subscription)
        self._ok()

    def _unsubscribe(self, subscription: Subscription) -> None:
        if self.subscriptions.pop(subscription.sid, None) is not None:
            self.account.unsubscribe(subscription)

    def _ping(self, op: Ping) -> None:
        self.send(encoder.PONG)
        if self._info_due:
            self._info_due = False
            if self.protocol >= 1:
                self.send(self.node.info(self, connect_info=True))

    def _pong(self, op: Pong) -> None:
        self._pings_out = 0
        if self._pinged_at:
            self.rtt_ns = self._now - self._pinged_at
            self._pinged_at = 0

    def _violation(self, op: Violation) -> None:
        self.refuse(Fault(op.text, op.reason))

    def _ok(self) -> None:
        if self.verbose:
            self.send(encoder.OK)

    def end(self) -> list[Subscription]:
        """Take no more: the connection is gone.

        Returns:
            What it has subscribed to, closed, but in the account's list yet.
        """
        self._inquiry.forget(self.node.password_checker)
        self.account.clients.discard(self.cid)
        self.account.traffic.add(self.traffic)
        self._ops.clear()
        self.answers.forget()
        given_up = list(self.subscriptions.values())
        self.subscriptions.clear()
        for subscription in given_up:
            subscription.closed = True
        return given_up


# What may be put off, and with it what is behind it.
_REQUESTS = b"$JS."
# Of those that are looked at one by one, which takes microseconds each.
MESSAGES_OF_TURN_MAX = 1000

_ACTIONS: dict[type, Callable[[Session, Any], None]] = {
    Connect: Session._connect,
    PubRun: Session._publish,
    Sub: Session._subscribe,
    Unsub: Session._on_unsub,
    Ping: Session._ping,
    Pong: Session._pong,
    Violation: Session._violation,
}


def _lowest(*limits: int) -> int:
    """Return the lowest of several limits, -1 when none is one."""
    return min((each for each in limits if each >= 0), default=-1)
