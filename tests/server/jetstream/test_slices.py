"""Answers that take more than one turn: whose turn it is, and how many are held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.fault_domains import Domain
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.slices import BEGUN_MAX, WAITING_MAX, Sliced, Slices
from jetstream_server.structures.deadline_heap import DeadlineHeap


class Turns:
    """Slices, and what they did."""

    def __init__(self) -> None:
        self.deadlines: DeadlineHeap[Any] = DeadlineHeap()
        self.workload = Workload()
        self.slices = Slices(self.deadlines, self.workload)
        self.done: list[str] = []
        self.told: list[Any] = []
        self.now = 1000

    def add(self, name: str, count: int, error: Exception | None = None) -> None:
        def work() -> Iterator[dict[str, Any] | None]:
            for _ in range(count):
                self.done.append(name)
                yield None
            if error is not None:
                raise error
            yield {"name": name}

        Sliced(self.slices, work).go_on(self.told.append)

    def turn(self) -> bool:
        """Have one; tell whether there was anything to do."""
        at = self.deadlines.next_deadline()
        if at is None:
            return False
        self.now = max(self.now, at)
        for each in self.deadlines.pop_due(self.now):
            each.tick(self.now)
        return True


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_a_short_one_is_not_behind_a_long_one(turns: Turns) -> None:
    turns.add("long", 10)
    turns.add("short", 2)
    while turns.turn():
        pass
    assert turns.told == [{"name": "short"}, {"name": "long"}]
    assert turns.done[:5] == ["long", "short", "long", "short", "long"]
    assert turns.deadlines.next_deadline() is None


def test_the_pause_is_for_others(turns: Turns) -> None:
    turns.add("a", 3)
    turns.turn()
    assert turns.deadlines.next_deadline() == turns.now + 1_000_000
    turns.now += 1_000_000
    while turns.turn():
        pass
    turns.add("b", 0)  # at once, whenever that is
    assert turns.deadlines.next_deadline() is not None
    assert turns.deadlines.next_deadline() <= turns.now  # type: ignore[operator]


def test_few_are_begun_and_a_bounded_number_waits(turns: Turns) -> None:
    for number in range(WAITING_MAX + 5):
        turns.add(str(number), 100)
    refused = [told for told in turns.told if isinstance(told, ApiError)]
    assert [error.err_code for error in refused] == [10023] * 5
    for _ in range(50):
        turns.turn()
    assert set(turns.done) == {str(number) for number in range(BEGUN_MAX)}


def test_what_is_refused_ends_alone(turns: Turns) -> None:
    turns.add("a", 1, errors.STREAM_NOT_FOUND())
    turns.add("b", 1, StoreError("broken", "/x"))
    turns.add("c", 2)
    while turns.turn():
        pass
    assert [each.err_code for each in turns.told[:2]] == [10059, 10051]
    assert turns.told[2] == {"name": "c"}


def test_one_that_nobody_foresaw_ends_alone(turns: Turns) -> None:
    turns.add("bad", 0, ZeroDivisionError("x"))
    turns.add("good", 1)
    with pytest.raises(ZeroDivisionError):
        turns.turn()
    turns.slices.give_up(Incident(1, Domain.REQUEST, b""), turns.now)
    while turns.turn():
        pass
    assert turns.told[0].err_code == 10051
    assert turns.told[1] == {"name": "good"}
    assert turns.deadlines.next_deadline() is None


def test_others_are_answered_between_two_slices_and_do_not_stop_them(turns: Turns) -> None:
    turns.add("a", 3)
    done = []
    for _ in range(6):
        turns.workload.begin(hears=True)
        turns.turn()
        turns.turn()  # what follows in the same turn
        turns.workload.end()
        turns.turn()
        done.append(len(turns.done))
    assert done == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("hears", [False, True])
def test_accounts_that_always_come_first_do_not_keep_another_waiting(hears: bool) -> None:
    accounts, workload, milliseconds = [Turns() for _ in range(4)], Workload(), 1_000_000
    for account in accounts:
        account.slices = Slices(account.deadlines, workload)
        account.add("long", 1000)
    for turn in range(1, 101):  # a slice takes longer than the pause between two
        workload.begin(hears=hears)
        for account in accounts:
            account.now = turn * 5 * milliseconds
            for each in account.deadlines.pop_due(account.now):
                each.tick(account.now)
        workload.end()
    done = [len(account.done) for account in accounts]
    assert max(done) - min(done) <= 1 and sum(done) >= 98


def test_of_one_at_a_time_each_ends_before_the_next(turns: Turns) -> None:
    turns.slices = Slices(turns.deadlines, turns.workload, begun_max=1)
    for name in "abc":
        turns.add(name, 2)
    while turns.turn():
        pass
    assert turns.done == [*"aabbcc"]
    assert [each["name"] for each in turns.told] == [*"abc"]
