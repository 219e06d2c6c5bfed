"""What is found out about very many subjects, a slice a step."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.jetstream.streams.reads import look_ahead
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import StoreState


def test_steps_compare_and_then_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ahead, "COUNTED_AT_ONCE", 40)
    store = MemoryStore()
    for number in range(100):
        store.append(b"s.%d" % number, b"", b"", 1)
    wanted = store.filter([b"s.*"])
    # All but the last of either pause.
    assert len(list(look_ahead.look_ahead(store, wanted, 30))) == 3 + 2
    assert not list(look_ahead.look_ahead(store, wanted))
    store.append(b"s.100", b"", b"", 1)
    assert not list(look_ahead.look_ahead(store, wanted))
    assert store.count(wanted, 0) == 101


def test_literals_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ahead, "COUNTED_AT_ONCE", 1)
    store = MemoryStore()
    for number in range(10):
        store.append(b"s.%d" % number, b"", b"", 1)
    assert not list(look_ahead.look_ahead(store, store.filter([b"s.1"])))


class Forgetful:
    """A store that remembers nothing of what it has counted before."""

    def __init__(self, messages: int) -> None:
        self.messages = messages

    def prepare_count(self, wanted: Any, start: int, entries_max: int) -> bool:
        return entries_max >= self.messages


@pytest.mark.parametrize(("messages", "steps"), [(100, 0), (101, 1), (1000, 450)])
def test_counting_ends_however_much_is_forgotten(messages: int, steps: int) -> None:
    """A consumer was never made, and the account did nothing long any more after four of them."""
    store: Any = Forgetful(messages)
    assert len(list(look_ahead.count_ahead(store, None, 1, 100))) == steps


class Changing:
    """A store with subjects of which many change with each step."""

    def __init__(self, subjects: int, changes: int) -> None:
        self.subjects, self.changes = subjects, changes
        self.left = subjects
        self.asked: list[int] = []

    def decide(self, wanted: Any, names_max: int) -> bool:
        return True

    def state(self) -> Any:
        return StoreState(0, 0, 1, 0, 0, 0, self.subjects, 0)

    def prepare_subjects(self, wanted: Any, names_max: int) -> bool:
        self.asked.append(names_max)
        self.left = max(self.left + (self.changes if len(self.asked) > 1 else 0) - names_max, 0)
        return not self.left


def test_a_step_counts_as_many_of_a_million_subjects_as_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counted somewhat more with each step, and with very many subjects much more."""
    monkeypatch.setattr(look_ahead, "COUNTED_AT_ONCE", 100)
    store: Any = Changing(100_000, 0)
    assert len(list(look_ahead.look_ahead(store, None))) == 999
    assert set(store.asked) == {100}
    store = Changing(1000, 150)
    steps = len(list(look_ahead.look_ahead(store, None)))
    assert 10 < steps < 200 and store.asked[10] == 100 < store.asked[-1]


@pytest.mark.parametrize("coming", [0, 30, 60])
def test_comparing_ends_however_many_subjects_come(coming: int) -> None:
    """A consumer with many wildcards was not made as long as more came than a step compares."""
    store = MemoryStore()
    at_once, number = 128 * 30, 0
    wanted = store.filter([b"s.*.%d" % number for number in range(100)])
    steps = look_ahead.look_ahead(store, wanted, at_once)
    for turn in range(300):
        for _ in range(coming if turn else 600):
            store.append(b"s.%d.%d" % (number, number % 200), b"", b"", 1)
            number += 1
        if next(steps, "over") == "over":
            break
    assert 20 <= turn < 250
    assert store.count(wanted, 0) * 2 - number in range(-200, 201)
