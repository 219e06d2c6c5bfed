"""What stands in blocks, and what happens when it is not what was written."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import block_contents
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/s/msgs")


def filled(sim_disk_module, how):
    """Return a store of one sealed block of thirty messages, read from the disk."""
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(FOLDER, commit, block_bytes=4000, chunk_bytes=200)
    store.compression = how
    run = PubRun.of([(b"s", b"", b"", b"x" * 67)] * 30)  # of 100 bytes each
    store.append_run(run, 0, 30, 5)
    assert [store.rest(), store.rest()] == [False, True]
    assert commit.drain() == []
    return store, commit.disk


@pytest.fixture(params=["none", "s2"])
def how(request):
    return request.param


def pieces(store, *bounds):
    contents = store._reading._contents
    block = store._list.blocks[0]
    return list(contents.pieces(block, contents.of(block), *bounds))


def test_a_plain_block_is_one_piece(sim_disk_module):
    store, _ = filled(sim_disk_module, "none")
    assert pieces(store, 3, 30) == [(3, 30)]


def test_pieces_of_a_compressed_block_grow_to_a_bound(sim_disk_module, monkeypatch):
    monkeypatch.setattr(block_contents, "PIECE_CHUNKS_MAX", 4)
    store, _ = filled(sim_disk_module, "s2")
    assert pieces(store, 0, 30) == [(0, 2), (2, 6), (6, 14), (14, 22), (22, 30)]
    assert pieces(store, 5, 8) == [(5, 7), (7, 8)]
    assert pieces(store, 0, 4, 1) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert pieces(store, 4, 4) == [(4, 4)]


def test_messages_and_weights_are_the_same_however_they_are_kept(sim_disk_module, how):
    store, _ = filled(sim_disk_module, how)
    contents, block = store._reading._contents, store._list.blocks[0]
    content = contents.of(block)
    assert contents.message(block, content, 4) == store.load(5)
    assert contents.timestamp(block, content, 4) == 5
    # One is reached with the message that brings it there, the other within the block.
    assert contents.weigh(block, content, 30, 7, 0, -1) == (7, 7, 7 * 98, 700)
    assert contents.weigh(block, content, 30, 0, 9 * 98 + 1, -1) == (10, 10, 10 * 98, 1000)
    assert contents.weigh(block, content, 30, 0, 0, 5) == (30, 30, 30 * 98, 3000)


def test_damage_takes_the_store_offline(sim_disk_module, how):
    store, disk = filled(sim_disk_module, how)
    disk.damage(FOLDER / "1.blk", disk.size(FOLDER / "1.blk") // 2)
    contents, block = store._reading._contents, store._list.blocks[0]
    with pytest.raises(StoreError, match="damaged"):
        contents.whole(block, contents.of(block))
    assert "1.blk at byte" in store.offline
