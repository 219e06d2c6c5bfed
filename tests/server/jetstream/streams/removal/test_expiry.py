"""What time removes, when, and the markers it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.streams.removal import expiry

_MARKER = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1m30s\r\nNats-Rollup: sub\r\n\r\n"


def kept(stream: Any) -> list[int]:
    return [n for n in range(1, stream.store.last_seq + 1) if stream.store.load(n)]


def test_max_age(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(max_age=SECOND)
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, [(b"s.a", b"", ())] * 3)
    bench.advance(600 * MILLISECOND)
    bench.publish(stream)
    bench.advance(400 * MILLISECOND)
    assert kept(stream) == [4]
    assert consumer.told[-1] == ("removed", [1, 2, 3])
    bench.advance(600 * MILLISECOND)
    assert kept(stream) == []
    bench.advance(10 * SECOND)
    assert bench.context.deadlines.next_deadline() is None


def test_the_timer_of_a_busy_stream_is_coarse(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = bench.stream(max_age=SECOND)
    ticks = []
    tick = stream.tick
    monkeypatch.setattr(stream, "tick", lambda now: (ticks.append(now), tick(now)))
    for _ in range(500):
        bench.publish(stream)
        bench.advance(10 * MILLISECOND)
    assert len(ticks) <= 5 * 4
    assert len(kept(stream)) <= 100 + 25 + 1


def test_ttls_and_ages(bench: Any) -> None:
    stream = bench.stream(max_age=3 * SECOND, allow_msg_ttl=True)
    for ttl in ("1", "5", "never", "2s"):
        bench.publish(stream, b"s.a", b"", f"Nats-TTL: {ttl}")
    bench.publish(stream)
    bench.advance(1250 * MILLISECOND)
    assert kept(stream) == [2, 3, 4, 5]
    bench.advance(SECOND)
    assert kept(stream) == [2, 3, 5]
    bench.advance(SECOND)
    assert kept(stream) == [3]
    bench.publish(stream)
    bench.advance(60 * SECOND)
    assert kept(stream) == [3]
    assert bench.context.deadlines.next_deadline() is None


@pytest.mark.parametrize("settings", [{"max_age": 2 * SECOND}, {}], ids=["age", "ttl"])
def test_of_many_that_leave_markers_some_go_at_a_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Of 60,000 subjects whose messages aged a thousand went in a tick, which took 70 ms."""
    monkeypatch.setattr(expiry, "_MARKED_AT_ONCE", 3)
    stream = bench.stream(
        allow_msg_ttl=True,
        allow_rollup_hdrs=True,
        subject_delete_marker_ttl=2 * SECOND,
        **settings,
    )
    for number in range(20):
        ack = bench.publish(stream, b"s.%d" % number, b"", "X: y" if settings else "Nats-TTL: 2s")
        assert ack["seq"] == number + 1, ack
    stored, tick = [0], stream.tick

    def ticked(now: int) -> None:
        before = stream.store.last_seq
        tick(now)
        stored.append(stream.store.last_seq - before)

    monkeypatch.setattr(stream, "tick", ticked)
    bench.advance(3 * SECOND)
    assert sum(stored) == 20 and max(stored) == 3
    assert kept(stream) == list(range(21, 41))


