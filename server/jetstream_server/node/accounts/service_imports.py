"""Services of another account: requests go there, answers come back.

An import is a subscription like any other. What is published to it is published again in the
exporting account, under the subject that the service has there, with a stand-in for the reply
(`service_replies.py`) and a header that tells who makes the request. If nobody serves, the
requester is told so under the subject that it used.

A stretch of a run stays one run on its way. Specification:
docs/reference/accounts.md#imports-and-exports.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from jetstream_server.core.provenance import is_from_server
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.jetstream.streams.messages.publish_headers import (
    REQUEST_INFO,
    extended,
    without,
)
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.node import service_latency
from jetstream_server.node.accounts.crossing import (
    DELIVERIES_OF_CROSSING,
    cross,
    has_to_wait,
    put_off,
)
from jetstream_server.node.accounts.service_replies import ACK_PREFIX, ResponseTerms
from jetstream_server.node.trace_request import with_destination
from jetstream_server.protocol.ops import PubRun

if TYPE_CHECKING:
    from jetstream_server.node.accounts.account import Account

# What a service may know about a client when no more is shared.
_UNSHARED = ("acc", "svc", "rtt")
# The order of the fields that are added on the way.
_BEFORE_SERVICE = ("start", "host", "id", "acc")


class ServiceImport:
    """One imported service. A Receiver of requests.

    Args:
        importer: who asks.
        exporter: who answers.
        mapping: from the exporter's subjects to the importer's.
        terms: what the export says about answers.
        random: chooses the requests whose answers are timed.
        is_sharing: whether the service is told who the client is.
        allows_trace: whether somebody who traces a request learns what becomes of it there.
    """

    def __init__(
        self,
        importer: Account,
        exporter: Account,
        mapping: WildcardMapping,
        terms: ResponseTerms,
        random: Random,
        *,
        is_sharing: bool,
        allows_trace: bool = False,
    ) -> None:
        self.importer = importer
        self.exporter = exporter
        self.subscription = Subscription(mapping.target, self)
        self._mapping = mapping
        self._terms = terms
        self._random = random
        self.is_sharing = is_sharing
        self.allows_trace = allows_trace

    def open(self) -> None:
        """Start taking requests."""
        self.importer.sublist.insert(self.subscription)

    def close(self) -> None:
        """Take no more requests."""
        self.importer.sublist.remove(self.subscription)

    def subject_of(self, subject: bytes) -> bytes:
        """Return what the exporter calls a subject, its own mappings included; empty if it is
        lost."""
        subject = self._mapping.reverse(subject)
        mappings = self.exporter.mappings
        return subject if mappings is None else mappings.apply(subject)

    def receive(self, stretch: Stretch) -> None:
        """Publish requests in the exporting account, as many as the turn has time for."""
        if has_to_wait(stretch, stretch.start):
            return
        router, answers = self.exporter.router, stretch.answers
        request, crossing = self.crossing(stretch)
        cross(router, crossing, request, stretch.now, answers)
        reached = stretch.start + crossing.count
        if answers is not None and reached < stretch.stop and not has_to_wait(stretch, reached):
            put_off(stretch, reached, answers)

    def crossing(self, stretch: Stretch) -> tuple[ServiceRequest, PubRun]:
        """Return requests as they are published in the exporting account, and in whose name: those
        that the turn has time for, one at least."""
        run, now, router = stretch.run, stretch.now, self.exporter.router
        request = ServiceRequest(self, run, stretch.start, stretch.sender, now)
        messages: list[tuple[bytes, bytes, bytes, bytes]] = []
        for index in stretch.indices:
            if messages and stretch.answers is not None and not router.has_time:
                break
            router.spend(DELIVERIES_OF_CROSSING)
            reply, headers = run.reply(index), run.headers(index)
            if not reply.startswith(ACK_PREFIX):
                reply = self._expected(reply, headers, request, now)
            headers = without(headers, REQUEST_INFO)
            headers = extended(headers, request.header)
            messages.append(
                (self.subject_of(run.subject(index)), reply, headers, run.payload(index))
            )
        return request, PubRun.of(messages)

    def with_trace_here(self, run: PubRun, destination: bytes, now: int) -> PubRun:
        """Return a request whose traces go to the requester by way of this account."""
        replies = self.exporter.replies
        stand_in = replies.expect(self.importer, destination, self._terms, now)
        headers = with_destination(run.headers(0), stand_in)
        return PubRun.single(run.subject(0), run.reply(0), headers, run.payload(0))

    def _expected(self, reply: bytes, headers: bytes, request: ServiceRequest, now: int) -> bytes:
        """Return the stand-in for a reply subject, empty for none; the answer may be timed."""
        replies, terms = self.exporter.replies, self._terms
        timed = None
        if terms.latency is not None:
            timed = service_latency.timed(terms.latency, headers, request.info, self._random, now)
        if reply:
            return replies.expect(self.importer, reply, terms, now, timed)
        replies.tell_failure(timed, service_latency.BAD_REQUEST, now)
        return b""


class ServiceRequest:
    """Requests on their way into another account, where this is their PublishingClient.

    Attributes:
        info: what the service is told of the client.
        header: the same, as a header line.
    """

    echo = True

    def __init__(
        self, service: ServiceImport, run: PubRun, start: int, sender: Sender | None, now: int
    ) -> None:
        self._service = service
        self._run = run
        self._start = start
        self._sender = sender
        self._now = now
        self.answers = sender.answers if sender is not None else None
        self.is_server = is_from_server(sender)
        self.is_shared = service.is_sharing
        self._client: dict[str, Any] = {"acc": service.importer.name}
        self.info: dict[str, Any]
        if isinstance(sender, ServiceRequest):
            self.is_shared = sender.is_shared
            self._client = sender._client
            self.info = _with_service(sender.info, service.importer.name)
        else:
            if sender is not None:
                self._client = sender.client_info(now)
            self.info = self._client
            if not self.is_shared:
                self.info = {key: self._client[key] for key in _UNSHARED if key in self._client}
        self.header = b"%b: %b\r\n" % (REQUEST_INFO, encode(self.info))

    def client_info(self, now: int) -> dict[str, Any]:
        """Describe the client as advisories do: what is shared, and which server it is on."""
        info = _with_service(self.info, self._service.exporter.name)
        if not self.is_shared and "server" in self._client:
            info["server"] = self._client["server"]
        return info

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        """Nobody serves; tell the requester, unless others got the request. Return how often."""
        for index in range(start, stop):
            if reply := run.reply(index):
                self._service.exporter.replies.unserved(reply, self._now)
        publisher = self._sender
        told = 0
        if publisher is None:
            return told
        for index in range(self._start + start, self._start + stop):
            if not self._has_other_interest(self._run.subject(index)):
                told += publisher.unanswered(self._run, index, index + 1)
        return told

    def _has_other_interest(self, subject: bytes) -> bool:
        """Tell whether anybody else took a request, or another import will say that none did."""
        match = self._service.importer.sublist.match(subject)
        if match.crowd is not None or match.queues:
            return True
        first = None
        for other in [each.receiver for each in match.plain]:
            if not isinstance(other, ServiceImport):
                return True
            first = first or other
            if other is not self._service:
                there = other.exporter.sublist
                if there.has_interest(other.subject_of(subject)):
                    return True
        return first is not self._service


def _with_service(info: dict[str, Any], account: str) -> dict[str, Any]:
    """Return the info with `account` as the last one for which the request was made."""
    first = {key: info[key] for key in _BEFORE_SERVICE if key in info}
    return first | {"svc": account} | {key: info[key] for key in info if key not in first}
