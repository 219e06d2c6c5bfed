"""What is found out about very many subjects, a slice a step."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.jetstream.streams.reads import look_ahead
from jetstream_server.store.memory import MemoryStore


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
