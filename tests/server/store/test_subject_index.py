"""What a store in memory says about very many subjects, against a plain look at all messages."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core.subject import matches
from jetstream_server.store import memory, subject_index
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Leftover, Limits, StoredMessage

from tests.traced_lines import lines_of

PATTERNS = [(b"s.*",), (b"*.1",), (b"s.1", b"t.*"), (b"s.2",), (b"s.1", b"s.2"), (b"none.*",), ()]


def held(store: MemoryStore, patterns: tuple[bytes, ...]) -> list[StoredMessage]:
    every = (store.load(sequence) for sequence in range(1, store.last_seq + 1))
    return [
        message
        for message in every
        if message is not None
        and (not patterns or any(matches(each, message.subject) for each in patterns))
    ]


def compare(store: MemoryStore, random: Random) -> None:
    patterns = random.choice(PATTERNS)
    wanted, found = store.filter(patterns), held(store, patterns)
    lasts, counts = dict[bytes, int](), dict[bytes, int]()
    for message in found:
        lasts[message.subject] = message.sequence
        counts[message.subject] = counts.get(message.subject, 0) + 1
    assert store.load_last(wanted) == (found[-1] if found else None)
    assert list(store.last_sequences(wanted)) == sorted(lasts.values())
    assert store.count(wanted, 0) == len(found)
    start = random.randrange(1, store.last_seq + 3)
    stop = start + random.randrange(20)
    sequences = [message.sequence for message in found]
    assert store.count(wanted, start) == sum(start <= each for each in sequences)
    assert store.count(wanted, start, stop) == sum(start <= each < stop for each in sequences)
    if len(patterns) == 1:
        assert store.subject_counts(patterns[0]) == counts
    if not patterns:
        census = store.census()
        told = zip(census.names, census.counts, strict=False)
        assert {name: count for name, count in told if count} == counts


@pytest.mark.parametrize("seed", range(60))
def test_it_is_what_a_plain_look_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_index, "_SWEEP_MIN", 6)
    random = Random(seed)
    store = MemoryStore()
    names = [b"%c.%d" % (random.choice(b"stu"), number) for number in range(12)]
    limit = random.choice((-1, -1, 1, 3))
    for number in range(400):
        for _ in range(random.randrange(3)):
            store.append(random.choice(names), b"", b"", number)
        if random.random() < 0.5:
            first = random.randrange(1, store.last_seq + 2)
            store.delete(range(first, first + random.randrange(6)))
        if random.random() < 0.02:
            limit = random.choice((-1, 1, 3))
        if random.random() < 0.3:
            store.enforce(Limits(max_msgs_per_subject=limit, max_msgs=40), number)
            most = max(map(store.subject_count, names))
            assert limit < 0 or most <= limit
        if random.random() < 0.3:
            store.prepare_subjects(store.filter((b"s.*",)), random.randrange(1, 4))
        if random.random() < 0.3:
            compare(store, random)
    assert len(store._index.names) <= 2 * 12 + 7
    assert max(map(len, (store._grown, store._shrunk, store._untrimmed))) <= 12


def test_only_so_many_are_counted_at_once_and_then_those_that_have_changed() -> None:
    store = MemoryStore()
    for number in range(100):
        store.append(b"s.%d" % number, b"", b"", 1)
    wanted = store.filter((b"s.*",))
    steps = 1
    while not store.prepare_subjects(wanted, 30):
        steps += 1
    assert steps == 4
    store.delete([5])
    store.append(b"s.7", b"", b"", 2)
    assert not store.prepare_subjects(wanted, 1)
    assert store.prepare_subjects(wanted, 1)
    assert store.prepare_subjects(store.filter((b"s.7",)), 0)
    assert store.count(wanted, 0) == 100
    assert store.last_sequences(wanted)[-1] == 101


def test_what_nobody_asks_for_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_index, "_SWEEP_MIN", 10)
    store = MemoryStore()
    for number in range(500):
        store.append(b"s.%d" % number, b"", b"", number)
        store.enforce(Limits(max_msgs=5), number)
    assert max(len(store._grown), len(store._shrunk)) < 50


def asked(store: MemoryStore, at_once: int) -> int:
    """Have all subjects counted, some at a time; return the most that was done in a step, in lines
    of Python."""
    most, is_done = 0, False

    def step() -> None:
        nonlocal is_done
        is_done = store.prepare_subjects(None, at_once)

    while not is_done:
        most = max(most, lines_of(step))
    return most


def test_what_has_changed_is_taken_over_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a million changes the first question after them took 0.3 s, whatever it asked."""
    monkeypatch.setattr(subject_index, "_TOGETHER_MAX", 10)
    store = MemoryStore()
    for number in range(2000):
        store.append(b"s.%d" % number, b"", b"", 1)
    asked(store, 100)
    store.delete(range(1, 1001))
    for number in range(1000, 1990):
        store.append(b"s.%d" % number, b"", b"", 1)
    noted = store._up_to_date()._changed
    assert [len(each) for each in noted] == [1000, 990]
    store.append(b"s.1995", b"", b"", 1)
    assert asked(store, 100) < 100 * 15
    assert store.count(store.filter([b"s.*"]), 0) == len(store._messages) == 1991
    assert not noted


