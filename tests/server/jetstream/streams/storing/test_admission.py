"""Which publish is refused, with what, and what wins when several reasons apply."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from jetstream_server.core.subscription import Stretch
from jetstream_server.protocol.ops import PubRun

# One header for each refusal of a plain stream whose last message is 1, in the order in which they
# win over one another (docs/reference/publishing.md#order-of-checks).
ORDERED = [
    ("Nats-Batch-Id: b", 10174),
    ("Nats-Incr: 1", 10168),
    ("Nats-Expected-Stream: other", 10060),
    ("Nats-TTL: 5", 10166),
    ("Nats-Expected-Last-Subject-Sequence-Subject: s.a", 10193),
    ("Nats-Expected-Last-Sequence: 9", 10071),
    ("Nats-Schedule: @every 1s", 10188),
    ("Nats-Stream-Source: x", 10227),
    ("Nats-Msg-Id: seen", 0),
    ("Nats-Expected-Last-Msg-Id: other", 10070),
    ("Nats-Rollup: sub", 10111),
]


def err_code(answer: dict[str, Any]) -> int:
    return int(answer["error"]["err_code"]) if "error" in answer else 0


def error_text(answer: dict[str, Any]) -> str:
    return str(answer["error"]["description"])


@pytest.mark.parametrize("pair", list(itertools.combinations(ORDERED, 2)), ids=str)
def test_which_refusal_wins(bench: Any, pair: tuple[tuple[str, int], tuple[str, int]]) -> None:
    stream = bench.stream()
    bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: seen")
    headers = [header for header, _ in pair]
    for lines in (headers, headers[::-1]):
        answer = bench.publish(stream, b"s.a", b"", *lines)
        assert err_code(answer) == pair[0][1]
        assert answer.get("duplicate", False) == (pair[0][1] == 0)
    assert stream.store.last_seq == 1


def test_size_wins_over_every_header(bench: Any) -> None:
    stream = bench.stream(max_msg_size=100)
    for header, _ in ORDERED:
        assert err_code(bench.publish(stream, b"s.a", b"x" * 100, header)) == 10054
    assert err_code(bench.publish(stream, b"s.a", b"x" * 101)) == 10054
    assert err_code(bench.publish(stream, b"s.a", b"x" * 100)) == 0


def test_header_block_over_64k(bench: Any) -> None:
    stream = bench.stream()
    small = (b"s.a", b"x", ())
    large = (b"s.a", b"x", ("A: " + "y" * 65_535,))
    allowed = (b"s.a", b"x" * 70_000, ("A: " + "y" * (65_535 - 17),))
    answers = bench.publish_all(stream, [small, allowed, small, large, small])
    assert [b"10097" in answer for answer in answers] == [False, False, False, True, False]
    assert stream.store.last_seq == 4


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_subject_that_no_record_can_hold(bench: Any, storage: str) -> None:
    """No client can say it, but a mapping or a transform may make it."""
    stream = bench.stream(storage=storage, subjects=["s.>"])
    fits, is_too_long = b"s." + b"x" * 65_533, b"s." + b"x" * 65_534
    subjects = [b"s.a", fits, is_too_long, b"s.b"]
    answers = bench.publish_all(stream, [(subject, b"x", ()) for subject in subjects])
    assert [
        b'"err_code":10077,"description":"subject too long"' in answer for answer in answers
    ] == [0, 0, 1, 0]
    assert stream.store.last_seq == 3 and stream.store.load(2).subject == fits


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_transform_that_makes_a_subject_too_long(bench: Any, storage: str) -> None:
    transform = {"src": "s.*", "dest": "s." + ".".join(["$1"] * 60)}
    stream = bench.stream(storage=storage, subject_transform=transform)
    token = b"x" * 1091
    assert err_code(bench.publish(stream, b"s." + token, b"1", "Nats-Msg-Id: 1")) == 0
    answer = bench.publish(stream, b"s." + token + b"x", b"2", "Nats-Msg-Id: 2")
    assert error_text(answer) == "subject too long" and err_code(answer) == 10077
    assert stream.store.load(1).subject == b"s." + b".".join([token] * 60)
    assert stream.store.last_seq == 1


def test_record_over_32_mib(bench: Any) -> None:
    stream = bench.stream(storage="file")
    answer = bench.publish(stream, b"s.a", bytes(32 * 1024 * 1024 + 1))
    assert (err_code(answer), error_text(answer)) == (10077, "message too large")


@pytest.mark.parametrize("value", ["abc", "-1", "+1", "1 ", "18446744073709551615", "9" * 20, "0"])
@pytest.mark.parametrize("header", ["Last-Sequence", "Last-Subject-Sequence"])
def test_expected_sequences_that_match_none(bench: Any, header: str, value: str) -> None:
    stream = bench.stream()
    bench.publish(stream)
    answer = bench.publish(stream, b"s.a", b"", f"Nats-Expected-{header}: {value}")
    assert (err_code(answer), error_text(answer)) == (10071, "wrong last sequence: 1")


@pytest.mark.parametrize("value", ["1", "01", " 1", ""])
@pytest.mark.parametrize("header", ["Last-Sequence", "Last-Subject-Sequence"])
def test_expected_sequences_that_match(bench: Any, header: str, value: str) -> None:
    stream = bench.stream()
    bench.publish(stream)
    assert bench.publish(stream, b"s.a", b"", f"Nats-Expected-{header}: {value}")["seq"] == 2


def test_expected_sequence_of_another_subject(bench: Any) -> None:
    stream = bench.stream()
    bench.publish(stream, b"s.a")
    subject = "Nats-Expected-Last-Subject-Sequence-Subject: s.*"
    one = "Nats-Expected-Last-Subject-Sequence: 1"
    assert bench.publish(stream, b"s.b", b"", one, subject)["seq"] == 2
    assert error_text(bench.publish(stream, b"s.b", b"", one, subject)) == "wrong last sequence: 2"
    zero = "Nats-Expected-Last-Subject-Sequence: 0"
    foreign = "Nats-Expected-Last-Subject-Sequence-Subject: x..y"
    assert bench.publish(stream, b"s.b", b"", zero, foreign)["seq"] == 3
    assert err_code(bench.publish(stream, b"s.b", b"", subject)) == 10193


def test_expected_last_message_id(bench: Any) -> None:
    stream = bench.stream()
    expects = "Nats-Expected-Last-Msg-Id: a"
    assert error_text(bench.publish(stream, b"s.a", b"", expects)) == "wrong last msg ID: "
    bench.publish(stream, b"s.a", b"", 'Nats-Msg-Id: <q> é "')
    assert error_text(bench.publish(stream, b"s.a", b"", expects)) == 'wrong last msg ID: <q> é "'
    (raw,) = bench.publish_all(stream, [(b"s.a", b"", (expects,))])
    assert b'wrong last msg ID: \\u003cq\\u003e \xc3\xa9 \\"' in raw
    bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: a")
    assert err_code(bench.publish(stream, b"s.a", b"", expects)) == 0
    bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: a2")
    bench.publish(stream)
    assert error_text(bench.publish(stream, b"s.a", b"", expects)) == "wrong last msg ID: "


def test_rollup_needs_permission(bench: Any) -> None:
    for fields in ({}, {"allow_rollup_hdrs": True, "deny_purge": True}):
        answer = bench.publish(bench.stream(**fields), b"s.a", b"", "Nats-Rollup: sub")
        assert (err_code(answer), error_text(answer)) == (10111, "rollup not permitted")


def test_rollup_values(bench: Any) -> None:
    stream = bench.stream(allow_rollup_hdrs=True)
    answer = bench.publish(stream, b"s.a", b"", 'Nats-Rollup: "x')
    assert (err_code(answer), error_text(answer)) == (10111, 'rollup value invalid: "\\"x"')
    assert error_text(bench.publish(stream, b"s.a", b"", "Nats-Rollup: sub ")).endswith('"sub "')
    assert bench.publish(stream, b"s.a", b"", "Nats-Rollup: ")["seq"] == 1


@pytest.mark.parametrize(
    "header",
    [
        "nats-expected-last-sequence: 99",
        "Nats-Foo: x",
        "Nats-Incr: ",
        "Nats-Schedule: ",
        "Nats-Batch-Sequence: 1",
        "Nats-Marker-Reason: x",
        "Nats-Required-Api-Level: 99",
        "X-Nats-Incr: 1",
    ],
)
def test_headers_that_mean_nothing_here_are_stored(bench: Any, header: str) -> None:
    stream = bench.stream()
    assert bench.publish(stream, b"s.a", b"", header)["seq"] == 1
    assert stream.store.load(1).headers == bench.block(header)


def test_fast_batches_are_refused(bench: Any) -> None:
    stream = bench.stream()
    run = PubRun.of([(b"s.a", b"_INBOX.c.id.10.fail.1.0.$FI", b"", b"x")])
    stream.receive(Stretch(run, 0, 1, bench.inbox, None, bench.now))
    ((_, _, body),) = bench.sent()
    assert b'"err_code":10205' in body
    assert stream.store.last_seq == 0


@pytest.mark.parametrize(
    ("block", "stored"),
    [
        (b"NATS/1.0 200 OK\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0 200 OK\r\n\r\n", b""),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n\r\n"),
        (b"junk", b"junk"),
        (b"NATS/1.0", b"NATS/1.0"),
        (b"NATS/1.0\r\nA: b\r\nNats-Request-Info: {}\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0\r\nNats-Request-Info: {}\r\n\r\n", b""),
    ],
)
def test_what_is_stored_of_a_header_block(bench: Any, block: bytes, stored: bytes) -> None:
    stream = bench.stream()
    run = PubRun.of([(b"s.a", bench.reply(), block, b"x")])
    stream.receive(Stretch(run, 0, 1, bench.inbox, None, bench.now))
    message = stream.store.load(1)
    assert (message.headers, message.payload) == (stored, b"x")


def test_a_message_as_large_as_allowed_is_taken_beside_one_that_is_not(bench: Any) -> None:
    stream = bench.stream(max_msg_size=10)
    answers = bench.publish_all(stream, [(b"s.a", b"x" * size, ()) for size in (10, 11, 10)])
    assert [err_code(json.loads(answer)) for answer in answers] == [0, 10054, 0]
