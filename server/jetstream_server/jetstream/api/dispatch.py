"""The JSON API as one receiver: from a subject to a handler, from its result to a reply.

Every answer is made here: the envelope with its `type`, the `error` object with the zero values
the genuine server sends beside it, the counters and the audit advisory. Subjects that no route
matches are met with silence, as the genuine server does (docs/reference/api.md#transport).
Consumers' MSG.NEXT and streams' DIRECT.GET are subscriptions of their own and must not be covered
by the API's: a client that asks for one that does not exist is told so by `503 No Responders`.
"""

from __future__ import annotations

from typing import Any, Protocol

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.answers import UnderWay
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.core.workload import ANSWER_UNIT_BYTES, units_of
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.advisory import publish_api_audit
from jetstream_server.jetstream.api import (
    account,
    cluster,
    consumers,
    messages,
    snapshots,
    streams,
    templates,
)
from jetstream_server.jetstream.api.request import ROUTES, Later, Request, Route
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.required_level import check_required_level
from jetstream_server.jetstream.slices import Sliced
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.protocol.ops import PubRun

# Importing these fills the table of routes.
HANDLERS = (account, cluster, consumers, messages, snapshots, streams, templates)

PREFIX = b"$JS.API."
TYPE = "io.nats.jetstream.api.v1."
# For the system account: verbs that others answer for the server, and the route of all other verbs.
_OF_SERVERS = ("ACCOUNT", "META", "SERVER")
_SYSTEM = Route((">",), "system_response", lambda catalog, request: None, {}, level_first=False)
_UNITS_OF_UNKNOWN = 0.1  # what a request is worth that nobody knows
_CREATE_FAILED = errors.STREAM_CREATE_FAILED("").err_code


class RequestWatch(Protocol):
    """Somebody who is told of requests."""

    def heard(self, run: PubRun, index: int, sender: Sender | None, now: int) -> None:
        """A request is about to be answered."""
        ...


class Api:
    """The API of one account.

    Args:
        catalog: its streams.
        watch: told of every request, None for nobody.

    Attributes:
        subscriptions: what it subscribes to, in the account's sublist after `subscribe`.
    """

    def __init__(self, catalog: Catalog, watch: RequestWatch | None = None) -> None:
        self._catalog: Catalog | None = catalog
        self._context = catalog.context
        self._watch = watch
        self._is_system = False
        self.subscriptions = _subscriptions(self)

    @classmethod
    def disabled(
        cls, context: Context, watch: RequestWatch | None = None, *, is_system: bool = False
    ) -> Api:
        """Return the API of an account without JetStream, which refuses every request.

        Args:
            is_system: the account is the system account, which refuses whatever is asked.
        """
        self = cls.__new__(cls)
        self._catalog = None
        self._context = context
        self._watch = watch
        self._is_system = is_system
        self.subscriptions = (
            [Subscription(PREFIX + b">", self)] if is_system else _subscriptions(self)
        )
        return self

    def subscribe(self) -> None:
        """Start taking requests."""
        for subscription in self.subscriptions:
            self._context.sublist.insert(subscription)

    def unsubscribe(self) -> None:
        """Take no more requests."""
        for subscription in self.subscriptions:
            self._context.sublist.remove(subscription)

    def receive(self, stretch: Stretch) -> None:
        """Answer requests, as far as there is time and room for it."""
        run, sender, now = stretch.run, stretch.sender, stretch.now
        answers, workload = stretch.answers, self._context.workload
        for index in stretch.indices:
            if answers is not None and not answers.room_bytes:
                answers.postpone(stretch.postponed_from(index))
                return
            subject = run.subject(index)
            # A token that is not UTF-8 names nothing that exists.
            tokens = subject.decode(errors="replace").split(".")[2:]
            payload, headers, reply = run.payload(index), run.headers(index), run.reply(index)
            is_system = self._is_system or _is_cut_short(headers)
            route = _system_route(tokens) if is_system else find_route(tokens)
            # In a request to the system account, headers take the place where the genuine server
            # looks for who is asking.
            if headers and is_system and route is not _SYSTEM:
                route = None
            if answers is not None:
                units, is_costly = _UNITS_OF_UNKNOWN, False
                if route is not None:
                    is_costly = route.is_costly
                    units = units_of(len(payload), is_costly=is_costly)
                if answers.postponed or not workload.takes(units, answers):
                    answers.postpone(stretch.postponed_from(index))
                    workload.wait(answers.look_again, answers, makes_files=is_costly)
                    return
            if self._watch is not None:
                self._watch.heard(run, index, sender, now)
            if route is None:
                continue
            request = Request(subject, tokens, payload, headers, reply, sender, now)
            try:
                self._answer(route, request)
            except Exception as error:
                incident = self._context.containment.contain(error, now)
                self._send(route, request, errors.STREAM_GENERAL_ERROR(str(incident)))

    def _answer(self, route: Route, request: Request) -> None:
        outcome = self._run(route, request)
        if isinstance(outcome, dict | ApiError):
            self._send(route, request, outcome)
        elif outcome is not None:
            answers = None if request.sender is None else request.sender.answers
            if isinstance(outcome, Sliced) and answers is not None:
                under_way = UnderWay(answers)
                outcome.go_on(lambda outcome: self._send_last(route, request, outcome, under_way))
            else:
                outcome.go_on(lambda outcome: self._send(route, request, outcome))

    def _send_last(
        self,
        route: Route,
        request: Request,
        outcome: dict[str, Any] | ApiError,
        under_way: UnderWay,
    ) -> None:
        """Send an answer for which its client is not heard."""
        try:
            self._send(route, request, outcome)
        finally:
            under_way.end()

    def _send(self, route: Route, request: Request, outcome: dict[str, Any] | ApiError) -> None:
        refused = isinstance(outcome, ApiError)
        fields = _refusal(route, outcome) if isinstance(outcome, ApiError) else outcome
        body = encode({"type": TYPE + route.response, **fields})
        # Of what makes files, a short answer is counted with it.
        units = len(body) // ANSWER_UNIT_BYTES if route.is_costly else len(body) / ANSWER_UNIT_BYTES
        self._context.workload.spend(units)
        if request.reply:
            output = self._context.output
            if self._is_of_full_disk(outcome):
                output.publish_now(request.reply, body, headers=request.answer_headers)
            else:
                output.publish(request.reply, body, headers=request.answer_headers)
                if request.sender is not None:
                    output.owe(request.sender.answers, len(body))
        if route.silent if refused else route.quiet:
            return
        if self._catalog is not None:
            self._catalog.note_request(refused=refused)
        publish_api_audit(
            self._context, request.sender, request.subject, request.body, body, request.now
        )

    def _is_of_full_disk(self, outcome: dict[str, Any] | ApiError) -> bool:
        """Tell whether a refusal says that the disk is full. If it does, the next flush may be long
        in coming, and the refusal reports nothing that has to wait for it."""
        return (
            isinstance(outcome, ApiError)
            and outcome.err_code == _CREATE_FAILED
            and self._catalog is not None
            and self._catalog.is_disk_full
        )

    def _run(self, route: Route, request: Request) -> dict[str, Any] | ApiError | Later | None:
        """Return the fields of the answer or the refusal, or what will have them later."""
        try:
            if route.level_first:
                check_required_level(request.headers)
            if self._catalog is None or route is _SYSTEM:
                if route.by_consumer:
                    return None
                if route.check is not None:
                    route.check(self._context, request)
                raise errors.NOT_ENABLED_FOR_ACCOUNT()
            return route.handler(self._catalog, request)
        except ApiError as error:
            # Its traceback knows the call that takes it, and all that this one has at hand.
            return error.with_traceback(None)
        except StoreError as error:
            self._context.log("ERR", f"{request.subject.decode(errors='replace')}: {error}")
            return errors.STREAM_GENERAL_ERROR(error.reason)