def test_what_changes_again_and_again_is_kept_as_one_list_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject_index, "_TOGETHER_MAX", 20)
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 50)
    left: list[Leftover] = []
    store = MemoryStore()
    store.leave_to(left.append)
    for number in range(200):
        store.append(b"s.%d" % number, b"", b"", 1)
    asked(store, 10)
    index = store._index
    for number in range(5000):
        store.append(b"s.%d" % (number % 200), b"", b"", 1)
        if store._grown and number % 60 == 59:
            store._up_to_date()
        assert sum(map(len, index._changed)) <= 200 + 20
    assert left, "it was counted anew"
    asked(store, 10)
    assert store.count(store.filter([b"s.*"]), 0) == 5200


def test_names_that_are_left_out_are_let_go_by_somebody_else() -> None:
    left: list[Leftover] = []
    store = MemoryStore()
    store.leave_to(left.append)
    for number in range(3000):
        store.append(b"s.%d" % number, b"", b"", 1)
    store.count(store.filter([b"s.*"]), 0)
    store.delete(range(1, 2990))
    store.append(b"t", b"", b"", 1)  # there are too many names of those that are gone
    assert max(len(each) for each in left if isinstance(each, list)) == 3001
    assert sum(len(each) for each in left if isinstance(each, dict)) >= 3000
    assert store.count(store.filter([b"s.*"]), 0) == 11


def test_a_census_stays_as_it_is_while_the_names_are_let_go() -> None:
    """They went out of a list of subjects that somebody had asked for, while it was made."""
    remains: list[Leftover] = []
    store = MemoryStore()
    store.leave_to(remains.append)
    for number in range(3000):
        store.append(b"s.%d" % number, b"", b"", 1)
    census = store.census()
    store.truncate_front(3001)
    for held in remains:
        held.clear()
    assert len(census.names) == len(census.counts) == 3000


def test_the_first_question_counts_so_many_and_no_more() -> None:
    store = MemoryStore()
    for number in range(3000):
        store.append(b"s.%d" % number, b"", b"", 1)
    asked(store, 3000)  # what is made once
    counts = []
    for at_once in (100, 400):
        store = MemoryStore()
        for number in range(3000):
            store.append(b"s.%d" % number, b"", b"", 1)
        counts.append(asked(store, at_once))
    assert counts[0] < counts[1] < 400 * 12


def test_what_is_counted_anew_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million subjects that had changed took twice as long, and turns of 50 ms."""
    monkeypatch.setattr(subject_index, "_TOGETHER_MAX", 0)
    store = MemoryStore()
    wanted = store.filter([b"s.*"])
    for number in range(100):
        store.append(b"s.%d" % number, b"", b"", 5)
    assert store.prepare_subjects(wanted, 100)
    for number in range(100):
        store.append(b"s.%d" % number, b"", b"", 5)
    store.delete(range(1, 51))
    steps = 1
    while not store.prepare_subjects(wanted, 10):
        steps += 1
    assert steps == 10
    assert store.count(wanted, 0) == 150


@pytest.mark.parametrize("moved_max", [0, 30, 1000])
def test_counters_that_have_no_room_are_moved_or_counted_anew(
    moved_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array that grows is copied: with a million subjects a step took 25 to 55 ms for that."""
    monkeypatch.setattr(subject_index, "_MOVED_MAX", moved_max)
    store, model = MemoryStore(), dict[bytes, int]()
    index, steps = store._index, list[int]()
    for number in range(400):
        for name in (b"s.%d" % number, b"s.%d" % (number // 3)):
            store.append(name, b"", b"", 1)
            model[name] = model.get(name, 0) + 1
        steps.append(1)
        while not store.prepare_subjects(None, 20):
            steps[-1] += 1
        assert len(index._counts) <= 2 * len(index.names) == 2 * index._known
        assert list(index._counts[: index._known]) == [model[name] for name in index.names]
    wanted = store.filter((b"s.*",))
    assert store.count(wanted, 0) == 800 == sum(store.census().counts)
    assert len(store.census().counts) == 400
    assert list(store.last_sequences(None)) == sorted(map(store.subject_last, model))
    # Those that are counted anew are so when they are twice as many, not with each new one.
    assert sum(steps) <= 400 + 6 * (0 if moved_max == 1000 else 400 // 20 + 1)
    assert (max(steps) > 10) is (moved_max < 1000)
