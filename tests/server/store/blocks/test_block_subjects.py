"""Questions about subjects, beside the obvious way to answer them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.core.subject import matches
from jetstream_server.kernels import filters
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import block_subjects, subjects
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

PATTERNS = [b"s.*", b"s.1*", b"s.*.x", b"s.>", b"*.7", b"s.3", b"none", b">"]


def subject(number: int) -> bytes:
    return b"s.%d%b" % (number, b".x" if number % 5 == 0 else b"")


class Twin:
    """A store, and what is in it as a dictionary."""

    def __init__(self, disk: Any, random: Random) -> None:
        self.disk, self.random = disk, random
        self.live: dict[int, bytes] = {}
        self.open()

    def open(self) -> None:
        self.commit = GroupCommit(self.disk)
        self.store = FileStore(Path("/s"), self.commit, block_bytes=1000)

    def act(self) -> None:
        random, store = self.random, self.store
        kind = random.random()
        if kind < 0.6:
            names = [subject(random.randrange(40)) for _ in range(random.randrange(1, 40))]
            first = store.last_seq + 1
            run = PubRun.of([(name, b"", b"", b"x" * 20) for name in names])
            store.append_run(run, 0, len(names), 5)
            self.live.update(enumerate(names, first))
        elif kind < 0.85:
            gone = random.sample(sorted(self.live), min(len(self.live), random.randrange(1, 20)))
            store.delete(gone)
            for sequence in gone:
                del self.live[sequence]
        elif kind < 0.95:
            stop = random.randrange(1, store.last_seq + 2)
            pattern = random.choice(PATTERNS)
            store.purge(store.filter([pattern]), stop, 0)
            self.live = {
                sequence: name
                for sequence, name in self.live.items()
                if sequence >= stop or not matches(pattern, name)
            }
        else:
            self.commit.drain()
            self.disk.restart()
            self.open()

    def matching(self, pattern: bytes, start: int, stop: int) -> list[int]:
        return [
            sequence
            for sequence, name in sorted(self.live.items())
            if start <= sequence < stop and matches(pattern, name)
        ]

    def lasts(self, patterns: list[bytes], up_to: int) -> list[int]:
        newest: dict[bytes, int] = {}
        for sequence, name in sorted(self.live.items()):
            if sequence <= up_to and any(matches(pattern, name) for pattern in patterns):
                newest[name] = sequence
        return sorted(newest.values())


def walked(store: Any, wanted: Any, sequence: int) -> list[int]:
    """Return what windows show, a few messages at a time."""
    found: list[int] = []
    while sequence <= store.last_seq:
        window = store.window(wanted, sequence, 3, 1 << 20)
        assert window.next_seq > sequence
        found += window.sequences
        sequence = window.next_seq
    return found


@pytest.mark.parametrize("seed", range(40))
def test_what_is_remembered_of_blocks_is_true(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    monkeypatch.setattr(subjects, "_BOUNDS_MAX", random.choice((0, 1000)))
    twin = Twin(sim_disk_module.SimDisk(random), random)
    held: dict[bytes, Any] = {}
    for _ in range(40):
        store = twin.store
        twin.act()
        if twin.store is not store:
            held.clear()
        pattern = random.choice(PATTERNS)
        wanted = held.setdefault(pattern, twin.store.filter([pattern]))
        start, stop = sorted(random.randrange(twin.store.last_seq + 3) for _ in range(2))
        expected = twin.matching(pattern, start, stop)
        assert twin.store.count(wanted, start, stop) == len(expected)
        expected = twin.matching(pattern, start, 1 << 60)
        while random.random() < 0.8 and not twin.store.prepare_count(wanted, start, 1):
            pass
        assert twin.store.count(wanted, start) == len(expected)
        assert walked(twin.store, wanted, max(start, 1)) == expected


def test_a_rare_subject_is_not_looked_for_twice_in_the_same_block(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    for number in range(1000):
        store.append(b"rare" if number in (0, 999) else b"s.%d" % (number % 3), b"", b"", 5)
    wanted = store.filter([b"rare"])
    assert walked(store, wanted, 2) == [1000]
    assert store.count(wanted, 500) == 1
    looked_into: list[Any] = []
    contents = store._reading._contents
    of = contents.of
    monkeypatch.setattr(contents, "of", lambda block: (looked_into.append(block), of(block))[1])
    assert walked(store, wanted, 2) == [1000]
    assert store.count(wanted, 500) == 1
    assert len(looked_into) < 10
    store.delete([600])
    assert store.count(wanted, 500) == 1
    assert len(looked_into) < 20


@pytest.mark.parametrize("start", [300, 700])
def test_what_is_counted_beforehand_is_not_counted_again(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    for number in range(1, 1001):
        store.append(b"s.%d" % (number % 3), b"", b"", 5)
    wanted = store.filter([b"s.1"])
    steps = 1
    while not store.prepare_count(wanted, start, 30):
        steps += 1
    assert 5 < steps < 40
    looked_into: list[Any] = []
    contents = store._reading._contents
    of = contents.of
    monkeypatch.setattr(contents, "of", lambda block: (looked_into.append(block), of(block))[1])
    assert store.count(wanted, start) == len([n for n in range(start, 1001) if n % 3 == 1])
    assert len(looked_into) <= 2
    assert store.prepare_count(None, start, 1)


@pytest.mark.parametrize("seed", range(40))
def test_lasts_are_those_of_the_twin(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    monkeypatch.setattr(block_subjects, "_FEW_SUBJECTS", random.choice((0, 3, 64)))
    monkeypatch.setattr(block_subjects, "_PIECE_ENTRIES", random.choice((1, 4, 8192)))
    monkeypatch.setattr(block_subjects, "_BOUNDS_TRIED", random.choice((0, 1, 8)))
    twin = Twin(sim_disk_module.SimDisk(random), random)
    for _ in range(40):
        twin.act()
        store = twin.store
        patterns = random.sample(PATTERNS, random.randrange(1, 4))
        wanted = store.filter(patterns)
        expected = twin.lasts(patterns, store.last_seq)
        assert list(store.last_sequences(wanted)) == expected
        newest = store.load_last(wanted)
        assert (newest.sequence if newest else 0) == max(expected, default=0)
        up_to = random.randrange(store.last_seq + 2)
        expected = twin.lasts(patterns, up_to)
        assert list(store.last_sequences(wanted, up_to)) == expected
        found = store.last_sequences(wanted, up_to, 3)
        assert list(found) == expected if len(expected) <= 3 else len(found) > 3
        one = subject(random.randrange(40))
        assert [store.subject_last(one)] == (twin.lasts([one], store.last_seq) or [0])
        many = [subject(random.randrange(45)) for _ in range(random.randrange(30))]
        assert list(store.subject_lasts(many)) == [store.subject_last(each) for each in many]
        assert store.subject_count(one) == list(twin.live.values()).count(one)


def test_many_old_subjects_are_found_in_one_walk(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about the past of many subjects must not search it for each of them."""
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=10_000)
    for _ in range(2):
        run = PubRun.of([(b"s.%d" % number, b"", b"", b"x") for number in range(2000)])
        store.append_run(run, 0, 2000, 5)
    searches: list[int] = []

    def search(number: int, up_to: int | None = None) -> int:
        searches.append(number)
        return 0

    monkeypatch.setattr(store._subjects, "last_of", search)
    assert list(store.last_sequences(store.filter([b"s.*"]), 2000)) == list(range(1, 2001))
    assert len(store.last_sequences(store.filter([b"s.*"]), 2000, 1000)) > 1000
    newest = store.load_last(store.filter([b"s.*"]))
    assert newest is not None
    assert newest.sequence == 4000
    assert not searches


