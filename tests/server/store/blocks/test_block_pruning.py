"""Removing much: from the front, in slices."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/s")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


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
