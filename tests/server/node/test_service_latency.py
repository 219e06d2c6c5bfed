"""How long services take to answer; played beside the genuine server by `latency.txt`."""

from __future__ import annotations

import json
from functools import partial
from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.node.service_latency import (
    BAD_REQUEST,
    TRACING_BYTES_MAX,
    LatencyTerms,
    TimedRequest,
    timed,
    traced,
)

from tests.traced_lines import lines_of

NOW = 1_700_000_000 * SECOND
CLIENT = {"acc": "B", "rtt": 20}


def block(*lines: bytes) -> bytes:
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def test_a_metric_of_an_answer():
    request = TimedRequest(b"l", CLIENT, NOW, {"B": ["2"], "A": ["1"]})
    metric = json.loads(request.answered({"acc": "A", "rtt": 30}, "ID", NOW + 100))
    assert list(metric) == [
        "type", "id", "timestamp", "status", "requestor", "responder", "header", "start",
        "service", "system", "total",
    ]  # fmt: skip
    assert metric["type"] == "io.nats.server.metric.v1.service_latency"
    assert (metric["service"], metric["system"], metric["total"]) == (70, 0, 120)
    assert metric["start"] == "2023-11-14T22:13:19.99999998Z"
    assert list(metric["header"]) == ["A", "B"]


def test_a_round_trip_longer_than_the_answer():
    metric = json.loads(TimedRequest(b"l", {}, NOW, None).answered({"rtt": 300}, "ID", NOW + 100))
    assert metric["service"] == 0 and metric["total"] == 100
    assert "requestor" not in metric and "header" not in metric


def test_a_metric_of_a_failure():
    metric = json.loads(TimedRequest(b"l", CLIENT, NOW, None).failed(BAD_REQUEST, "ID", NOW))
    assert (metric["status"], metric["description"]) == (400, "Bad Request")
    assert metric["total"] == 0 and "responder" not in metric


def test_some_of_a_hundred_are_timed():
    def count(percent: int) -> int:
        random = Random(1)
        terms = LatencyTerms(percent, b"l")
        return sum(timed(terms, b"", CLIENT, random, NOW) is not None for _ in range(2000))

    assert count(100) == 2000 and 500 < count(30) < 700
    assert timed(None, b"", CLIENT, Random(1), NOW) is None


def test_headers_decide_where_they_are_to():
    terms = LatencyTerms(0, b"l")
    assert timed(terms, b"", CLIENT, Random(1), NOW) is None
    request = timed(terms, block(b"x-b3-sampled: 1"), CLIENT, Random(1), NOW)
    assert request == TimedRequest(b"l", CLIENT, NOW, {"X-B3-Sampled": ["1"]})


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([], None),
        ([b"Foo: bar"], None),
        ([b"Uber-Trace-Id: a:b:c:1", b"uberctx-user: x", b"Foo: x"],
         ["Uber-Trace-Id", "Uberctx-User"]),
        ([b"Uber-Trace-Id: a:b:c:0"], None),
        ([b"Uber-Trace-Id: a:b:c:zz"], None),
        ([b"Uber-Trace-Id: a"], None),
        ([b"X-B3-Sampled: 0", b"X-B3-TraceId: a"], None),
        ([b"X-B3-Sampled: 1", b"X-B3-TraceId: a"], ["X-B3-Traceid", "X-B3-Sampled"]),
        ([b"X-B3-TraceId: a"], ["X-B3-Traceid"]),
        ([b"b3: 0"], None),
        ([b"b3: a-b-0-c"], None),
        ([b"b3: a-b-1"], ["B3"]),
        ([b"b3: d"], ["B3"]),
        ([b"traceparent: 00-a-b-01", b"tracestate: x=y"], ["Traceparent", "Tracestate"]),
        ([b"traceparent: 00-a-b-00"], None),
        ([b"traceparent: 00-a-b-1"], None),
        ([b"traceparent: \xff"], None),
    ],
)  # fmt: skip
def test_headers_of_tracing(lines, names):
    found = traced(block(*lines))
    assert (None if found is None else list(found)) == names


def test_few_of_very_many_headers_of_tracing_are_kept():
    """A megabyte of lines took 0.16 s; a request keeps its headers until it is answered."""
    given = block(
        *[b"x%x:" % n for n in range(5000)],
        b"Uber-Trace-Id: a:b:c:1",
        *[b"uberctx-%04d: v" % n for n in range(1000)],
    )
    found = traced(given)
    assert found is not None and found["Uber-Trace-Id"] == ["a:b:c:1"]
    assert list(found)[1:] == [f"Uberctx-{n:04}" for n in range(len(found) - 1)]
    assert 100 < len(found) < TRACING_BYTES_MAX // 15
    again = traced(block(b"b3: d", *[b"B3:"] * 5000))
    assert again is not None and len(again["B3"]) < TRACING_BYTES_MAX // 3
    no_values = block(b"Uber-Trace-Id: a:b:c:1", *[b"uberctx-"] * 5000)
    for each in (given, no_values):
        assert lines_of(partial(traced, each)) < 20 * (TRACING_BYTES_MAX // 10)


def test_a_line_that_is_too_long_counts_as_empty():
    parent = b"traceparent: 00-%b-b-01"
    assert traced(block(parent % (b"a" * 4000))) is not None
    assert traced(block(parent % (b"a" * TRACING_BYTES_MAX))) is None


def test_a_last_line_without_an_end():
    assert traced(b"NATS/1.0\r\nb3: d") == {"B3": ["d"]}
