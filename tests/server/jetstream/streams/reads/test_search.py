"""Messages that wait until very many subjects are looked at."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from jetstream_server.core.answers import Answers
from jetstream_server.core.workload import UNITS_OF_TURN, Workload
from jetstream_server.jetstream.streams.reads import look_ahead, search
from jetstream_server.jetstream.streams.reads.search import Search, is_short
from jetstream_server.store.memory import MemoryStore


class Rest:
    """Notes when it is received."""

    def __init__(self) -> None:
        self.received: list[int] = []

    def receive(self, now: int) -> None:
        self.received.append(now)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(search, "COUNTED_WITH_MESSAGE", 5)
    monkeypatch.setattr(look_ahead, "COUNTED_AT_ONCE", 20)
    store = MemoryStore()
    for number in range(100):
        store.append(b"s.%d" % number, b"", b"", 1)
    return store


def test_the_rest_is_received_when_all_are_looked_at(store: MemoryStore) -> None:
    answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
    wanted, rest, workload = store.filter([b"s.*"]), Rest(), Workload(UNITS_OF_TURN)
    assert not is_short(store, wanted)
    Search(store, wanted, rest, answers, workload).postpone()
    turns = 0
    while answers.postponed:
        turns += 1
        assert not rest.received
        workload.begin()
        answers.resume(turns)
    assert (rest.received, turns) == ([5], 5)
    assert is_short(store, wanted)
    store.append(b"s.7", b"", b"", 1)
    assert is_short(store, wanted)


def test_searches_of_several_clients_take_turns(store: MemoryStore) -> None:
    workload, wanted, rest = Workload(UNITS_OF_TURN), store.filter([b"s.*"]), Rest()
    clients = [Answers(SimpleNamespace(backlog_bytes=0), lambda: None) for _ in range(6)]
    for answers in clients:
        Search(store, wanted, rest, answers, workload).postpone()
    workload.begin()
    for answers in clients:
        answers.resume(1)
    assert workload.used == UNITS_OF_TURN
    assert len(workload.waiting) == 4


def test_a_flood_of_changes_does_not_keep_it_from_ending(store: MemoryStore) -> None:
    for step, _ in enumerate(look_ahead.look_ahead(store, store.filter([b"s.*"]))):
        for number in range(20):
            store.append(b"s.%d" % number, b"", b"", 1)
        assert step < 100
