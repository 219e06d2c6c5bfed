"""Removing much: from the front in slices, and what becomes of the files."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.store.commit import RUBBISH_NS, GroupCommit
from jetstream_server.store.file import FileStore
from jetstream_server.store.ports import Limits

FOLDER = Path("/s")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


def settle(commit: GroupCommit, now: int) -> None:
    found = commit.take(now)
    assert found is not None
    assert found.run() == []
    commit.settle(found)


def filled(disk, count: int = 400) -> tuple[GroupCommit, FileStore]:
    """Return a store of many small blocks, message `n` stored at time `n`."""
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    for number in range(1, count + 1):
        store.append(b"s.%d" % (number % 3), b"", b"x" * 40, number)
    assert commit.drain() == []
    assert len(disk.names(FOLDER)) > 20
    return commit, store


def test_a_purge_below_a_sequence_takes_a_block_at_a_time(disk):
    commit, store = filled(disk)
    start, removed, calls = store.first_seq, 0, 0
    while start < 351:
        start, count = store.purge_some(None, start, 351, 1 << 40)
        assert count <= 40
        removed += count
        calls += 1
    assert (removed, store.first_seq, store.state().messages) == (350, 351, 50)
    assert calls > 10
    assert sum(store.subject_counts(b">").values()) == 50
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
    assert again.state() == store.state()


def test_what_may_go_at_most_is_kept_to(disk):
    _, store = filled(disk)
    start, left = store.first_seq, 123
    while left:
        start, count = store.purge_some(None, start, 401, left)
        left -= count
    assert (store.first_seq, store.state().messages) == (124, 277)


def test_much_that_is_too_old_goes_in_slices_and_everything_at_once(disk):
    _, store = filled(disk)
    age, calls = Limits(max_age_ns=100), 0
    while (due := store.next_expiry(100)) is not None and due <= 450:
        assert store.enforce(age, 450)
        calls += 1
    assert (store.first_seq, calls > 5) == (351, True)
    assert store.enforce(age, 1000) == [(351, 401)]
    assert store.state().messages == 0


def test_files_of_a_purge_go_one_block_after_the_other(disk):
    commit, store = filled(disk)
    files = len(disk.names(FOLDER))
    store.append(b"s.new", b"", b"", 500)
    commit.drain()
    assert store.purge(None, 0, 0) == 401
    settle(commit, 1000)
    left = len(disk.names(FOLDER))
    assert left >= files - 2
    settle(commit, 1000 + RUBBISH_NS)
    assert len(disk.names(FOLDER)) == left - 2
    # A crash before the rest is gone brings nothing back.
    disk.restart()
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
    assert (again.state().messages, again.last_seq) == (0, 401)


def test_the_last_block_loses_its_end_to_a_rewrite_and_no_sequence_comes_again(sim_disk_module):
    """The store had no newer block that knew the last sequence, and was offline after a crash."""
    for dark_in in range(40):
        disk = sim_disk_module.SimDisk(Random(dark_in))
        commit = GroupCommit(disk)
        store = FileStore(FOLDER, commit, block_bytes=20_000)
        store.append(b"a", b"", b"first", 1)
        store._rotate()
        for number in range(2, 32):
            store.append(b"a" if number < 5 else b"b", b"", b"x" * 600, number)
        assert not store.rest() and store.rest()
        commit.drain()
        disk.dark_in = dark_in
        is_done = True
        try:
            assert store.purge(store.filter([b"b"]), 0, 0) == 27
            commit.drain()
        except sim_disk_module.PowerLostError:
            is_done = False
        disk.restart()
        again = FileStore(FOLDER, GroupCommit(disk), block_bytes=20_000)
        assert again.offline == ""
        assert again.last_seq == 31
        if is_done:
            return
    raise AssertionError("the power was always lost")


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("is_purged", [False, True])
def test_what_was_deleted_stays_deleted_when_the_block_that_says_so_goes(
    disk, is_purged, is_reopened
):
    commit, store = filled(disk)
    if is_purged:
        assert store.purge_some(None, 2, 3, 1)[1] == 1
    else:
        assert store.delete([2]) == 1
    for turn in range(1, 4):  # the block that says so is sealed, and all in it goes
        first = store.last_seq + 1
        for _ in range(60):
            store.append(b"s.9", b"", b"x" * 40, 500)
        store.delete(range(first - 60, store.last_seq - 25))
        while (flush := commit.take(turn)) is not None:
            assert flush.run() == []
            commit.settle(flush)
        again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
        assert (again.load(1) is not None, again.load(2)) == (True, None)
        assert again.state() == store.state()
        if is_reopened:
            commit = GroupCommit(disk)
            store = FileStore(FOLDER, commit, block_bytes=2000)
