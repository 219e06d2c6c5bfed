"""Ids read out of runs, and ids remembered for a window."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.streams.dedupe import Dedupe
from jetstream_server.store.memory import MemoryStore


def spans_of(*ids: bytes) -> tuple[bytes, array[int]]:
    chunk, spans = b"", array("i")
    for each in ids:
        spans.extend((len(chunk), len(chunk) + len(each)))
        chunk += each
    return chunk, spans


def test_ids_end_with_their_window() -> None:
    dedupe = Dedupe(SECOND)
    assert dedupe.take(*spans_of(b"a", b"b"), 0) == 2
    dedupe.keep(1, 0)
    dedupe.record(b"c", 3, 20 * MILLISECOND)
    assert dedupe.take(*spans_of(b"x", b"y", b"c", b"z"), 0) == 2
    dedupe.drop()
    assert dedupe.take(*spans_of(b"x", b"y", b"x"), 0) == 2
    dedupe.drop()
    assert list(dedupe.sequences(*spans_of(b"a", b"c", b"x", b"b"), 0)) == [1, 3]
    dedupe.expire(SECOND - 1)
    assert len(dedupe) == 3
    dedupe.expire(SECOND)
    assert (dedupe.find(b"a"), dedupe.find(b"c")) == (None, 3)
    assert dedupe.next_deadline() == SECOND + 20 * MILLISECOND
    dedupe.expire(2 * SECOND)
    assert (len(dedupe), dedupe.next_deadline()) == (0, None)


def test_ids_of_one_spell_end_together() -> None:
    dedupe, begin = Dedupe(SECOND), 100 * SECOND
    dedupe.record(b"a", 1, begin)
    dedupe.record(b"b", 2, begin + 9 * MILLISECOND)
    dedupe.record(b"c", 3, begin + 10 * MILLISECOND)
    assert dedupe.next_deadline() == begin + SECOND + 9 * MILLISECOND
    dedupe.expire(begin + SECOND + 9 * MILLISECOND)
    assert [dedupe.find(each) for each in (b"a", b"b", b"c")] == [None, None, 3]


@pytest.mark.parametrize("message_id", [b"a", b"a" * 60_000])
@pytest.mark.parametrize(("age", "found"), [(SECOND, None), (SECOND - 1, 1)])
def test_an_id_is_read_again_unless_its_window_is_over(
    age: int, found: int | None, message_id: bytes
) -> None:
    store, dedupe = MemoryStore(0), Dedupe(SECOND)
    store.append(b"s.a", b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % message_id, b"", 5 * SECOND)
    dedupe.recover(store, 5 * SECOND + age)
    assert dedupe.find(message_id) == found


def test_no_window_remembers_nothing() -> None:
    dedupe = Dedupe(0)
    dedupe.record(b"a", 1, 0)
    assert dedupe.take(*spans_of(b"a", b"a"), 0) == 2
    dedupe.keep(1, 0)
    assert (len(dedupe), dedupe.next_deadline()) == (0, None)


def test_a_known_id_keeps_its_sequence() -> None:
    dedupe = Dedupe(SECOND)
    dedupe.record(b"a", 1, 0)
    dedupe.record(b"a", 2, 5)
    assert (dedupe.find(b"a"), len(dedupe)) == (1, 1)
    dedupe.expire(SECOND)
    assert dedupe.find(b"a") is None


def test_a_clock_set_back_prolongs_the_life_of_ids() -> None:
    dedupe = Dedupe(SECOND)
    dedupe.record(b"a", 1, 5 * SECOND)
    dedupe.record(b"b", 2, 4 * SECOND)
    dedupe.expire(5 * SECOND)
    assert (dedupe.find(b"a"), dedupe.find(b"b")) == (1, 2)
    dedupe.expire(6 * SECOND)
    assert len(dedupe) == 0


def test_long_windows_are_remembered_in_a_bounded_number_of_spells() -> None:
    day = 86_400 * SECOND
    dedupe = Dedupe(day)
    for minute in range(60):
        dedupe.record(b"%d" % minute, minute, minute * 60 * SECOND)
    assert len(dedupe) == 60
    dedupe.expire(day + 30 * 60 * SECOND)
    assert (dedupe.find(b"30"), dedupe.find(b"31")) == (None, 31)


def test_ids_are_read_again_from_what_is_stored() -> None:
    store = MemoryStore(0)
    both = b"NATS/1.0\r\nNats-TTL: 9s\r\nNats-Msg-Id: b\r\n\r\n"
    for second, headers in enumerate(
        [
            b"NATS/1.0\r\nNats-Msg-Id: too old\r\n\r\n",
            b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n",
            b"",
            both,
            b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n",
            b"NATS/1.0\r\nNats-Msg-Id: c\r\n\r\n",
        ]
    ):
        payload = b"\r\nNats-Msg-Id: in the payload\r\n"
        store.append(b"s.a", headers, payload, second * SECOND)
        store.append(b"s.a", b"", payload, second * SECOND + MILLISECOND)
    dedupe = Dedupe(10 * SECOND)
    dedupe.recover(store, 11 * SECOND - MILLISECOND)
    assert [dedupe.find(each) for each in (b"too old", b"a", b"b", b"c")] == [None, 3, 7, 11]
    assert len(dedupe) == 3
    assert dedupe.next_deadline() == 11 * SECOND
    dedupe.expire(13 * SECOND)
    assert [dedupe.find(each) for each in (b"a", b"b", b"c")] == [None, None, 11]
    assert dedupe.next_deadline() == 15 * SECOND


def test_ids_of_one_time_are_read_again_as_one_spell() -> None:
    store, dedupe = MemoryStore(0), Dedupe(SECOND)
    for number in range(10_000):
        headers = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
        store.append(b"s.a", headers, b"", number * MILLISECOND // 1000)
    dedupe.recover(store, 0)
    assert (len(dedupe), dedupe.find(b"9999")) == (10_000, 10_000)
    dedupe.expire(SECOND + 9 * MILLISECOND)
    assert len(dedupe) == 10_000
    dedupe.expire(SECOND + 10 * MILLISECOND)
    assert len(dedupe) == 0


def with_ids(*ids: object) -> list[tuple[bytes, bytes, tuple[str, ...]]]:
    return [(b"s.a", b"x", (f"Nats-Msg-Id: {value}",)) for value in ids]


@pytest.mark.parametrize("extra", [(), ("X: y",), ("Nats-Expected-Stream: S",)])
def test_runs_with_ids(bench: Any, extra: tuple[str, ...]) -> None:
    stream = bench.stream()
    messages = [(s, p, (*h, *extra)) for s, p, h in with_ids(1, 2, 3, 2, 4, 1, 1, 5)]
    answers = bench.publish_all(stream, messages)
    assert answers == [
        b'{"stream":"S","seq":1}',
        b'{"stream":"S","seq":2}',
        b'{"stream":"S","seq":3}',
        b'{"stream":"S","seq":2,"duplicate": true}',
        b'{"stream":"S","seq":4}',
        b'{"stream":"S","seq":1,"duplicate": true}',
        b'{"stream":"S","seq":1,"duplicate": true}',
        b'{"stream":"S","seq":5}',
    ]
    assert stream.contents.last_message_id == b"5"
    assert all(json.loads(answer)["duplicate"] for answer in bench.publish_all(stream, messages))
    assert stream.store.last_seq == 5


def test_ids_among_other_messages(bench: Any) -> None:
    stream = bench.stream()
    messages = [
        (b"s.a", b"x", ()),
        *with_ids("a", "a"),
        (b"s.a", b"x", ("Nats-Msg-Id: a", "Nats-Expected-Stream: S")),
        (b"s.a", b"x", ()),
        *with_ids("b", "a"),
    ]
    answers = [json.loads(answer) for answer in bench.publish_all(stream, messages)]
    assert [answer["seq"] for answer in answers] == [1, 2, 2, 2, 3, 4, 2]
    assert ["duplicate" in answer for answer in answers] == [0, 0, 1, 1, 0, 0, 1]


def test_messages_that_only_name_their_stream_are_stored_without_an_id(bench: Any) -> None:
    stream = bench.stream()
    named = (b"s.a", b"x", ("Nats-Expected-Stream: S",))
    astray = (b"s.a", b"x", ("Nats-Expected-Stream: T", "Nats-Msg-Id: 2"))
    answers = bench.publish_all(stream, [*with_ids(1), named, named, astray, named, *with_ids(2)])
    assert [json.loads(answer).get("seq", 0) for answer in answers] == [1, 2, 3, 0, 4, 5]
    assert json.loads(answers[3])["error"]["err_code"] == 10060
    bench.publish_all(stream, [named])
    assert stream.contents.last_message_id == b""


def test_trailing_blanks_make_another_id(bench: Any) -> None:
    stream = bench.stream()
    assert [
        bench.publish(stream, b"s.a", b"", f"Nats-Msg-Id:{v}")["seq"] for v in (" a", "  a", "a ")
    ] == [1, 1, 2]


def test_the_timer_forgets(bench: Any) -> None:
    stream = bench.stream(duplicate_window=SECOND)
    bench.publish_all(stream, with_ids(*range(100)))
    bench.advance(SECOND - MILLISECOND)
    assert len(stream.contents.dedupe) == 100
    bench.advance(60 * MILLISECOND)
    assert len(stream.contents.dedupe) == 0
    assert bench.context.deadlines.next_deadline() is None
    assert bench.publish_all(stream, with_ids(1)) == [b'{"stream":"S","seq":101}']


def test_ids_outlive_their_messages(bench: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, with_ids(1))
    stream.purge(b"", 0, 0, bench.now)
    assert bench.publish_all(stream, with_ids(1)) == [b'{"stream":"S","seq":1,"duplicate": true}']


def test_an_id_that_came_again_is_the_later_one_after_a_restart() -> None:
    store = MemoryStore(0)
    for moment in (0, SECOND):
        store.append(b"s", b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n", b"", moment)
    dedupe = Dedupe(SECOND)
    dedupe.recover(store, SECOND)
    dedupe.expire(SECOND)
    assert dedupe.find(b"a") == 2
