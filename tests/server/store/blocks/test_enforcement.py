"""Limits: what goes, and how much of it at a time."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store import memory
from jetstream_server.store.blocks import enforcement
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Limits

FOLDER = Path("/s/msgs")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(7))


def open_store(disk, **options):
    commit = GroupCommit(disk)
    return FileStore(FOLDER, commit, **options), commit


def publish(store, count, subject=b"orders.new", payload=b"x" * 50, now=5):
    run = PubRun.of([(subject, b"", b"", payload)] * count)
    return store.append_run(run, 0, count, now)


def sequences(store):
    return [s for s in range(store.first_seq, store.last_seq + 1) if store.load(s) is not None]


def filled(disk, count: int = 400) -> tuple[GroupCommit, FileStore]:
    """Return a store of many small blocks, message `n` stored at time `n`."""
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    for number in range(1, count + 1):
        store.append(b"s.%d" % (number % 3), b"", b"x" * 40, number)
    assert commit.drain() == []
    assert len(disk.names(FOLDER)) > 20
    return commit, store


@pytest.mark.parametrize("limits", [{"max_msgs": 20}, {"max_bytes": 1000}])
def test_a_limit_that_is_lowered_takes_several_turns(disk, limits):
    store, _ = open_store(disk, block_bytes=1000)
    publish(store, 1000)
    limits, counts = Limits(**limits), [1000]
    while store.exceeds(limits) and len(counts) < 50:
        (removed,) = store.enforce(limits, 0)
        assert removed[1] - removed[0] == counts[-1] - store.state().messages
        counts.append(store.state().messages)
    assert len(counts) > 5
    assert not store.exceeds(limits)
    assert 0 < counts[-1] <= 20
    assert sequences(store) == list(range(1001 - counts[-1], 1001))
    publish(store, 5)
    store.enforce(limits, 0)
    assert not store.exceeds(limits)


def test_a_limit_for_each_subject_takes_several_turns(disk, monkeypatch):
    monkeypatch.setattr(enforcement, "DELETED_AT_ONCE", 7)
    store, commit = open_store(disk, block_bytes=10_000)
    twin = MemoryStore(0)
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 7)
    for number in range(100):
        for each in (store, twin):
            each.append(b"s.%d" % (number % 4), b"", b"x", number)
    limits = Limits(max_msgs_per_subject=3)
    for each in (store, twin):
        turns, gone = 0, set()
        while turns == 0 or each.exceeds(limits):
            if turns == 2:  # what has enough already goes on being trimmed at once
                each.append(b"s.0", b"", b"x", 100)
                each.append(b"new", b"", b"x", 100)
            removed = [sequence for sequence, _ in each.enforce(limits, 0)]
            assert len(removed) <= 8
            gone.update(removed)
            turns += 1
            commit.drain()
        assert turns > 10
        assert len(gone) == 89
        assert each.subject_counts(b">") == {b"new": 1} | {b"s.%d" % n: 3 for n in range(4)}
        assert each.subject_last(b"s.0") == 101
    assert not store.exceeds(Limits())
    assert sequences(store) == sequences(twin) == [*range(90, 103)]


def test_limits_reached_in_slices_spare_what_they_would_have_spared_at_once(disk, monkeypatch):
    monkeypatch.setattr(enforcement, "DELETED_AT_ONCE", 2)
    store, commit = open_store(disk)
    publish(store, 1, b"kept")
    publish(store, 8, b"overfull")
    limits = Limits(max_msgs=5, max_msgs_per_subject=1)
    calls = 0
    while store.enforce(limits, 5) or store.exceeds(limits):
        commit.drain()
        calls += 1
    assert calls > 3
    assert sequences(store) == [1, 9]


def test_much_that_is_too_old_goes_in_slices_and_everything_at_once(disk):
    _, store = filled(disk)
    age, calls = Limits(max_age_ns=100), 0
    while (due := store.next_expiry(100)) is not None and due <= 450:
        assert store.enforce(age, 450)
        calls += 1
    assert (store.first_seq, calls > 5) == (351, True)
    assert store.enforce(age, 1000) == [(351, 401)]
    assert store.state().messages == 0


@pytest.mark.parametrize("block_bytes", [1000, 100_000])
def test_a_store_is_within_limits_up_to_the_last_byte(disk, block_bytes):
    store, _ = open_store(disk, block_bytes=block_bytes)
    publish(store, 30)
    before = store.state()
    exact = Limits(max_msgs=30, max_bytes=before.bytes)
    assert (store.exceeds(exact), store.enforce(exact, 0)) == (False, [])
    assert store.state() == before
    for limits, start in ((Limits(max_bytes=before.bytes - 1), 1), (Limits(max_msgs=28), 2)):
        assert store.exceeds(limits)
        assert store.enforce(limits, 0) == [(start, start + 1)]
        assert not store.exceeds(limits)
    front = store._list.blocks[0]
    left = Limits(max_bytes=store.state().bytes - front.accounted)
    assert store.enforce(left, 0) == [(3, front.last_seq + 1)]


@pytest.mark.parametrize("limits", [Limits(max_msgs=0), Limits(max_bytes=0)])
def test_a_limit_of_nothing_leaves_nothing(disk, limits):
    store, _ = open_store(disk)
    publish(store, 3)
    assert store.exceeds(limits)
    assert store.enforce(limits, 0) == [(1, 4)]
    assert (store.state().messages, store.exceeds(limits)) == (0, False)


def test_a_message_expires_when_it_is_as_old_as_may_be(disk):
    _, store = filled(disk)
    assert store.next_expiry(100) == 101
    assert store.enforce(Limits(max_age_ns=100), 100) == []
    assert store.enforce(Limits(max_age_ns=100), 101) == [(1, 2)]
