"""A purge that takes several turns: what goes, what stays, and when it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.api import purging as module
from jetstream_server.jetstream.api.purging import Purging
from jetstream_server.store import memory


@pytest.fixture
def stream(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 4)
    monkeypatch.setattr(memory, "_PURGED_AT_ONCE", 4)
    stream = bench.stream()
    for number in range(20):
        bench.publish(stream, b"s.%d" % (number % 2))
    return stream


def kept(stream: Any) -> list[int]:
    store = stream.store
    return [s for s in range(1, store.last_seq + 1) if store.load(s) is not None]


def test_a_small_one_is_done_at_once(bench: Any, stream: Any) -> None:
    assert Purging(stream, b"s.0", 6, 0).begin(bench.now) == 3
    assert kept(stream) == [2, 4, *range(6, 21)]


def test_a_large_one_goes_on_and_spares_what_comes_meanwhile(bench: Any, stream: Any) -> None:
    purging = Purging(stream, b"s.0", 0, 0)
    assert purging.begin(bench.now) is None
    assert len(kept(stream)) == 16
    told: list[Any] = []
    purging.go_on(told.append)
    bench.publish(stream, b"s.0")
    assert not told
    for _ in range(10):
        bench.advance(MILLISECOND)
        bench.context.ready and [r.advance(bench.now) for r in list(bench.context.ready)]
        bench.context.ready.clear()
    assert told == [{"success": True, "purged": 10}]
    assert kept(stream) == [*range(2, 21, 2), 21]
    assert bench.context.deadlines.next_deadline() is None


@pytest.mark.parametrize(("keep", "left"), [(0, []), (3, [15, 17, 19])])
def test_with_many_subjects_the_matching_ones_are_counted_first(
    bench: Any, stream: Any, monkeypatch: pytest.MonkeyPatch, keep: int, left: list[int]
) -> None:
    monkeypatch.setattr(module, "SUBJECTS_AT_ONCE", 1)
    looks = iter([False, False, True])
    monkeypatch.setattr(stream.store, "decide", lambda wanted, names_max: next(looks))
    purging = Purging(stream, b"s.0", 0, keep)
    told: list[Any] = []
    assert purging.begin(bench.now) is None
    purging.go_on(told.append)
    for _ in range(2):
        assert len(kept(stream)) == 20
        purging.tick(bench.now)
    bench.publish(stream, b"s.0")
    stream.store.delete(range(2, 10, 2))
    while not told:
        purging.tick(bench.now)
    assert kept(stream) == sorted([*range(10, 21, 2), *left, 21])


def test_consumers_are_told_of_each_slice(
    bench: Any, stream: Any, make_consumer: Callable[..., Any]
) -> None:
    consumer = stream.consumers["C"] = make_consumer("C")
    purging = Purging(stream, b"s.0", 0, 0)
    assert purging.begin(bench.now) is None
    purging.go_on(lambda outcome: None)
    assert [verb for verb, *_ in consumer.told] == ["purged"]
    purging.tick(bench.now)
    assert [verb for verb, *_ in consumer.told] == ["purged", "purged"]


def test_the_newest_are_kept_even_if_limits_take_some(bench: Any, stream: Any) -> None:
    purging = Purging(stream, b"s.0", 0, 3)
    assert purging.begin(bench.now) is None
    stream.store.delete([9, 11])
    told: list[Any] = []
    purging.go_on(told.append)
    for _ in range(5):
        purging.tick(bench.now) if not told else None
    assert told == [{"success": True, "purged": 5}]
    assert kept(stream) == [2, 4, 6, 8, 10, 12, 14, 15, 16, 17, 18, 19, 20]


def test_a_stream_that_goes_meanwhile(bench: Any, stream: Any) -> None:
    purging = Purging(stream, b"s.0", 0, 0)
    assert purging.begin(bench.now) is None
    told: list[Any] = []
    purging.go_on(told.append)
    stream.delete(bench.now)
    purging.tick(bench.now)
    assert len(told) == 1


def test_a_purge_of_everything_spares_what_comes_meanwhile(bench: Any, stream: Any) -> None:
    purging = Purging(stream, b"", 0, 0)
    assert purging.begin(bench.now) is None
    told: list[Any] = []
    purging.go_on(told.append)
    bench.publish(stream, b"s.0")
    while not told:
        purging.tick(bench.now)
    assert told == [{"success": True, "purged": 20}]
    assert kept(stream) == [21]


def test_a_purge_beyond_the_end_moves_it(bench: Any, stream: Any) -> None:
    purging = Purging(stream, b"", 100, 0)
    assert purging.begin(bench.now) is None
    told: list[Any] = []
    purging.go_on(told.append)
    while not told:
        purging.tick(bench.now)
    assert told == [{"success": True, "purged": 20}]
    assert (stream.store.first_seq, stream.store.last_seq) == (100, 99)


def test_an_update_and_another_purge_meanwhile(bench: Any, stream: Any) -> None:
    first, second = Purging(stream, b"s.0", 0, 0), Purging(stream, b"", 0, 0)
    told: list[Any] = []
    for purging in (first, second):
        assert purging.begin(bench.now) is None
        purging.go_on(told.append)
    stream.reconfigure(bench.config(max_msgs=9), bench.now)
    while len(told) < 2:
        for runnable in list(bench.context.ready):
            runnable.advance(bench.now)
        bench.context.ready.clear()
        bench.advance(MILLISECOND)
    assert all(outcome["success"] for outcome in told)
    assert kept(stream) == []


def test_what_is_not_allowed(bench: Any) -> None:
    stream = bench.stream(deny_purge=True)
    with pytest.raises(ApiError):
        Purging(stream, b"s.0", 0, 0)