def test_what_a_wildcard_matches_is_decided_once_for_all_who_ask(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(Path("/s"), GroupCommit(sim_disk_module.SimDisk(Random(1))))
    names = [b"s.%d.x" % number for number in range(100)]
    store.append_run(PubRun.of([(name, b"", b"", b"x") for name in names]), 0, 100, 5)
    looked_at: list[int] = []
    mark = filters.mark

    def marking(known: Any, start: int, stop: int, patterns: Any, flags: Any) -> None:
        looked_at.append(stop - start)
        mark(known, start, stop, patterns, flags)

    monkeypatch.setattr(filters, "mark", marking)
    for turn in range(3):
        assert store.count(store.filter([b"s.*.x", b"s.*.x"]), 0) == 100 + turn
        assert len(store.subject_counts(b"s.*.x")) == 100 + (turn > 0)
        assert store.load_last(store.filter([b"s.*.x"])).sequence >= 100
        store.append(b"s.new.x", b"", b"", 5)
    assert looked_at == [100, 1]


def test_who_looks_for_a_few_subjects_has_no_block_number_all_of_its_own(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    names = [b"s.%d" % (n % 99) for n in range(100)]
    store.append_run(PubRun.of([(name, b"", b"", b"x" * 20) for name in names]), 0, 100, 5)
    store.append(b"other", b"", b"", 6)
    assert commit.drain() == []  # sealed blocks are had from their files from now on

    def refuse(*_: Any) -> None:
        raise AssertionError("numbers all subjects of a block")

    monkeypatch.setattr(subjects.SubjectTable, "add_stored", refuse)
    rare = store.filter([b"s.0"])
    assert store.load_next(rare, 1).sequence == 1
    assert store.load_next(rare, 2).sequence == 100
    assert store.load_next(store.filter([b"*.70"]), 60).sequence == 71
    assert store.count(rare, 2) == 1
    assert store.subject_last(b"s.0") == 100
    assert store.delete([100]) == 1
    assert store.subject_last(b"s.0") == 1
    assert store.delete([1]) == 1
    assert store.load_next(rare, 1) is None
    assert store.load_last(store.filter([b"s.*"])).sequence == 99


def test_as_long_as_all_are_stored_nobody_asks_whose_they_are(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To sort a million with their numbers takes 13 ms, without 4."""
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=10_000)
    names = [b"s.%d" % number for number in range(500)]
    for _ in range(2):
        Random(1).shuffle(names)
        run = PubRun.of([(name, b"", b"", b"x") for name in names])
        store.append_run(run, 0, 500, 5)
    monkeypatch.setattr(filters, "order", lambda *_: pytest.fail("they were sorted"))
    assert list(store.last_sequences(store.filter([b"s.*"]))) == list(range(501, 1001))
