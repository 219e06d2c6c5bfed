"""Changes of accounts: in their order, at once where that takes little."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.core.workload import UNITS_OF_TURN
from jetstream_server.jetstream.slices import WAITING_MAX
from jetstream_server.node.accounts.account_changes import UNITS_OF_STEP, AccountChanges


@pytest.fixture
def node(make_node: Any) -> Any:
    return make_node([])


@pytest.fixture
def changes(node: Any) -> AccountChanges:
    return AccountChanges(node.add_account("A"), node.workload)


class Change:
    """A change that notes which steps it has done."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def steps(self, name: str, count: int, units: int = UNITS_OF_STEP) -> Generator[int, None, str]:
        for number in range(count):
            self.done.append(f"{name}{number}")
            yield units
        return name


def turns(node: Any, count: int, now: int = 0) -> None:
    for turn in range(count):
        node.run(now + turn * 1_000_000)


def test_a_short_one_is_made_at_once(changes: AccountChanges) -> None:
    done: list[str] = []
    changes.begin(Change(done).steps("a", 5, 1), lambda name: done.append(f"end {name}"), 10)
    assert done == [*(f"a{number}" for number in range(5)), "end a"]


def test_long_ones_take_turns_and_end_in_the_order_in_which_they_came(
    node: Any, changes: AccountChanges
) -> None:
    done: list[str] = []
    change = Change(done)
    node.run(0)
    changes.begin(change.steps("a", 3), lambda name: done.append(f"end {name}"), 10)
    assert done == ["a0"]
    changes.begin(change.steps("b", 2), lambda name: done.append(f"end {name}"), 10)
    changes.begin(change.steps("c", 1, 1), lambda name: done.append(f"end {name}"), 10)
    assert done == ["a0"], "a short one waits for those before it"
    each_turn = []
    for turn in range(20):
        before = len(done)
        turns(node, 1, turn * 1_000_000)
        each_turn.append(len(done) - before)
    assert done == ["a0", "a1", "a2", "end a", "b0", "b1", "end b", "c0", "end c"]
    assert max(each_turn) <= 2


def test_what_a_turn_has_no_time_for_waits(node: Any, changes: AccountChanges) -> None:
    done: list[str] = []
    node.run(0)
    node.workload.spend(UNITS_OF_TURN)
    changes.begin(Change(done).steps("a", 1, 1), lambda name: done.append(f"end {name}"), 10)
    assert done == []
    turns(node, 4, 1_000_000)
    assert done == ["a0", "end a"]


def test_there_are_not_too_many(node: Any, changes: AccountChanges) -> None:
    outcomes: list[str | ApiError] = []
    node.run(0)
    for _ in range(WAITING_MAX + 2):
        changes.begin(Change([]).steps("a", 2), outcomes.append, 10)
    assert len(outcomes) == 2 and all(isinstance(each, ApiError) for each in outcomes)
    turns(node, 10, 1_000_000)
    assert "a" in outcomes
