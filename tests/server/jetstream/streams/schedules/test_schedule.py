"""Schedules: what is one, when it comes up, and what is stored then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.clock import HOUR, SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.schedules import schedule
from jetstream_server.jetstream.streams.schedules.schedule import (
    FIRED_AT_ONCE,
    FIRED_BYTES_AT_ONCE,
    Schedules,
)
from jetstream_server.jetstream.streams.schedules.schedule_timing import TIMING_BYTES_MAX
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.store.vault import MemoryFolder

DAILY = "Nats-Schedule: @daily"
TARGET = "Nats-Schedule-Target: s.t"


@pytest.fixture
def stream(bench: Any) -> Any:
    return bench.stream(allow_msg_schedules=True, allow_msg_ttl=True)


def code(answer: Any) -> int:
    return int(answer["error"]["err_code"])


def targets(stream: Any) -> int:
    return int(stream.store.subject_count(b"s.t"))


def test_once(bench: Any, stream: Any) -> None:
    lines = ("X: y", "Nats-Schedule: @at 2020-01-01T00:00:00Z", TARGET, "Nats-Msg-Id: m")
    more = ("Nats-Schedule-TTL: 5m", "Nats-Schedule-Rollup: sub", "Nats-Batch-Sequence: 1")
    bench.publish(stream, b"s.a", b"body", *lines, *more)
    bench.advance(SECOND)
    assert stream.store.subject_count(b"s.a") == 0
    fired = stream.store.load(2)
    assert (fired.subject, fired.payload) == (b"s.t", b"body")
    assert fired.headers == (
        b"NATS/1.0\r\nX: y\r\nNats-Batch-Sequence: 1\r\nNats-Scheduler: s.a\r\n"
        b"Nats-Schedule-Next: purge\r\nNats-TTL: 5m\r\nNats-Rollup: sub\r\n\r\n"
    )
    assert stream.contents.schedules.next_deadline() is None
    bench.advance(HOUR)
    assert targets(stream) == 0, "the copy has a life of five minutes"


def test_again_and_again_until_it_is_ended(bench: Any, stream: Any) -> None:
    bench.publish(stream, b"s.a", b"", "Nats-Schedule: @every 10s", TARGET)
    bench.advance(35 * SECOND)
    assert targets(stream) == 3
    end = ("Nats-Schedule-Next: purge", "Nats-Scheduler: s.a")
    assert bench.publish(stream, b"s.x", b"", *end)["seq"] == 5
    assert stream.store.subject_count(b"s.a") == 0
    bench.advance(60 * SECOND)
    assert targets(stream) == 3


@pytest.mark.parametrize("how", ["plain", "run", "purge", "schedule"])
def test_what_takes_the_place_of_a_schedule_ends_it(bench: Any, stream: Any, how: str) -> None:
    bench.publish(stream, b"s.a", b"", "Nats-Schedule: @every 10s", TARGET)
    if how == "plain":
        bench.publish(stream, b"s.a")
    elif how == "run":
        bench.publish_all(stream, [(b"s.b", b"", ()), (b"s.a", b"", ())])
    elif how == "purge":
        stream.purge(b"s.a", 0, 0, bench.now)
    else:
        bench.publish(stream, b"s.a", b"", "Nats-Schedule: @every 1h", TARGET)
    bench.advance(60 * SECOND)
    assert targets(stream) == 0
    bench.advance(HOUR)
    assert targets(stream) == (1 if how == "schedule" else 0)


def test_the_body_of_another_subject(bench: Any, stream: Any) -> None:
    lines = ("Nats-Schedule: @every 10s", TARGET, "Nats-Schedule-Source: s.src", "Own: 1")
    bench.publish(stream, b"s.a", b"own", *lines)
    bench.advance(11 * SECOND)
    assert stream.store.load(2).payload == b"own"
    bench.publish(stream, b"s.src", b"theirs", "Their: 2")
    bench.advance(10 * SECOND)
    fired = stream.store.load_last(stream.store.filter([b"s.t"]))
    assert fired.payload == b"theirs"
    assert b"Their: 2\r\nNats-Scheduler: s.a\r\n" in fired.headers
    assert b"Own" not in fired.headers


def test_a_restart_makes_up_for_what_was_missed_once(bench: Any) -> None:
    folder = MemoryFolder(0)
    store = folder.messages()
    config = bench.config(allow_msg_schedules=True)
    stream = Stream(bench.context, config, bench.now, folder, store, bench.now)
    bench.publish(stream, b"s.a", b"", "Nats-Schedule: @every 10s", TARGET)
    bench.publish(stream, b"s.z", b"", DAILY, "Nats-Schedule-Target: s.u")
    bench.advance(11 * SECOND)
    assert targets(stream) == 1
    bench.context.deadlines.cancel(stream)
    bench.now += 100 * SECOND
    again = Stream(bench.context, config, bench.now, folder, store, bench.now)
    bench.advance(SECOND)
    assert targets(again) == 2
    bench.advance(10 * SECOND)
    assert targets(again) == 3
    assert again.contents.schedules is not None
    assert {*again.contents.schedules._subjects} == {b"s.a", b"s.z"}
    assert again.contents.schedules.are_among([b"s.b", b"s.z"])
    assert not again.contents.schedules.are_among([b"s.b"])


def test_a_disk_that_fails_delays(bench: Any, stream: Any, monkeypatch: Any) -> None:
    bench.publish(stream, b"s.a", b"", "Nats-Schedule: @at 2020-01-01T00:00:00Z", TARGET)

    def fail(*arguments: object) -> int:
        raise StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(stream.store, "append", fail)
        bench.advance(SECOND)
    assert targets(stream) == 0
    bench.advance(30 * SECOND)
    assert targets(stream) == 1


def test_a_disk_that_cannot_be_read_delays_all_that_were_due(
    bench: Any, stream: Any, monkeypatch: Any
) -> None:
    for name in ("a", "b", "c"):
        lines = ("Nats-Schedule: @at 2027-01-01T00:00:00Z", f"Nats-Schedule-Target: s.t.{name}")
        bench.publish(stream, f"s.{name}".encode(), b"", *lines)
    load, loads = stream.store.load, []

    def fail(sequence: int) -> Any:
        loads.append(sequence)
        if len(loads) == 2:
            raise StoreError("cannot be read")
        return load(sequence)

    schedules = stream.contents.schedules
    with monkeypatch.context() as patch:
        patch.setattr(stream.store, "load", fail)
        with pytest.raises(StoreError):
            schedules.pop_due(stream.store, schedules.next_deadline())
    late = schedules.pop_due(stream.store, schedules.next_deadline() + HOUR)
    assert sorted(copy.scheduler for copy in late) == [b"s.a", b"s.b", b"s.c"]


def test_what_comes_up_is_not_read_again(bench: Any, stream: Any, monkeypatch: Any) -> None:
    bench.publish(stream, b"s.a", b"", "Nats-Schedule: */10 * * * * *", TARGET)
    bench.publish(stream, b"s.b", b"", "Nats-Schedule: @every 10s", TARGET)

    def fail(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(schedule, "timing_of", fail)
    bench.advance(35 * SECOND)
    assert targets(stream) == 6


def test_a_stored_one_that_is_too_long_is_left_out_at_the_start(bench: Any) -> None:
    """Such a one was taken once, and would come up every second."""
    folder = MemoryFolder(0)
    store = folder.messages()
    for subject, stars in ((b"s.long", TIMING_BYTES_MAX // 2), (b"s.fit", 500)):
        lines = b"Nats-Schedule: %b* * * * * *\r\nNats-Schedule-Target: s.t\r\n" % (b"*," * stars)
        store.append(subject, b"NATS/1.0\r\n%b\r\n" % lines, b"", bench.now)
    config = bench.config(allow_msg_schedules=True)
    stream = Stream(bench.context, config, bench.now, folder, store, bench.now)
    assert stream.contents.schedules is not None
    assert {*stream.contents.schedules._subjects} == {b"s.fit"}
    bench.advance(3 * SECOND)
    assert {store.load(3 + n).headers.split()[2] for n in range(3)} == {b"s.fit"}


@pytest.mark.parametrize("of", ["the source", "the schedule", "headers"])
def test_of_large_ones_few_come_up_in_one_turn(bench: Any, stream: Any, of: str) -> None:
    """Forty copies of a megabyte were stored in one turn."""
    at, large = format_time(bench.now + 10 * SECOND), bytes(FIRED_BYTES_AT_ONCE // 2)
    more = [f"Nats-Expected-{number}:" for number in range(2000)]  # headers count eight times
    for number in range(5):
        lines = [f"Nats-Schedule: @at {at}", f"Nats-Schedule-Target: s.t.{number}"]
        if of == "the source":
            lines.append("Nats-Schedule-Source: s.src")
        elif of == "headers":
            lines += more
        body = large if of == "the schedule" else b""
        bench.publish(stream, b"s.a.%d" % number, body, *lines)
    if of == "the source":
        bench.publish(stream, b"s.src", large)
    fired, tick, workload = [], stream.tick, bench.context.workload

    def counted(now: int) -> None:
        before, used = stream.store.last_seq, workload.used
        tick(now)
        fired.append((stream.store.last_seq - before, workload.used - used))

    stream.tick = counted
    bench.advance(11 * SECOND)
    assert [number for number, _ in fired if number] == [2, 2, 1]
    assert all(units >= 30 * number for number, units in fired)
    assert b"Nats-Expected" not in stream.store.load(stream.store.last_seq).headers


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_what_comes_up_waits_while_much_waits_for_the_disk(bench: Any, storage: str) -> None:
    """400 megabytes were queued for the disk, and whoever published waited for all of them."""
    stream = bench.stream(allow_msg_schedules=True, storage=storage)
    for number in range(3):
        lines = ("Nats-Schedule: @every 10s", f"Nats-Schedule-Target: s.t.{number}")
        bench.publish(stream, b"s.a.%d" % number, b"", *lines)
    workload = bench.context.workload
    workload.is_flooded = True
    bench.advance(11 * SECOND)
    assert stream.store.last_seq == (3 if storage == "file" else 6)
    workload.is_flooded = False
    bench.advance(SECOND)
    assert stream.store.last_seq == 6


def test_of_very_many_only_some_come_up_in_one_turn(bench: Any, stream: Any) -> None:
    """A hundred thousand at once kept everybody waiting for 14 seconds."""
    count = 2 * FIRED_AT_ONCE + 7
    at = format_time(bench.now + 10 * SECOND)
    for number in range(count):
        lines = (f"Nats-Schedule: @at {at}", f"Nats-Schedule-Target: s.t.{number}")
        bench.publish(stream, b"s.a.%d" % number, b"%d" % number, *lines)
    fired, tick = [], stream.tick

    def counted(now: int) -> None:
        before = stream.store.last_seq
        tick(now)
        fired.append(stream.store.last_seq - before)

    stream.tick = counted
    bench.advance(11 * SECOND)
    assert [number for number in fired if number] == [FIRED_AT_ONCE, FIRED_AT_ONCE, 7]
    stored = [stream.store.load(count + 1 + number).payload for number in range(count)]
    assert stored == [b"%d" % number for number in range(count)], "in the order of their schedules"
    assert stream.contents.schedules.next_deadline() is None


def test_a_stream_without_schedules_refuses_them(bench: Any) -> None:
    stream = bench.stream()
    assert code(bench.publish(stream, b"s.a", b"", DAILY, TARGET)) == 10188
    assert json.loads(bench.publish_all(stream, [(b"s.a", b"", ())])[0])["seq"] == 1


def test_of_very_many_no_dictionary_has_all(bench: Any) -> None:
    """One more of seven hundred thousand took 70 ms, as three of them grew."""
    schedules = Schedules()
    for number in range(12_000):
        schedules.noted(b"s.%d" % number, {b"Nats-Schedule": b"@every 24h"}, bench.now)
    assert max(map(len, schedules._subjects.parts)) < 200
    assert max(map(len, schedules._repeated.parts)) < 200
    for number in range(12_000):
        schedules.noted(b"s.%d" % number, {}, bench.now)
    assert len(schedules._subjects) == len(schedules._repeated) == 0
    assert schedules.next_deadline() is None
