"""What many messages leave behind is let go some at a time, and all of it in the end."""

from __future__ import annotations

from typing import Any

from jetstream_server.core.containment import Incident
from jetstream_server.core.fault_domains import Domain
from jetstream_server.jetstream.remains import FREED_AT_ONCE, Remains
from jetstream_server.structures.deadline_heap import DeadlineHeap


def freed(held: list[Any]) -> list[int]:
    """Return how many objects were left after each turn."""
    deadlines: DeadlineHeap[Any] = DeadlineHeap()
    remains = Remains(deadlines)
    for each in held:
        remains.take(each)
    counts, now = [], 1
    while (at := deadlines.next_deadline()) is not None:
        now = max(now, at)
        for each in deadlines.pop_due(now):
            each.tick(now)
        counts.append(sum(map(len, held)))
    return counts


def test_so_many_in_a_turn() -> None:
    n = FREED_AT_ONCE
    assert freed([[0] * 2 * n, dict.fromkeys(range(n + 1))]) == [2 * n + 1, n + 1, 1, 0]


def test_what_is_in_dictionaries_counts_as_well() -> None:
    inner, many = dict.fromkeys(range(16 * FREED_AT_ONCE)), FREED_AT_ONCE // 4
    held: dict[int, Any] = {n: {n: None} for n in range(5 * many)}
    held[5 * many] = inner
    assert freed([held]) == [5 * many, 4 * many, 3 * many, 2 * many, many, 0]


def test_what_comes_in_parts_is_let_go_in_parts() -> None:
    parts = [dict.fromkeys(range(FREED_AT_ONCE // 2)) for _ in range(5)]
    counts = []
    deadlines: DeadlineHeap[Any] = DeadlineHeap()
    remains = Remains(deadlines)
    remains.take(list(parts))
    now = 1
    while (at := deadlines.next_deadline()) is not None:
        now = max(now, at)
        for each in deadlines.pop_due(now):
            each.tick(now)
        counts.append(sum(map(len, parts)) // (FREED_AT_ONCE // 2))
    assert counts == [3, 1, 0]


def test_a_few_go_at_once() -> None:
    assert freed([[1, 2, 3], {}]) == []


def test_given_up_it_lets_go_of_everything() -> None:
    remains = Remains(DeadlineHeap())
    held = [0] * 3 * FREED_AT_ONCE
    remains.take(held)
    remains.give_up(Incident(1, Domain.REQUEST, b"x"), 5)
    remains.tick(6)
    assert len(held) == 3 * FREED_AT_ONCE
