"""Subscriptions follow what is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jetstream_server.jetstream.streams import interest as module
from jetstream_server.jetstream.streams.interest import Interest


@pytest.fixture
def interest(bench: Any) -> Interest:
    return Interest(bench.sublist, bench.context.deadlines)


def test_only_differences_change(bench: Any, interest: Interest) -> None:
    first, second = bench.client, bench.client
    interest.change({(b"a", b""): first, (b"b", b""): first})
    kept = bench.sublist.match_one(b"b")
    assert kept is not None
    interest.change({(b"b", b""): first, (b"b", b"q"): second, (b"c", b""): second})
    assert not bench.sublist.has_interest(b"a")
    match = bench.sublist.match(b"b")
    assert match.plain == [kept]
    assert [each.queue for each in match.queues[0]] == [b"q"]
    interest.change({})
    assert not any(bench.sublist.has_interest(each) for each in (b"a", b"b", b"c"))


def test_many_come_some_at_a_time(bench: Any, interest: Interest) -> None:
    subjects = [b"s.%d" % n for n in range(7)]
    wanted = {(subject, b""): bench.client for subject in subjects}
    interest.change({(b"s.2", b""): bench.client})
    interest.begin(wanted)
    counts = []
    while not interest.go_on(3):
        counts.append(sum(map(bench.sublist.has_interest, subjects)))
    assert counts == [3, 6]
    assert all(bench.sublist.match_one(subject) for subject in subjects), "each once"
    assert interest.go_on(3), "and nothing twice"
    assert bench.sublist.count == 1 + len(subjects)


def test_of_very_many_that_are_new_none_is_looked_at_before_its_turn(
    bench: Any, interest: Interest
) -> None:
    looked_at: list[int] = []

    def wanted() -> Iterator[tuple[tuple[bytes, bytes], Any]]:
        for number in range(7):
            looked_at.append(number)
            yield (b"s.%d" % number, b""), bench.client

    assert not interest.is_any
    interest.begin_anew(wanted())
    counts = [len(looked_at)]
    while not interest.go_on(3):
        counts.append(len(looked_at))
    assert counts == [0, 3, 6]
    assert interest.is_any
    assert all(bench.sublist.match_one(b"s.%d" % number) for number in range(7))
    interest.change({(b"s.1", b""): bench.client})
    assert bench.sublist.count == 2


def test_a_change_in_between_is_what_counts(bench: Any, interest: Interest) -> None:
    interest.begin({(b"s.%d" % n, b""): bench.client for n in range(7)})
    assert not interest.go_on(3)
    interest.change({(b"s.1", b""): bench.client, (b"t", b""): bench.client})
    assert interest.go_on(3)
    found = [n for n in range(7) if bench.sublist.has_interest(b"s.%d" % n)]
    assert found == [1]
    assert bench.sublist.has_interest(b"t")
    interest.begin({})
    assert interest.go_on(3)
    assert bench.sublist.count == 1


def test_many_that_are_over_reach_nobody_and_leave_in_turns(
    bench: Any, interest: Interest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    wanted = {(b"s.%d" % n, b""): bench.client for n in range(5)}
    interest.change(wanted)
    interest.change({})
    counts = []
    for _ in range(4):
        for subject, _queue in wanted:
            match = bench.sublist.match(subject)
            assert all(each.closed for each in match.plain)
        counts.append(bench.sublist.count - 1)
        bench.advance(1_000_000)
    assert counts == [5, 1, 0, 0], "the first some at once, others each millisecond"
    interest.change(wanted)
    assert all(not bench.sublist.match_one(subject).closed for subject, _queue in wanted)
