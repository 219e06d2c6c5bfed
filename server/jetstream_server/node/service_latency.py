"""How long services take to answer, told on a subject of the exporting account.

An export says how many of its requests are timed, in percent, or that headers of distributed
tracing decide; the metric then tells those headers. One metric is sent for each timed request:
about its answer (200), or why there was none. Statuses, fields and headers as probed with 2.15.1
(schema `io.nats.server.metric.v1.service_latency`).

A request is kept until it is answered, and so are its headers of tracing: a limited amount of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.node.sought_headers import line_end

_TYPE = "io.nats.server.metric.v1.service_latency"
_LINE = b"\r\n"
# Of a request, in lines that belong to tracing; a line that is longer counts as empty.
TRACING_BYTES_MAX = 4096

# Statuses of requests without an answer.
BAD_REQUEST = 400
REQUEST_TIMEOUT = 408
SERVICE_UNAVAILABLE = 503
SERVICE_TIMEOUT = 504
_DESCRIPTIONS = {
    BAD_REQUEST: "Bad Request",
    REQUEST_TIMEOUT: "Request Timeout",
    SERVICE_UNAVAILABLE: "Service Unavailable",
    SERVICE_TIMEOUT: "Service Timeout",
}

# How lines begin, in small letters.
_UBER = b"\r\nuber-trace-id:"
_UBER_CONTEXT = b"\r\nuberctx-"
_B3_SAMPLED = b"\r\nx-b3-sampled:"
_B3_ID = b"\r\nx-b3-traceid:"
_B3 = b"\r\nb3:"
_PARENT = b"\r\ntraceparent:"
_STATE = b"\r\ntracestate:"
_B3_FAMILY = (_B3_ID, b"\r\nx-b3-parentspanid:", b"\r\nx-b3-spanid:", _B3_SAMPLED)


@dataclass(frozen=True, slots=True)
class LatencyTerms:
    """What an export says: how many of a hundred requests are timed, 0 for those whose headers ask
    for it, and on which subject that is reported."""

    percent: int
    subject: bytes


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request that is timed.

    Attributes:
        subject: where the metric goes.
        requestor: what may be told of who asked.
        started_at: when the request came, in nanoseconds.
        headers: of tracing, None where they did not decide.
    """

    subject: bytes
    requestor: dict[str, Any]
    started_at: int
    headers: Mapping[str, list[str]] | None

    @property
    def _requestor_rtt(self) -> int:
        return int(self.requestor.get("rtt", 0))

    def answered(self, responder: dict[str, Any] | None, event_id: str, now: int) -> bytes:
        """Return the metric of an answer; the server's own share of the time lies within one
        turn."""
        taken = now - self.started_at
        responder_rtt = int(responder.get("rtt", 0)) if responder else 0
        return self._metric(
            {"status": 200},
            responder,
            {
                "service": max(taken - responder_rtt, 0),
                "system": 0,
                "total": taken + self._requestor_rtt,
            },
            event_id,
            now,
        )

    def failed(self, status: int, event_id: str, now: int) -> bytes:
        """Return the metric of a request without an answer."""
        outcome = {"status": status, "description": _DESCRIPTIONS[status]}
        return self._metric(
            outcome, None, dict.fromkeys(("service", "system", "total"), 0), event_id, now
        )

    def _metric(
        self,
        outcome: dict[str, Any],
        responder: dict[str, Any] | None,
        times: dict[str, int],
        event_id: str,
        now: int,
    ) -> bytes:
        body = {"type": _TYPE, "id": event_id, "timestamp": format_time(now), **outcome}
        if self.requestor:
            body["requestor"] = self.requestor
        if responder:
            body["responder"] = responder
        if self.headers:
            body["header"] = dict(sorted(self.headers.items()))
        body["start"] = format_time(self.started_at - self._requestor_rtt)
        return encode(body | times)


def timed(
    terms: LatencyTerms | None,
    headers: bytes,
    requestor: dict[str, Any],
    random: Random,
    now: int,
) -> TimedRequest | None:
    """Return a request that is to be timed, None for one that is not."""
    if terms is None:
        return None
    if terms.percent:
        if random.randrange(100) >= terms.percent:
            return None
        return TimedRequest(terms.subject, requestor, now, None)
    tracing = traced(headers)
    return None if tracing is None else TimedRequest(terms.subject, requestor, now, tracing)


def traced(block: bytes) -> dict[str, list[str]] | None:
    """Return the headers of tracing by which a request asks to be followed, None when it does not.

    They are those of Jaeger, of Zipkin (B3, in two forms) and of the W3C, looked for in this order.
    """
    given = _Given(block)
    if uber := given.first(_UBER):
        parts = uber.split(":")
        if len(parts) == 4 and _is_flagged(parts[3]):
            return given.of(_UBER, _UBER_CONTEXT)
        return None
    if sampled := given.first(_B3_SAMPLED):
        return given.of(*_B3_FAMILY) if sampled == "1" else None
    if given.first(_B3_ID):  # left to whoever receives it
        return given.of(*_B3_FAMILY)
    if b3 := given.first(_B3):
        parts = b3.split("-")
        is_denied = parts == ["0"] or parts[2:3] == ["0"]
        return None if is_denied else given.of(_B3)
    if is_sampled(given.first(_PARENT)):
        return given.of(_PARENT, _STATE)
    return None


def is_sampled(parent: str) -> bool:
    """Tell whether a `traceparent` of the W3C has its message followed."""
    parts = parent.split("-", 4)
    return len(parts) == 4 and len(parts[3]) == 2 and _is_flagged(parts[3])


def _is_flagged(text: str) -> bool:
    """Tell whether the last bit of hexadecimal flags is set."""
    try:
        return 0 < len(text) <= 2 and bool(int(text, 16) & 1)
    except ValueError:
        return False


class _Given:
    """The headers of a request, whose keys may be written in any case."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._lowered = block.lower()

    def first(self, beginning: bytes) -> str:
        """Return the value of the first line that begins so, empty when there is none."""
        at = self._lowered.find(beginning)
        if at < 0:
            return ""
        stop = line_end(self._block, at)
        if stop - at > TRACING_BYTES_MAX:
            return ""
        return self._block[at + len(beginning) : stop].decode(errors="replace").strip()

    def of(self, *beginnings: bytes) -> dict[str, list[str]]:
        """Return the headers whose lines begin so, in this order, under names as they are usually
        written."""
        headers: dict[str, list[str]] = {}
        left = TRACING_BYTES_MAX
        for beginning in beginnings:
            at = self._lowered.find(beginning)
            while at >= 0:
                stop = line_end(self._block, at)
                left -= stop - at
                if left < 0:
                    return headers
                line = self._block[at + len(_LINE) : stop].decode(errors="replace")
                key, colon, value = line.partition(":")
                if colon:
                    name = "-".join([part.capitalize() for part in key.split("-")])
                    headers.setdefault(name, []).append(value.strip())
                at = self._lowered.find(beginning, stop)
        return headers
