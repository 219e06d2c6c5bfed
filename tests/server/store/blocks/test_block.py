"""Blocks: entries, deleted ones, sealing, and contents from disk."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from jetstream_server.kernels import records
from jetstream_server.kernels.interned import Interned
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.block import Block, BlockWriter, scan_block
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.disk import OsDisk


@pytest.fixture
def table():
    return SubjectTable()


def write(path: Path, table, sequences):
    """Return an open block with one message for each sequence."""
    writer = BlockWriter(Block(1, path, 1), 4096)
    for sequence in sequences:
        writer.place(sequence)
        run = PubRun.single(b"s.%d" % (sequence % 3), payload=b"x")
        ids = table.ids
        _, used = records.encode_run(
            run.chunk, run.fields, 0, 1, sequence, 9, writer.buffer, writer.used,
            writer.positions, writer.subject_ids, ids,
        )  # fmt: skip
        writer.extended(sequence, used, 9)
    table.grow()
    return writer


@pytest.mark.parametrize("sequences", [range(5, 15), [5, 6, 9, 20, 21]])
def test_sealed_content_comes_back_from_disk(tmp_path, table, sequences):
    writer = write(tmp_path / "1.blk", table, sequences)
    block, disk = writer.block, OsDisk()
    index = writer.seal(table)
    disk.replace(block.path, [block.pinned.buffer[: block.size]])
    disk.replace(block.index_path, index)
    block.pinned = None
    cache = ContentCache(disk)
    content = cache.content(block, table)
    assert content.buffer is None
    assert [block.sequence(content, entry) for entry in range(block.count)] == list(sequences)
    assert [block.find(content, sequence) for sequence in sequences] == list(range(block.count))
    assert block.find(content, 4) == block.find(content, 99) == -1
    names = [table.names[content.table_ids[n]] for n in content.entries.subject_ids]
    assert names == [b"s.%d" % (sequence % 3) for sequence in sequences]
    assert len(cache.buffer(block, content, 0, block.size)) == block.size
    assert cache.content(block, table) is content


def test_content_without_index_is_read_from_the_block(tmp_path, table):
    writer = write(tmp_path / "1.blk", table, [5, 6, 9])
    block = writer.block
    writer.seal(table)
    OsDisk().replace(block.path, [block.pinned.buffer[: block.size]])
    block.pinned = None
    content = ContentCache(OsDisk()).content(block, table)
    assert [block.sequence(content, entry) for entry in range(3)] == [5, 6, 9]


def test_burying(tmp_path, table):
    block = write(tmp_path / "1.blk", table, range(5, 10)).block
    block.bury(0)
    assert (block.head, block.alive) == (1, b"")
    block.bury(2)
    assert [block.is_alive(entry) for entry in range(5)] == [False, True, False, True, True]
    block.bury(1)
    assert block.head == 3
    assert block.dead_ranges(block.pinned) == [(5, 8)]


def test_growing_leaves_the_old_buffer_alone(tmp_path, table):
    writer = write(tmp_path / "1.blk", table, [1, 2])
    with memoryview(writer.buffer) as view:
        writer.move(9000)
        assert bytes(view[: writer.used]) == writer.buffer[: writer.used]
    assert len(writer.buffer) == 9000
    assert scan_block(writer.buffer[: writer.used], Interned()).sequences == array("Q", [1, 2])
