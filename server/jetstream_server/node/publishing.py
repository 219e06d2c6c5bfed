"""How the messages of one client get to the router: in whole runs where nothing has to be looked
at.

What has to be looked at goes message by message: if subjects are mapped, if only some may be
published to, or if the client wants an answer to each. A message that asks for a trace goes its own
way (`traced_route.py`). Both cost much more, so there is only a limited amount of either in a turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol
from weakref import ref

from jetstream_server.base.limits import SUBJECT_BYTES_OF_OP
from jetstream_server.core.answers import Answers
from jetstream_server.core.subject import is_valid_literal
from jetstream_server.core.subscription import Sender
from jetstream_server.kernels import frames, subjects
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.auth.connect_options import Wishes
from jetstream_server.node.message_trace import MessageTrace
from jetstream_server.node.reserved import REPLIES, SUBJECTS, is_reserved
from jetstream_server.node.rights import Rights
from jetstream_server.node.server_info import Introduced
from jetstream_server.node.stats import Traffic
from jetstream_server.node.trace import Client
from jetstream_server.node.trace_request import (
    SHOWN_BYTES_MAX,
    is_of_other_server,
    trace_request,
    without_trace,
)
from jetstream_server.node.traced_route import TracedRoute
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault
from jetstream_server.protocol.ops import STRIDE, PubRun

# How many trace events one client has in a turn: a trace costs a hundred times what its message
# does.
TRACE_EVENTS_OF_TURN_MAX = 100
# What may be put off, together with what follows it.
_REQUESTS = b"$JS."
# How many are looked at one by one, which takes microseconds each.
MESSAGES_OF_TURN_MAX = 1000
# Of the rules that a message is held against, looked at in the time of one.
PLACES_OF_MESSAGE = 16
_MESSAGES_OF_MAPPED = 4  # of which each is looked for, made anew and routed on its own
_MESSAGES_OF_TRACE_EVENT = MESSAGES_OF_TURN_MAX // TRACE_EVENTS_OF_TURN_MAX
# Of headers: what is shown of them takes as long as an event, and what is only searched.
_SHOWN_BYTES_OF_EVENT = 256
_SEARCHED_BYTES_OF_EVENT = 65_536


class PublishingClient(Sender, Client, Protocol):
    """The client that publishes."""

    def refuse(self, fault: Fault) -> None:
        """Tell it that something is wrong, and perhaps close its connection."""
        ...

    def accept(self) -> None:
        """Tell it that something was right, if it wants to hear that."""
        ...


class ServingNode(Introduced, Protocol):
    """Where it publishes.

    Attributes:
        random: the only source of chance.
    """

    random: Random


@dataclass(slots=True, eq=False)
class Publishing:
    """What one client publishes.

    Args:
        publisher_ref: the client.
        server: names itself in traces.
        answers: what is under way to the client.
        traffic: counts what it publishes.
        account: where it publishes.
        rights: what it may do.

    Attributes:
        looked_at: how many messages were looked at one by one, or what took as long, since whoever
            counts it has set it to 0.
    """

    _publisher_ref: ref[PublishingClient]  # it holds this, and is not to be held by it
    _server: ServingNode
    _answers: Answers
    _traffic: Traffic
    _account: Account
    _rights: Rights
    _is_pedantic: bool = True
    _is_plain: bool = False  # nothing has to be looked at message by message
    # Of what is left for a later turn, so many may be published as they are; and whether the one
    # after them may be, and where to, if that is known.
    _admitted: int = 0
    _decided: tuple[bool, bytes] | None = None
    # Of what is left, so many were looked at under rights that have been replaced since, and the
    # client has heard of them; and which of them, counted from the first, were refused.
    _told: int = 0
    _refused: tuple[int, ...] = ()
    looked_at: int = 0

    @property
    def _publisher(self) -> PublishingClient:
        publisher = self._publisher_ref()
        assert publisher is not None, "only the client itself publishes"
        return publisher

    def adopt(
        self, account: Account, rights: Rights, wishes: Wishes, *, is_connected: bool
    ) -> None:
        """Publish elsewhere, with other rights, or to be told of other things, from now on."""
        self._account = account
        self._rights = rights
        self._is_pedantic = wishes.pedantic
        self._is_plain = (
            rights.permissions is None
            and account.mappings is None
            and not (wishes.verbose or wishes.pedantic)
            and is_connected
        )
        # What waits is looked at again, unless everything may be published now.
        found, decided = self._admitted, self._decided
        self._admitted, self._decided = 0, None
        if self._is_plain:
            self._told, self._refused = 0, ()
            return
        self._told = max(self._told, found + (decided is not None))
        if decided is not None and not decided[0]:
            self._refused += (found,)

    def publish(self, run: PubRun, now: int) -> PubRun | None:
        """Publish messages; return those that are left for a later turn, None for none."""
        chunk, fields, traffic = run.chunk, run.fields, self._traffic
        count = len(fields) // STRIDE
        in_bytes, admitted = subjects.admitted(chunk, fields, SUBJECTS, REPLIES)
        traffic.in_msgs += count
        traffic.in_bytes += in_bytes
        start = 0
        if self._is_plain:  # as nearly always: go as far as nothing is refused or traced
            router = self._account.router
            start = router.route(run, self._publisher, now, 0, admitted, self._answers)
            if start == count:
                return None
            if start < admitted:
                return self._left_from(run, start)
        traced = frames.first_traced(chunk, fields, start, count)
        start = self._publish_stretch(run, start, traced, now)
        if start == traced < count:
            start = self._publish_from_traced(run, traced, now)
        return self._left_from(run, start) if start < count else None

    def _publish_from_traced(self, run: PubRun, traced: int, now: int) -> int:
        """Publish messages from one on that seems to ask for a trace; return how far it came."""
        count, left = run.count, TRACE_EVENTS_OF_TURN_MAX
        start, router, answers = traced, self._account.router, self._answers
        while start == traced < count and not (router.is_spent or answers.postponed):
            events = self._publish_traced(run, traced, now)
            left -= events
            self.looked_at += events * _MESSAGES_OF_TRACE_EVENT
            start = traced + 1
            if left <= 0 or answers.postponed:
                break
            traced = frames.first_traced(run.chunk, run.fields, start, count)
            start = self._publish_stretch(run, start, traced, now)
        return start

    def _left_from(self, run: PubRun, start: int) -> PubRun:
        """Return the messages from `start` on, which are left for later after all."""
        left = PubRun(run.chunk, run.fields[start * STRIDE :])
        self._traffic.in_msgs -= left.count
        self._traffic.in_bytes -= frames.published_bytes(left.fields)
        return left

    def _publish_stretch(self, run: PubRun, start: int, count: int, now: int) -> int:
        """Publish messages none of which asks for a trace; return how far it came: all the way, or
        as far as there is time and room for what they ask for."""
        if not self._is_plain:
            at_once = MESSAGES_OF_TURN_MAX
            if self._account.mappings is not None:
                at_once = max(at_once // _MESSAGES_OF_MAPPED, 1)
            stop = min(count, start + at_once)
            reached = self._publish_one_by_one(run, start, stop, now)
            if self._told:
                past = reached - start
                self._told = max(self._told - past, 0)
                self._refused = tuple(each - past for each in self._refused if each >= past)
            return reached
        route, answers, publisher = self._account.router.route, self._answers, self._publisher
        refused = 0
        while start < count:
            index = subjects.first_reserved(run.chunk, run.fields, start, count, SUBJECTS, REPLIES)
            start = route(run, publisher, now, start, index, answers)
            if index == count or start < index or answers.postponed:
                break
            self._admits(run, index, now)  # refuses it
            start += 1
            self.looked_at += 1
            refused += 1
            if refused == MESSAGES_OF_TURN_MAX:
                break
        return start

    def _publish_one_by_one(self, run: PubRun, start: int, count: int, now: int) -> int:
        """Look at each message, and route the longest permitted stretches."""
        route, mappings = self._account.router.route, self._account.mappings
        publisher, answers = self._publisher, self._answers
        unseen, decided = start + self._admitted, self._decided
        self._admitted, self._decided = 0, None
        told, refused = start + self._told, {start + each for each in self._refused}
        looked_at_max = self.looked_at + MESSAGES_OF_TURN_MAX
        rights = self._rights
        rules_looked_at = rights.looked_at
        for index in range(start, count):
            subject = mapped = run.subject(index)
            is_admitted = True
            if index == unseen and decided is not None:
                is_admitted, mapped = decided
            elif index >= unseen:
                if self.looked_at >= looked_at_max:  # some have taken longer than others
                    count = index
                    break
                self.looked_at += 1 + len(subject) // SUBJECT_BYTES_OF_OP
                if index < told:
                    is_admitted = index not in refused and self._still_admits(subject, now)
                else:
                    is_admitted = self._admits(run, index, now)
                more = rights.looked_at - rules_looked_at
                if more >= PLACES_OF_MESSAGE:
                    self.looked_at += more // PLACES_OF_MESSAGE
                    rules_looked_at += more
                if is_admitted and mappings is not None:
                    mapped = mappings.apply(subject)
                    self.looked_at += _MESSAGES_OF_MAPPED - 1
            if is_admitted and mapped == subject:
                if not subject.startswith(_REQUESTS):
                    continue
                routed = route(run, publisher, now, start, index + 1, answers)
                self._admitted = index + 1 - routed
            else:
                routed = route(run, publisher, now, start, index, answers)
                self._admitted = index - routed
                if routed == index and is_admitted and mapped and not answers.postponed:
                    one = PubRun.single(
                        mapped, run.reply(index), run.headers(index), run.payload(index)
                    )
                    routed += route(one, publisher, now, answers=answers)
                elif routed == index and not (is_admitted and mapped):
                    routed += 1
                if routed <= index:
                    self._decided = is_admitted, mapped
            start = routed
            if routed <= index or answers.postponed:
                return start
        routed = route(run, publisher, now, start, count, answers)
        self._admitted = count - routed
        return routed

    def _publish_traced(self, run: PubRun, index: int, now: int) -> int:
        """Publish one message that seems to ask for a trace; return how many events it had, or what
        took as long."""
        subject, reply, headers = run.subject(index), run.reply(index), run.headers(index)
        publisher, server, account = self._publisher, self._server, self._account
        request = trace_request(headers, account.trace_terms, server.random)
        searched = len(headers) // _SEARCHED_BYTES_OF_EVENT
        if request is None:
            self._publish_stretch(run, index, index + 1, now)
            return searched
        shown = searched + min(len(headers), SHOWN_BYTES_MAX) // _SHOWN_BYTES_OF_EVENT
        run = PubRun.single(subject, reply, headers, run.payload(index))
        if is_of_other_server(headers):
            run = PubRun.single(subject, reply, without_trace(headers), run.payload(0))
            self._publish_stretch(run, 0, 1, now)
            return 1 + shown
        if request.is_asked_for and not self._rights.use_to_publish(request.subject, now):
            publisher.refuse(faults.publish_denied(request.subject))
            return 1 + shown
        size = len(headers) + len(run.payload(0))
        trace = MessageTrace(publisher, request, subject, size, now)
        if fault := self._objection(run, 0, now):
            trace.refused(fault.text)
            publisher.refuse(fault)
        elif (mapped := self._mapped(subject, trace)) is not None:
            run = PubRun.single(mapped, reply, headers, run.payload(0))
            system_account = server.options.system_account
            arrived = partial(trace.send, server)
            route = TracedRoute(trace, publisher, system_account, self._answers, arrived)
            route.begin(account, run, publisher, now)
            return len(trace) + shown
        trace.send(server, now)
        return len(trace) + shown

    def _mapped(self, subject: bytes, trace: MessageTrace) -> bytes | None:
        """Return where a subject goes, None for nowhere."""
        mappings = self._account.mappings
        if mappings is None or not mappings.covers(subject):
            return subject
        mapped = mappings.apply(subject)
        trace.mapped(mapped or subject)
        return mapped or None

    def _admits(self, run: PubRun, index: int, now: int) -> bool:
        fault = self._objection(run, index, now)
        if fault is not None:
            self._publisher.refuse(fault)
        return fault is None

    def _still_admits(self, subject: bytes, now: int) -> bool:
        """Tell whether a message that was admitted may be published under the rights of now."""
        if self._rights.use_to_publish(subject, now):
            return True
        self._publisher.refuse(faults.publish_denied(subject))
        return False

    def _objection(self, run: PubRun, index: int, now: int) -> Fault | None:
        """Return why a message may not be published; a client that may publish it is told so if it
        wants to know."""
        subject, reply = run.subject(index), run.reply(index)
        if not self._rights.use_to_publish(subject, now):
            return faults.publish_denied(subject)
        if reply and is_reserved(reply, REPLIES):
            return faults.reply_denied(reply)
        if self._is_pedantic and not is_valid_literal(subject):
            self._publisher.refuse(faults.INVALID_PUBLISH_SUBJECT)
        self._publisher.accept()
        return None
