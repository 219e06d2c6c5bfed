"""Fast batches: what a reply subject says, and when it is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.streams.batches.fast_batch import BatchPlace, parse_reply
from jetstream_server.protocol.ops import PubRun

ACK = {"type": "ack"}


@pytest.fixture
def stream(bench: Any) -> Any:
    return bench.stream(allow_batched=True)


def reply(position: int, op: int, *, batch: str = "b", flow: int = 5, gap: str = "fail") -> bytes:
    return f"_INBOX.c.{batch}.{flow}.{gap}.{position}.{op}.$FI".encode()


def send(bench: Any, stream: Any, *replies: bytes, lines: tuple[str, ...] = ()) -> list[Any]:
    run = PubRun.of([(b"s.a", each, bench.block(*lines), b"x") for each in replies])
    stream.receive(Stretch.of_server(run, bench.inbox, bench.now))
    return [json.loads(payload) for _, _, payload in bench.sent()]


def test_a_reply_says_everything() -> None:
    assert parse_reply(b"_INBOX.a.b.c.300.ok.17.1.$FI") == BatchPlace(b"c", 300, True, 17, 1)
    assert parse_reply(b"i.b.x.fail.1.0.$FI").flow == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"b.5.fail.1.0.$FI", 10206),
        (b".$FI", 10206),
        (b"i.b.5.maybe.1.0.$FI", 10206),
        (b"i.b.5.ok.0.0.$FI", 10206),
        (b"i.b.5.ok.x.0.$FI", 10206),
        (b"i.b.5.ok.1.1.$FI", 10206),
        (b"i.b.5.ok.1.3.$FI", 10206),
        (b"i.b.5.ok.2.0.$FI", 10206),
        (b"i.b.5.ok.1.5.$FI", 10206),
        (b"i.b.5.ok.18446744073709551616.1.$FI", 10206),
        (b"i.b.5.ok." + b"9" * 5000 + b".1.$FI", 10206),
        (b"i." + b"b" * 65 + b".5.ok.1.0.$FI", 10207),
    ],
)
def test_what_says_nothing(text: bytes, expected: int) -> None:
    with pytest.raises(ApiError) as caught:
        parse_reply(text)
    assert caught.value.err_code == expected


@settings(max_examples=50)
@given(text=st.binary(max_size=40))
def test_any_reply_is_read_or_refused(text: bytes) -> None:
    try:
        assert parse_reply(text + b".$FI").position >= 1
    except ApiError as error:
        assert error.err_code in (10206, 10207)


def test_acks_come_every_so_many(bench: Any, stream: Any) -> None:
    run = [reply(1, 0), *[reply(n, 1) for n in range(2, 12)], reply(12, 2)]
    assert send(bench, stream, *run) == [
        {**ACK, "seq": 0, "msgs": 5},
        {**ACK, "seq": 5, "msgs": 5},
        {**ACK, "seq": 10, "msgs": 5},
        {"stream": "S", "seq": 12, "batch": "b", "count": 12},
    ]
    assert stream.store.last_seq == 12


def test_with_others_at_work_it_begins_carefully(bench: Any, stream: Any) -> None:
    send(bench, stream, reply(1, 0, batch="a"))
    answers = send(bench, stream, reply(1, 0), *[reply(n, 1) for n in range(2, 13)])
    assert [(each["seq"], each["msgs"]) for each in answers] == [
        *((0, 1), (1, 2), (3, 4), (7, 5), (12, 5))
    ]


def test_pings_repeat_the_last_ack(bench: Any, stream: Any) -> None:
    send(bench, stream, reply(1, 0), reply(2, 1))
    assert send(bench, stream, reply(2, 4)) == [{**ACK, "seq": 0, "msgs": 5}]
    assert send(bench, stream, reply(3, 3))[0]["count"] == 2
    assert send(bench, stream, reply(2, 4))[0]["error"]["err_code"] == 10208


def test_gaps_end_a_batch_or_are_reported(bench: Any, stream: Any) -> None:
    assert send(bench, stream, reply(1, 0), reply(4, 1))[1:] == [
        {"type": "gap", "last_seq": 2, "seq": 4},
        {"stream": "S", "seq": 1, "batch": "b", "count": 1},
    ]
    loose = [reply(1, 0, gap="ok"), reply(4, 1, gap="ok"), reply(5, 2, gap="ok")]
    assert send(bench, stream, *loose)[1:] == [
        {"type": "gap", "last_seq": 2, "seq": 4},
        {"stream": "S", "seq": 4, "batch": "b", "count": 5},
    ]
    again = [reply(1, 0, gap="ok"), reply(1, 0, gap="ok")]
    assert send(bench, stream, *again)[1:] == [
        {"type": "gap", "last_seq": 2, "seq": 1},
        {"stream": "S", "seq": 5, "batch": "b", "count": 1},
    ]


def test_after_a_gap_acks_come_where_they_would_have_come(bench: Any, stream: Any) -> None:
    """They came so many after the gap (attack seed 32600)."""
    positions = (2, 9, 10, 11, 30, 36)
    sent = [reply(1, 0, gap="ok"), *(reply(each, 1, gap="ok") for each in positions)]
    said = [each for each in send(bench, stream, *sent) if each["type"] == "ack"]
    assert [each["seq"] for each in said] == [0, 5, 10, 30, 35]


def test_a_ping_beyond_a_gap_passes_what_is_lost(bench: Any, stream: Any) -> None:
    send(bench, stream, reply(1, 0, gap="ok"))
    pings = (reply(6, 4, gap="ok"), reply(6, 4, gap="ok"), reply(12, 4, gap="ok"))
    assert send(bench, stream, *pings) == [
        {"type": "gap", "last_seq": 2, "seq": 7},
        {**ACK, "seq": 5, "msgs": 5},
        {**ACK, "seq": 5, "msgs": 5},
        {"type": "gap", "last_seq": 7, "seq": 13},
        {**ACK, "seq": 10, "msgs": 5},
    ]
    assert send(bench, stream, reply(13, 1, gap="ok")) == []
    assert send(bench, stream, *(reply(n, 1, gap="ok") for n in (14, 15)))[0]["seq"] == 15


def test_what_needs_a_newer_server_is_refused_and_ends_its_batch(bench: Any, stream: Any) -> None:
    def codes(*replies: bytes, lines: tuple[str, ...] = ()) -> list[int]:
        return [each["error"]["err_code"] for each in send(bench, stream, *replies, lines=lines)]

    newer = ("Nats-Required-Api-Level: 99",)
    assert codes(reply(2, 1), lines=newer) == [10208]
    assert codes(reply(1, 0), lines=newer) == [10185]
    for second in (reply(2, 1), reply(4, 2, gap="ok"), reply(2, 3), reply(1, 4)):
        assert [each["type"] for each in send(bench, stream, reply(1, 0))] == ["ack"]
        assert codes(second, lines=newer) == [10185]
        assert codes(reply(2, 1)) == [10208]
    assert stream.store.last_seq == 4, "one of each batch"
    known = ("Nats-Required-Api-Level: 4",)
    assert send(bench, stream, reply(1, 2), lines=known)[0]["count"] == 1


def test_a_wrong_last_id_is_an_error_like_any_other(bench: Any, stream: Any) -> None:
    """The genuine server answers it as if there was no batch, and its end never (seed 32600)."""
    wrong = ("Nats-Expected-Last-Msg-Id: x",)
    begun, refused = send(bench, stream, reply(1, 0, gap="ok"), lines=wrong)
    assert (begun["type"], refused["type"], refused["error"]["err_code"]) == ("ack", "err", 10070)
    assert send(bench, stream, reply(2, 3, gap="ok"))[0]["count"] == 1


def test_one_that_ended_with_its_first_message_is_not_open_beside_others(
    bench: Any, stream: Any
) -> None:
    """The genuine server goes on counting it (attack seed 900800)."""
    wrong = ("Nats-Expected-Last-Msg-Id: x",)
    assert len(send(bench, stream, reply(1, 0, batch="w", flow=2), lines=wrong)) == 2
    assert send(bench, stream, reply(1, 0, flow=2)) == [{"type": "ack", "seq": 0, "msgs": 2}]
    assert send(bench, stream, reply(2, 1, flow=2)) == [{"type": "ack", "seq": 2, "msgs": 2}]


def test_positions_have_64_bits(bench: Any, stream: Any) -> None:
    """They had 18 digits (attack seed 52400)."""
    last = 2**64 - 1
    assert send(bench, stream, reply(last, 1))[0]["error"]["err_code"] == 10208
    send(bench, stream, reply(1, 0, gap="ok"))
    assert send(bench, stream, reply(last, 2, gap="ok")) == [
        {"type": "gap", "last_seq": 2, "seq": last},
        {"stream": "S", "seq": 2, "batch": "b", "count": last},
    ]


def test_errors_end_a_batch_or_are_reported(bench: Any, stream: Any) -> None:
    bad = ("Nats-Expected-Stream: T",)
    (begun, refused) = send(bench, stream, reply(1, 0), lines=bad)
    assert (begun["type"], refused["error"]["err_code"]) == ("ack", 10060)
    send(bench, stream, reply(1, 0))
    error, end = send(bench, stream, reply(2, 1), lines=bad)
    assert (error["type"], error["seq"], error["error"]["err_code"]) == ("err", 2, 10060)
    assert end == {"stream": "S", "seq": 1, "batch": "b", "count": 1}
    send(bench, stream, reply(1, 0, gap="ok"))
    assert [e["type"] for e in send(bench, stream, reply(2, 1, gap="ok"), lines=bad)] == ["err"]
    assert send(bench, stream, reply(3, 2, gap="ok"))[0]["count"] == 3


def test_duplicates_count_and_are_not_stored(bench: Any, stream: Any) -> None:
    same = ("Nats-Msg-Id: m",)
    end = send(bench, stream, reply(1, 0), reply(2, 1), reply(3, 2), lines=same)[-1]
    assert end == {"stream": "S", "seq": 1, "batch": "b", "count": 3}
    assert stream.store.last_seq == 1


def test_ordinary_messages_in_the_same_run(bench: Any, stream: Any) -> None:
    answers = send(bench, stream, b"_INBOX.c.1", reply(1, 2), b"_INBOX.c.2")
    assert [each["seq"] for each in answers] == [1, 2, 3]
    assert [("batch" in each) for each in answers] == [False, True, False]


def test_idle_batches_are_forgotten(bench: Any, stream: Any) -> None:
    send(bench, stream, reply(1, 0))
    bench.advance(11 * SECOND)
    assert stream.publishing.fast_batches.next_deadline() is None
    assert send(bench, stream, reply(2, 1))[0]["error"]["err_code"] == 10208


def test_the_id_of_an_atomic_batch_is_not_stored(bench: Any, stream: Any) -> None:
    send(bench, stream, reply(1, 2), lines=("Nats-Batch-Id: x", "A: b"))
    assert stream.store.load(1).headers == b"NATS/1.0\r\nA: b\r\n\r\n"


def test_not_allowed(bench: Any) -> None:
    stream = bench.stream()
    assert send(bench, stream, reply(1, 0))[0]["error"]["err_code"] == 10205
