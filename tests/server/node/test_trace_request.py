"""Whether a message is to be traced; played beside the genuine server by `tracing.txt`."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.node.trace_request import (
    DESTINATION_BYTES_MAX,
    SHOWN_BYTES_MAX,
    TraceTerms,
    is_of_other_server,
    trace_request,
    with_destination,
    without_trace,
)

from tests.traced_lines import lines_of

PARENT = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TERMS = TraceTerms(b"sampled", 100)


def block(*lines: bytes) -> bytes:
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def test_what_a_message_asks_for():
    asked = trace_request(block(b"Nats-Trace-Dest:  t ", b"A: 1", b"A: 2"), None, Random(1))
    assert asked is not None and asked.subject == b"t" and asked.is_asked_for
    assert asked.headers == {b"Nats-Trace-Dest": [b"t"], b"A": [b"1", b"2"]}
    assert not asked.is_only and not asked.encoding


@pytest.mark.parametrize(
    "lines",
    [
        (b"nats-trace-dest: t",),
        (b"Nats-Trace-Dest : t",),
        (b"Nats-Trace-Dest:",),
        (b"Nats-Trace-Dest: trace disabled",),
        (b"Nats-Trace-Dest: trace disabled", PARENT),
        (b"Nats-Trace-Only: true",),
        (b"traceparent: 00-a-b-00",),
        (b"traceparent: \xff-\xff-\xff-zz",),
    ],
)
def test_what_asks_for_nothing(lines: tuple[bytes, ...]):
    assert trace_request(block(*lines), TERMS, Random(1)) is None


@pytest.mark.parametrize(("value", "is_only"), [(b"1", 1), (b"On", 1), (b"TRUE", 1), (b"yes", 0)])
def test_only_looked_at(value: bytes, is_only: int):
    asked = trace_request(
        block(b"Nats-Trace-Dest: t", b"Nats-Trace-Only: " + value), None, Random(1)
    )
    assert asked is not None and asked.is_only == bool(is_only)


def test_a_share_of_what_others_follow_is_traced():
    assert trace_request(block(PARENT), None, Random(1)) is None
    asked = trace_request(block(PARENT, b"Nats-Trace-Only: 1"), TERMS, Random(1))
    assert asked is not None and asked.subject == b"sampled"
    assert not asked.is_asked_for and not asked.is_only
    random, terms = Random(1), TraceTerms(b"sampled", 30)
    count = sum(trace_request(block(PARENT), terms, random) is not None for _ in range(2000))
    assert 500 < count < 700


@pytest.mark.parametrize(
    ("wanted", "encoding"),
    [(b"gzip", "gzip"), (b"S2, gzip", "snappy"), (b"Snappy", "snappy"), (b"br", "")],
)
def test_how_the_trace_may_be_encoded(wanted: bytes, encoding: str):
    lines = (b"Nats-Trace-Dest: t", b"Accept-Encoding: " + wanted)
    asked = trace_request(block(*lines), None, Random(1))
    assert asked is not None and asked.encoding == encoding


def test_headers_that_ask_somebody_else():
    given = block(b"Nats-Trace-Dest: t", b"A: 1")
    assert without_trace(given) == block(b"A: 1", b"Nats-Trace-Dest: trace disabled")
    assert with_destination(block(b"A: 1"), b"x") == block(b"A: 1", b"Nats-Trace-Dest: x")
    assert is_of_other_server(block(b"Nats-Trace-Origin-Account: A"))
    assert not is_of_other_server(given)


def test_any_destination_may_say_that_nothing_is_traced():
    given = block(b"Nats-Trace-Dest: t", b"Nats-Trace-Dest:  trace disabled ")
    assert trace_request(given, TERMS, Random(1)) is None
    given = block(b"Nats-Trace-Dest: t", b"Nats-Trace-Dest: trace disabled, or not")
    assert trace_request(given, TERMS, Random(1)) is not None


def test_a_destination_that_nobody_can_listen_to():
    def asked(size: int) -> bool:
        given = block(b"Nats-Trace-Dest: " + b"t" * size)
        return trace_request(given, None, Random(1)) is not None

    assert asked(DESTINATION_BYTES_MAX) and not asked(DESTINATION_BYTES_MAX + 1)


def test_very_many_headers_are_searched_and_the_first_are_shown():
    """A megabyte of them took a third of a second."""
    lines = [b"%x:" % n for n in range(20_000)]
    given = block(*lines, b"Nats-Trace-Dest: t", b"Accept-Encoding: GZip")
    asked = trace_request(given, None, Random(1))
    assert asked is not None and (asked.subject, asked.encoding) == (b"t", "gzip")
    assert SHOWN_BYTES_MAX // 10 < len(asked.headers) < SHOWN_BYTES_MAX // 4
    assert list(asked.headers) == [b"%x" % n for n in range(len(asked.headers))]
    assert lines_of(lambda: trace_request(given, None, Random(1))) < 6 * SHOWN_BYTES_MAX
    parent = block(*lines, PARENT.upper())
    assert trace_request(parent, TERMS, Random(1)) is not None
    assert lines_of(lambda: trace_request(parent, None, Random(1))) < 30
