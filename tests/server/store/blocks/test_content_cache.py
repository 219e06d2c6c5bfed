"""Contents of sealed blocks: had from files, checked, and few of them at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import records
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import index as block_index
from jetstream_server.store.blocks.block import Block, BlockWriter
from jetstream_server.store.blocks.compressed_block import compress
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.disk import OsDisk

CHUNK_BYTES = 100


@pytest.fixture
def table():
    return SubjectTable()


def stored(path: Path, table, *, compressed=False, messages=20) -> Block:
    """Return a sealed block that is on disk."""
    writer, disk = BlockWriter(Block(1, path, 1), 4096), OsDisk()
    for sequence in range(1, messages + 1):
        writer.place(sequence)
        run = PubRun.single(b"s", payload=b"x" * 20)
        _, used = records.encode_run(
            run.chunk, run.fields, 0, 1, sequence, 9, writer.buffer, writer.used,
            writer.positions, writer.subject_ids, table.ids,
        )  # fmt: skip
        writer.extended(sequence, used, 9)
    table.grow()
    index, block = writer.seal(table), writer.block
    parts, end = [block.pinned.buffer[: block.size]], b""
    if compressed:
        parts = compress(bytes(block.pinned.buffer[: block.size]), CHUNK_BYTES)
        end = block_index.end(sum(map(len, parts)))
    disk.replace(path, parts)
    disk.replace(block.index_path, [*index, end])
    block.pinned = None
    return block


def test_it_forgets_the_oldest(tmp_path, table):
    cache = ContentCache(OsDisk(), blocks_max=2)
    blocks = [stored(tmp_path / f"{number}.blk", table) for number in range(3)]
    first = cache.content(blocks[0], table)
    for block in blocks:
        cache.content(block, table)
    assert cache.content(blocks[0], table) is not first


def test_damage_of_a_plain_block_is_found_on_first_use(tmp_path, table):
    block = stored(tmp_path / "1.blk", table)
    whole = bytearray(block.path.read_bytes())
    whole[40] ^= 1
    block.path.write_bytes(whole)
    cache = ContentCache(OsDisk())
    with pytest.raises(StoreError, match=r"damaged .*1.blk at byte 0"):
        cache.buffer(block, cache.content(block, table), 0, 1)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_compressed_block_shows_what_is_asked_for(tmp_path, table, has_index):
    block = stored(tmp_path / "1.blk", table, compressed=True)
    plain = stored(tmp_path / "2.blk", table).path.read_bytes()
    cache = ContentCache(OsDisk())
    if not has_index:
        block.index_path.unlink()
    content = cache.content(block, table)
    assert cache.is_compressed(block, content)
    assert [block.sequence(content, entry) for entry in range(20)] == list(range(1, 21))
    inflated = cache.inflated_bytes
    assert inflated == (0 if has_index else len(plain))
    start = content.entries.positions[7]
    stop = block.end(content, 7)
    assert cache.buffer(block, content, start, stop)[start:stop] == plain[start:stop]
    assert inflated <= cache.inflated_bytes <= max(inflated, 2 * CHUNK_BYTES)
    assert block.end(content, 19) == block.size == len(plain)
    assert cache.buffer(block, content, 0, block.size)[: block.size] == plain


def test_memory_is_bounded_however_many_blocks_are_read(tmp_path, table):
    cache = ContentCache(OsDisk(), inflated_bytes_max=3 * CHUNK_BYTES)
    blocks = [stored(tmp_path / f"{number}.blk", table, compressed=True) for number in range(12)]
    plain = stored(tmp_path / "plain.blk", table).path.read_bytes()
    held = []
    for _ in range(2):
        for block in blocks:
            content = cache.content(block, table)
            for start in range(0, block.size, CHUNK_BYTES):
                stop = min(start + CHUNK_BYTES, block.size)
                buffer = cache.buffer(block, content, start, stop)
                assert buffer[start:stop] == plain[start:stop]
            others = cache.inflated_bytes - content.compressed.used_bytes
            assert others <= 3 * CHUNK_BYTES
            held.append(buffer)
    assert all(buffer[: len(plain)] == plain for buffer in held), "what was given out stays"


def test_memory_goes_from_block_to_block(tmp_path, table):
    cache = ContentCache(OsDisk(), inflated_bytes_max=2000)
    plain = stored(tmp_path / "plain.blk", table).path.read_bytes()
    seen = set()
    for number in range(20):
        block = stored(tmp_path / f"{number}.blk", table, compressed=True)
        content = cache.content(block, table)
        buffer = cache.buffer(block, content, 0, block.size)
        assert buffer[: block.size] == plain
        seen.add(id(buffer))
        del buffer
    assert len(seen) <= 4


def test_damage_of_a_compressed_block_says_where(tmp_path, table):
    block = stored(tmp_path / "1.blk", table, compressed=True)
    file = bytearray(block.path.read_bytes())
    file[-20] ^= 1
    block.path.write_bytes(file)
    cache = ContentCache(OsDisk())
    content = cache.content(block, table)
    cache.buffer(block, content, 0, CHUNK_BYTES)
    with pytest.raises(StoreError, match=r"chunk is damaged .*1.blk at byte \d\d\d"):
        cache.buffer(block, content, 0, block.size)


def test_another_compressed_block_is_not_taken_for_the_one_of_the_index(tmp_path, table):
    block = stored(tmp_path / "1.blk", table, compressed=True)
    other = stored(tmp_path / "2.blk", table, compressed=True, messages=21)
    block.path.write_bytes(other.path.read_bytes())
    cache = ContentCache(OsDisk())
    with pytest.raises(StoreError, match="not the one of its index"):
        cache.buffer(block, cache.content(block, table), 0, 1)


def test_a_file_that_cannot_be_read(tmp_path, table):
    block = stored(tmp_path / "1.blk", table)
    cache = ContentCache(OsDisk())
    content = cache.content(block, table)
    block.path.unlink()
    with pytest.raises(StoreError, match=r"read failed: No such file .*1.blk"):
        cache.buffer(block, content, 0, 1)