def find_route(tokens: list[str]) -> Route | None:
    """Return the route of a subject's tokens after `$JS.API.`, None when there is none."""
    for route in ROUTES:
        if _fits(route.pattern, tokens):
            return route
    return None


def _system_route(tokens: list[str]) -> Route | None:
    """Return the route of a request to the system account; None if others answer it."""
    if tokens == ["INFO"]:
        return find_route(tokens)
    return None if tokens[0] in _OF_SERVERS else _SYSTEM


def _fits(pattern: tuple[str, ...], tokens: list[str]) -> bool:
    for index, wanted in enumerate(pattern):
        if wanted == ">":
            return len(tokens) > index
        if index >= len(tokens) or not tokens[index] or wanted not in ("*", tokens[index]):
            return False
    return len(tokens) == len(pattern)


def _is_cut_short(block: bytes) -> bool:
    """Tell whether headers do not end with an empty line.

    The genuine server writes who is asking where that line should begin, does not find it there
    again, and takes it for the system account.
    """
    return len(block) > 2 and not block[:-2].endswith(b"\r\n")


def _refusal(route: Route, error: ApiError) -> dict[str, Any]:
    described = {
        "code": error.code,
        "err_code": error.err_code,
        "description": error.description,
    }
    return {"error": described, **route.zero}


def _subscriptions(api: Api) -> list[Subscription]:
    verbs = sorted({route.pattern[1] for route in ROUTES if route.pattern[0] == "CONSUMER"})
    # What only clusters and the system account do is met with silence, like other unknown verbs.
    families = [b"STREAM.>", b"META.>", b"SERVER.>", b"ACCOUNT.>", b"INFO.>"]
    # So is what names no stream; consumers and streams themselves serve MSG.NEXT and DIRECT.GET.
    families += [b"CONSUMER.*", b"CONSUMER.MSG.*"]
    subjects = [b"*", *families, *(b"CONSUMER.%b.>" % verb.encode() for verb in verbs)]
    return [Subscription(PREFIX + subject, api) for subject in subjects]
