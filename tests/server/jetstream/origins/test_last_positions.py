"""Where sources were: found in their messages, some at a time, however far back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.origins import last_positions as module
from jetstream_server.jetstream.origins.last_positions import Foreseen, last_positions
from jetstream_server.jetstream.origins.source_header import SourcePosition
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Window

from tests.traced_lines import lines_of


def block(value: str) -> bytes:
    return b"NATS/1.0\r\nNats-Stream-Source: %b\r\n\r\n" % value.encode()


def found(store: Any, keys: set[str], first: int = 1) -> dict[str, SourcePosition]:
    return without_pauses(last_positions(store, keys, first))


@pytest.fixture(params=["file", "memory"])
def store(sim_disk_module: Any, request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        return MemoryStore()
    disk = sim_disk_module.SimDisk(Random(1))
    return FileStore(Path("/s/msgs"), GroupCommit(disk), block_bytes=4000)


def test_the_newest_position_of_each_source(store: Any, monkeypatch: Any) -> None:
    for value in ("O 1 > > s a", "P 9 > > s b", "O 2 > > s a", "", "no header", "Q 5 > > s"):
        store.append(b"s", block(value) if value else b"", b"O 77 > > s a", 1)
    keys = {"O > >", "P > >", "R > >"}
    for stretch in (1, 2, 100):
        monkeypatch.setattr(module, "STRETCH", stretch)
        assert found(store, keys) == {
            "O > >": SourcePosition("O > >", 2, "a"),
            "P > >": SourcePosition("P > >", 9, "b"),
        }


def test_removed_messages_are_not_looked_for(store: Any) -> None:
    assert found(store, {"O > >"}) == {}
    for number in range(5):
        store.append(b"s", block(f"O {number + 1} > > s a"), b"", 1)
    store.truncate_front(3)
    assert found(store, {"O > >"})["O > >"].sequence == 5
    store.purge(None, 0, 0)
    assert found(store, {"O > >"}) == {}


def test_a_window_without_messages_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a source would go on too early, and copy again what it has brought."""
    store = MemoryStore()
    for number in range(1, 31):
        store.append(b"s", block(f"O {number} > > s a"), b"", 1)
    window = store.window

    def some(wanted: Any, sequence: int, count: int, size: int) -> Any:
        if 5 < sequence < 20:
            return Window(b"", array("Q"), array("Q"), array("Q"), sequence + 3)
        return window(wanted, sequence, 2, size)

    monkeypatch.setattr(store, "window", some)
    assert found(store, {"O > >"})["O > >"].sequence == 30


def test_a_quintillion_of_sequences_without_messages_is_passed_over(store: Any) -> None:
    """A restored stream may say that its last sequence is that: it was looked for ever."""
    store.append(b"s", block("O 1 > > s a"), b"", 1)
    store.skip(10**18, 2)
    for number in range(3):
        store.append(b"s", b"", b"", 3 + number)
    assert lines_of(lambda: found(store, {"P > >"})) < 5000
    assert found(store, {"O > >"})["O > >"].sequence == 1


@pytest.mark.parametrize("headers", [b"", b"NATS/1.0\r\nA: b\r\n\r\n", block("O 1 > > s a")])
def test_no_step_looks_at_many(store: Any, monkeypatch: Any, headers: bytes) -> None:
    """A source that was added to a million messages in memory kept others waiting for 3.7 s."""
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", 100)
    for _ in range(25_000):
        store.append(b"s", headers, b"", 1)
    steps, lengths = last_positions(store, {"P > >"}), []
    done: list[bool] = []

    def step(steps: Iterator[None] = steps) -> None:
        done.append(next(steps, done) is done)

    while not done or not done[-1]:
        lengths.append(lines_of(step))
    assert max(lengths) < 21_000
    if headers:
        assert len(lengths) > 200 and max(lengths) < 5000


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_and_goes_between_the_steps(store: Any, monkeypatch: Any, seed: int) -> None:
    random = Random(seed)
    monkeypatch.setattr(module, "STRETCH", random.choice([1, 3, 10]))
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", random.choice([1, 4]))
    newest: dict[str, int] = {}
    steady = {"O > >": 7, "P > >": 9}  # these messages stay
    for number in range(1, 120):
        name = random.choice("ABC")
        newest[f"{name} > >"] = number
        store.append(b"s", block(f"{name} {number} > > s i"), b"", 1)
        if number in (30, 60):
            key = "O > >" if number == 30 else "P > >"
            store.append(b"s", block(f"{key[0]} {steady[key]} > > s i"), b"", 1)
        if random.random() < 0.2:
            store.skip(random.choice([1, 50]), 1)
    kept = [
        number
        for number in range(1, store.last_seq + 1)
        if (message := store.load(number))
        and (b": O " in message.headers or b": P " in message.headers)
    ]
    assert len(kept) == 2
    until = store.last_seq
    steps = last_positions(store, {*newest, *steady})
    while True:
        try:
            next(steps)
        except StopIteration as end:
            positions = end.value
            break
        gone = random.randint(1, store.last_seq)
        if random.random() < 0.5 and gone not in kept:
            store.delete([gone])
        if random.random() < 0.3:
            newest["A > >"] = 1000 + store.last_seq
            store.append(b"s", block(f"A {newest['A > >']} > > s i"), b"", 1)
    for key, sequence in steady.items():
        assert positions[key].sequence == sequence
    later = found(store, {*newest, *steady}, until + 1)
    last = [
        (number, message.headers)
        for number in range(1, store.last_seq + 1)
        if (message := store.load(number)) and b": A " in message.headers
    ]
    if last and last[-1][0] > until:
        assert (positions | later)["A > >"].sequence == newest["A > >"]


def test_what_was_foreseen_is_of_one_store_and_some_sources() -> None:
    store, other = MemoryStore(), MemoryStore()
    foreseen = Foreseen(store, 5, frozenset({"O > >", "P > >"}), {})
    assert foreseen.covers(store, {"O > >"}) and foreseen.covers(store, {"O > >", "P > >"})
    assert not foreseen.covers(store, {"Q > >", "P > >"})
    assert not foreseen.covers(other, {"O > >"})