def test_very_many_that_last_are_passed_over_some_at_a_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind 300,000 of them a tick took half a second, and 3.6 s where they are in files."""
    monkeypatch.setattr(expiry, "_LOOKED_AT_ONCE", 10)
    stream = bench.stream(max_age=3 * SECOND, allow_msg_ttl=True)
    mortal = (1, 2, 50, 130, 131)
    for number in range(1, 132):
        if number in mortal:
            bench.publish(stream, b"s.a")
        else:
            bench.publish(stream, b"s.a", b"", "Nats-TTL: never")
    looks, tick, load_next = [0], stream.tick, stream.store.load_next

    def counted(wanted: Any, sequence: int) -> Any:
        looks[-1] += 1
        return load_next(wanted, sequence)

    def ticked(now: int) -> None:
        looks.append(0)
        tick(now)

    monkeypatch.setattr(stream.store, "load_next", counted)
    monkeypatch.setattr(stream, "tick", ticked)
    bench.advance(4 * SECOND)
    assert kept(stream) == [n for n in range(1, 132) if n not in mortal]
    assert max(looks) < 60, looks
    bench.publish(stream)
    bench.advance(60 * SECOND)
    assert len(kept(stream)) == 131 - len(mortal)
    assert bench.context.deadlines.next_deadline() is None


def test_lasting_messages_that_are_gone_are_forgotten(bench: Any) -> None:
    stream = bench.stream(max_age=SECOND, allow_msg_ttl=True, max_msgs=2)
    for _ in range(20):
        bench.publish(stream, b"s.a", b"", "Nats-TTL: never")
    bench.advance(2 * SECOND)
    bench.publish(stream)
    bench.advance(2 * SECOND)
    assert kept(stream) == [20]
    assert len(stream.removal.expiry.ttls.lasting) <= 4


def test_markers_wait_for_room(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = bench.stream(max_age=SECOND, subject_delete_marker_ttl=90 * SECOND)
    bench.publish_all(stream, [(b"s.%d" % n, b"", ()) for n in range(4)])

    def append(*arguments: Any) -> int:
        raise StoreError("the disk is full")

    monkeypatch.setattr(stream.store, "append", append)
    bench.advance(3 * SECOND // 2)
    assert kept(stream) == []
    monkeypatch.undo()
    bench.advance(9 * SECOND)
    bench.publish(stream, b"s.2")  # what is there again needs no marker
    bench.advance(SECOND * 7 // 10)
    found = [stream.store.load(sequence) for sequence in kept(stream)]
    assert [(each.subject, each.headers) for each in found] == [
        (b"s.2", b""),
        (b"s.0", _MARKER),
        (b"s.1", _MARKER),
        (b"s.3", _MARKER),
    ]
    bench.advance(10 * SECOND)
    assert kept(stream) == []


def test_markers_as_probed(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(max_age=SECOND, subject_delete_marker_ttl=90 * SECOND)
    stream.add_consumer(consumer := make_consumer("c"))
    assert stream.config.allow_msg_ttl
    bench.publish(stream, b"s.a")
    bench.publish(stream, b"s.b", b"", "Nats-TTL: 1")
    bench.publish(stream, b"s.c", b"", "KV-Operation: PURGE")
    bench.publish(stream, b"s.d", b"", "Nats-Marker-Reason: MaxAge")
    bench.publish(stream, b"s.e", b"", "KV-Operation: DEL")
    bench.publish(stream, b"s.f", b"", "Nats-Marker-Reason: foo")
    bench.advance(1500 * MILLISECOND)
    assert kept(stream) == [7, 8, 9]
    markers = [stream.store.load(n) for n in (7, 8, 9)]
    assert [m.subject for m in markers] == [b"s.a", b"s.b", b"s.e"]
    assert {m.headers for m in markers} == {_MARKER}
    assert consumer.told[-3:] == [("stored", n, n) for n in (7, 8, 9)]
    assert ("removed", [*range(1, 7)]) in consumer.told
    bench.advance(2 * SECOND)
    assert kept(stream) == []
    assert stream.store.last_seq == 9  # a marker leaves no marker


def test_a_subject_that_still_has_messages_gets_no_marker(bench: Any) -> None:
    stream = bench.stream(subject_delete_marker_ttl=SECOND, duplicate_window=SECOND)
    bench.publish(stream, b"s.a", b"", "Nats-TTL: 1")
    bench.publish(stream, b"s.a")
    bench.advance(2 * SECOND)
    assert kept(stream) == [2]


def test_a_ttl_below_the_marker_ttl_is_raised(bench: Any) -> None:
    stream = bench.stream(subject_delete_marker_ttl=2 * SECOND)
    for ttl in ("1", "1s", "3", "never"):
        bench.publish(stream, b"s.a", b"", f"Nats-TTL: {ttl}", "A: b")
    assert [stream.store.load(n).headers for n in (1, 2, 3, 4)] == [
        bench.block("A: b", "Nats-TTL: 2"),
        bench.block("A: b", "Nats-TTL: 2"),
        bench.block("Nats-TTL: 3", "A: b"),
        bench.block("Nats-TTL: never", "A: b"),
    ]
    bench.publish(stream, b"s.b", b"", "Nats-TTL: 1")
    assert stream.store.load(5).headers == bench.block("Nats-TTL: 2")
    single = bench.stream(subject_delete_marker_ttl=2 * SECOND, max_msgs_per_subject=1)
    bench.publish(single, b"s.a", b"", "Nats-TTL: 1")
    assert single.store.load(1).headers == bench.block("Nats-TTL: 1")


def test_invalid_and_forbidden_ttls(bench: Any) -> None:
    stream = bench.stream()
    codes = [
        bench.publish(stream, b"s.a", b"", f"Nats-TTL: {ttl}")["error"]["err_code"]
        for ttl in ("x", "0", "5", "never")
    ]
    assert codes == [10165, 10165, 10166, 10166]
    stream = bench.stream(allow_msg_ttl=True)
    assert bench.publish(stream, b"s.a", b"", "Nats-TTL: x")["error"]["err_code"] == 10165


def test_a_failing_store_is_tried_again_later(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = bench.stream(max_age=SECOND)
    bench.publish(stream)

    def fail(*arguments: object) -> list[tuple[int, int]]:
        raise StoreError("no space left on device")

    monkeypatch.setattr(stream.store, "enforce", fail)
    bench.advance(5 * SECOND)
    assert len(bench.logged) == 1
    monkeypatch.undo()
    bench.advance(10 * SECOND)
    assert kept(stream) == []


def stream_of_lasting(bench: Any) -> Any:
    """Return a stream with an age and 400 messages that never end."""
    stream = bench.stream(max_age=3600 * SECOND, allow_msg_ttl=True)
    for _ in range(400):
        bench.publish(stream, b"s.a", b"", "Nats-TTL: never")
    return stream


def test_very_many_lasting_messages_are_forgotten_some_at_a_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300,000 that were gone it took 40 ms to forget half."""
    monkeypatch.setattr(expiry, "_DOUBTED_AT_ONCE", 10)
    stream = stream_of_lasting(bench)
    lasting = stream.removal.expiry.ttls.lasting
    stream.store.delete(range(1, 391))
    asked = []
    held = stream.store.held
    monkeypatch.setattr(
        stream.store, "held", lambda given: (asked.append(len(given)), held(given))[1]
    )
    before = len(lasting)
    stream.tick(bench.now)
    assert before - 30 <= len(lasting) < before  # it asks up to three times
    bench.advance(SECOND)
    assert [*lasting] == [*range(391, 401)]
    assert max(asked) == 10 and len(asked) <= 45
    ticks = []
    tick = stream.tick
    monkeypatch.setattr(stream, "tick", lambda now: (ticks.append(now), tick(now)))
    bench.advance(10 * SECOND)
    assert not ticks  # there is nothing to do until something ages


def test_nobody_is_doubted_for_ever_once_there_is_no_age(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "_DOUBTED_AT_ONCE", 10)
    stream = stream_of_lasting(bench)
    stream.store.delete(range(1, 391))
    stream.tick(bench.now)
    stream.reconfigure(bench.config(allow_msg_ttl=True), bench.now)
    bench.advance(SECOND)
    assert bench.context.deadlines.next_deadline() is None
