"""Files of sealed blocks on their way to the disk."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.compressed_block import is_compressed
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/s/msgs")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


@pytest.fixture
def opened(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1000)
    publish(store, 25)
    return store, commit


def publish(store, count):
    run = PubRun.of([(b"s.%d" % (n % 3), b"", b"", b"x" * 60) for n in range(count)])
    store.append_run(run, 0, count, 5)


def pinned(store):
    """Return which of the sealed blocks are still in memory."""
    return [block.number for block in store._list.blocks[:-1] if block.pinned is not None]


def test_a_block_is_in_memory_until_the_flush_that_was_taken_after_it(opened):
    store, commit = opened
    assert pinned(store) == [1, 2]
    flush = commit.take(1)
    publish(store, 10)
    assert pinned(store) == [1, 2, 3]
    assert flush.run() == []
    commit.complete(flush)
    assert pinned(store) == [3]
    assert commit.drain() == []
    assert pinned(store) == []
    assert [bool(store.load(sequence)) for sequence in range(1, 36)] == [True] * 35


def test_an_erased_block_is_read_from_memory_until_the_disk_has_it(opened, disk):
    store, commit = opened
    commit.drain()
    assert store.delete([3, 4], erase=True) == 2
    assert pinned(store) == [1]
    before = [store.load(sequence) for sequence in range(1, 26)]
    assert before[2:4] == [None, None]
    assert commit.drain() == []
    assert pinned(store) == []
    assert [store.load(sequence) for sequence in range(1, 26)] == before
    assert disk.read(FOLDER / "1.blk").count(b"x" * 60) == store._list.blocks[0].count - 2


def test_an_index_that_a_full_disk_left_out_is_written_at_the_next_start(opened, disk):
    store, commit = opened
    assert commit.drain() == []
    disk.remove(FOLDER / "1.idx")
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=1000)
    assert again.state() == store.state()
    assert pinned(again) == [1]
    again._commit.drain()
    assert "1.idx" in disk.names(FOLDER)
    assert pinned(again) == []


def test_a_compressed_block_is_overwritten_when_a_redo_file_has_what_is_left_of_it(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1000)
    store.compression = "s2"
    publish(store, 25)
    commit.drain()
    assert is_compressed(disk.read(FOLDER / "1.blk"))
    redone, overwrite = [], disk.overwrite

    def spy(path: Path, offset: int, head: bytes, stop: int) -> None:
        redone.append(disk.durable_bytes(path.with_suffix(".redo")))
        overwrite(path, offset, head, stop)

    disk.overwrite = spy
    assert store.delete([3], erase=True) == 1
    assert commit.drain() == []
    assert redone == [disk.read(FOLDER / "1.blk")]
    assert redone[0].count(b"x" * 60) == store._list.blocks[0].count - 1
    assert "1.redo" not in disk.names(FOLDER)
    assert FileStore(FOLDER, GroupCommit(disk)).state() == store.state()
