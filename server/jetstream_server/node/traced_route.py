"""The way of a traced message: as the router's, one receiver after the other, each step noted.

Receivers that are not to get the message (`Nats-Trace-Only`) are passed over. Those that only look
things up in this server get it all the same, as in the genuine one: direct gets, acks, requests for
messages. The trace goes on across an import if its owner allows that; otherwise the message that
crosses says that it is not traced.

It may reach very many, more than a turn has time for. The client that has published it is not heard
until it has been everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from jetstream_server.base.errors import StoreError
from jetstream_server.core.answers import Answers
from jetstream_server.core.steps import InSteps
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.messages.publish_headers import replaced
from jetstream_server.jetstream.streams.storing.storing_outcome import StoringOutcome
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.crossing import cross
from jetstream_server.node.accounts.domain_mapping import DomainMapping
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.stream_imports import Shadow
from jetstream_server.node.message_trace import NO_ECHO, MessageTrace
from jetstream_server.node.router import Router
from jetstream_server.node.trace import Client
from jetstream_server.node.trace_request import DESTINATION, DISABLED, without_trace
from jetstream_server.protocol.ops import PubRun

_SYSTEM = b"$SYS.REQ."


@dataclass(slots=True, eq=False)
class TracedRoute:
    """Brings one message to everybody whom it reaches. Postponable.

    Args:
        trace: takes what happens.
        session: who has published it.
        system_account: the name of the account in which requests are the server's.
        answers: what is under way to the client.
        arrived: told when it has been everywhere.
    """

    _trace: MessageTrace
    _session: Client
    _system_account: str
    _answers: Answers
    _arrived: Callable[[int], None]
    _now: int = field(init=False)
    _router: Router = field(init=False)  # of its account
    _steps: Iterator[None] = field(init=False)

    def begin(self, account: Account, run: PubRun, sender: Sender, now: int) -> None:
        """Deliver the only message of a run to those who want it in an account."""
        self._router = account.router
        self._steps = self._route(account, run, sender)
        self.receive(now)

    def receive(self, now: int) -> None:
        """Deliver it to as many of them as a turn has time for."""
        self._now = now
        for _ in self._steps:
            if not self._router.has_time:
                self._answers.postpone(self)
                self._answers.look_again()
                return
        self._arrived(now)

    def _route(self, account: Account, run: PubRun, sender: Sender) -> Iterator[None]:
        """Deliver it in one account, to one receiver in each step."""
        reached = False
        for subscription, is_own in account.router.reached(run, sender):
            try:
                if is_own:
                    self._trace.delivered(self._session, subscription, NO_ECHO)
                else:
                    reached |= yield from self._deliver(
                        account, subscription, subscription, run, sender
                    )
            except StoreError as error:
                account.store_failed(error)
            except Exception as error:
                account.containment.contain(error, self._now)
            yield
        if not reached:
            sender.unanswered(run, 0, 1)

    def _deliver(
        self,
        account: Account,
        subscription: Subscription,
        shown: Subscription,
        run: PubRun,
        sender: Sender,
    ) -> InSteps[bool]:
        """Deliver to one subscription; tell whether somebody is behind it.

        Args:
            shown: the subscription that the trace names.
        """
        receiver, trace = subscription.receiver, self._trace
        if subscription.outlet is not None and not isinstance(receiver, Shadow):
            trace.delivered(cast("Client", receiver), shown)
            if trace.is_only:
                return True
        elif isinstance(receiver, Shadow):
            return (yield from self._export(receiver, subscription, run, sender))
        elif isinstance(receiver, ServiceImport):
            return (yield from self._request(receiver, subscription, run, sender))
        elif isinstance(receiver, Stream):
            outcome = StoringOutcome(is_only=trace.is_only)
            receiver.receive_traced(run if trace.is_only else _kept(run), self._now, outcome)
            trace.stored(receiver.name, outcome)
            return True
        elif isinstance(receiver, DomainMapping):
            mapped = receiver.mapped(run, 0)
            trace.mapped(mapped.subject(0))
            yield from self._route(account, mapped, sender)
            return True
        elif account.name != self._system_account and (
            isinstance(receiver, Api) or run.subject(0).startswith(_SYSTEM)
        ):
            subject = run.subject(0)
            served = _served(subject, account.name.encode())
            trace.requested(self._system_account, subject, served)
            if trace.is_only:
                return False
            run = _with_headers(run, without_trace(run.headers(0)))
        receiver.receive(Stretch(run, 0, 1, subscription, sender, self._now))
        return True

    def _export(
        self, shadow: Shadow, subscription: Subscription, run: PubRun, sender: Sender
    ) -> InSteps[bool]:
        """Deliver to the account that imports the stream."""
        if not shadow.takes(sender):
            return True
        renamed = shadow.renamed(run, 0, 1, sender)
        self._trace.exported(shadow.importer, renamed.subject(0))
        if shadow.allows_trace:
            original = shadow.original
            return (
                yield from self._deliver(shadow.importer, original, subscription, renamed, sender)
            )
        if not self._trace.is_only:
            shadow.receive(Stretch(run, 0, 1, subscription, sender, self._now))
        return True

    def _request(
        self, service: ServiceImport, subscription: Subscription, run: PubRun, sender: Sender
    ) -> InSteps[bool]:
        """Ask the service of another account."""
        before, trace = run.subject(0), self._trace
        if trace.is_only and not service.allows_trace:
            trace.requested(service.exporter.name, before, service.subject_of(before))
            return False
        request, crossing = service.crossing(Stretch(run, 0, 1, subscription, sender, self._now))
        trace.requested(service.exporter.name, before, crossing.subject(0))
        if service.allows_trace:
            crossing = service.with_trace_here(crossing, trace.subject, self._now)
            yield from self._route(service.exporter, crossing, request)
        else:
            crossing = _with_headers(crossing, without_trace(crossing.headers(0)))
            cross(service.exporter.router, crossing, request, self._now, request.answers)
        return True


def _kept(run: PubRun) -> PubRun:
    """Return a message as it is stored: when it is delivered later it asks for no trace."""
    return _with_headers(run, replaced(run.headers(0), DESTINATION, DISABLED))


def _with_headers(run: PubRun, headers: bytes) -> PubRun:
    return PubRun.single(run.subject(0), run.reply(0), headers, run.payload(0))


def _served(subject: bytes, account: bytes) -> bytes:
    """Return what the system account calls a request."""
    kind, _, verb = subject.removeprefix(_SYSTEM).partition(b".")
    if subject.startswith(_SYSTEM) and kind == b"USER":
        return b"%bUSER.%b.%b" % (_SYSTEM, account, verb)
    if subject.startswith(_SYSTEM) and verb.startswith(b"PING."):
        return b"%bACCOUNT.%b.%b" % (_SYSTEM, account, verb.removeprefix(b"PING."))
    return subject
