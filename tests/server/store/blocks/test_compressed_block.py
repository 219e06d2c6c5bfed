"""Compressed block files: any part comes back alone, and no damage goes unseen."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.blocks.compressed_block import (
    MAGIC,
    CompressedBlock,
    Memory,
    compress,
    compressed_bytes_max,
    inflate_whole,
    is_compressed,
)
from jetstream_server.structures import snappy

PATH = Path("/store/1.blk")


def text(size, seed=1):
    words = [b"order", b"paid", b"open", b'{"id":', b"}", b",", b" "]
    random = Random(seed)
    return b"".join(random.choice(words) for _ in range(size // 2 + 1))[:size]


def opened(file):
    """Return a block and where it is inflated."""
    block = CompressedBlock(file, PATH)
    memory = Memory.of(block.block_bytes)
    block.begin(memory)
    return block, memory


def noise(size):
    return Random(1).randbytes(size)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1000])
@pytest.mark.parametrize("whole", [b"x", text(640), text(641), noise(300), bytes(5000)])
def test_any_part_comes_back_alone(whole, chunk_bytes):
    file = b"".join(compress(whole, chunk_bytes))
    assert is_compressed(file)
    assert len(file) <= compressed_bytes_max(len(whole), chunk_bytes)
    assert inflate_whole(file, PATH) == whole
    random = Random(len(whole))
    for _ in range(20):
        start = random.randrange(len(whole))
        stop = random.randrange(start, len(whole)) + 1
        block, memory = opened(file)
        assert block.inflate(start, stop)
        assert memory.buffer[start:stop] == whole[start:stop]
        assert stop - start <= block.used_bytes <= stop - start + 2 * chunk_bytes
        assert not block.inflate(start, stop)


def test_nothing_is_inflated_for_an_empty_range():
    block, _ = opened(b"".join(compress(text(100), 10)))
    assert not block.inflate(0, 0)
    assert not block.inflate(50, 50)
    assert block.used_bytes == 0


def test_memory_goes_on_only_when_nobody_looks_at_it():
    whole = text(500)
    block, memory = opened(b"".join(compress(whole, 50)))
    block.inflate(0, 500)
    for hold in (lambda: memory.buffer, lambda: memoryview(memory.buffer)[3:9]):
        held = hold()
        assert block.forget() is None
        assert block.used_bytes == 0
        assert memory.buffer[:500] == whole
        del held
        block.begin(memory)
    assert block.forget() is memory


def test_what_another_block_left_behind_is_not_shown():
    before, memory = opened(b"".join(compress(bytes(600), 50)))
    before.inflate(0, 600)
    assert before.forget() is memory
    whole = text(500)
    block = CompressedBlock(b"".join(compress(whole, 50)), PATH)
    block.begin(memory)
    assert block.used_bytes == 600, "the memory is not given back meanwhile"
    block.inflate(100, 201)
    assert memory.buffer[100:250] == whole[100:250]
    block.inflate(0, 500)
    assert memory.buffer[:500] == whole


@pytest.mark.parametrize("whole", [text(300), noise(300)])
def test_every_flipped_byte_is_seen(whole):
    file = b"".join(compress(whole, 64))
    for at in range(len(file)):
        broken = bytearray(file)
        broken[at] ^= 0x20
        if not is_compressed(broken):
            assert at < len(MAGIC)
            continue
        with pytest.raises(StoreError, match="damaged") as caught:
            inflate_whole(bytes(broken), PATH)
        assert caught.value.path == str(PATH)
        assert 0 <= caught.value.offset <= at


def test_damage_to_one_chunk_spares_the_others():
    whole = text(300)
    parts = compress(whole, 100)
    parts[2] = bytes(len(parts[2]))
    block, memory = opened(b"".join(parts))
    block.inflate(0, 100)
    block.inflate(200, 300)
    assert memory.buffer[200:300] == whole[200:300]
    for _ in range(2):
        with pytest.raises(StoreError, match="chunk is damaged") as caught:
            block.inflate(0, 300)
        assert caught.value.offset == len(parts[0]) + len(parts[1])


def test_every_cut_is_seen():
    file = b"".join(compress(text(300), 64))
    for stop in range(len(MAGIC), len(file)):
        with pytest.raises(StoreError, match="damaged"):
            CompressedBlock(file[:stop], PATH)


def test_a_chunk_that_claims_to_be_huge_takes_no_memory():
    parts = compress(bytes(1000), 500)
    bomb = b"\xff\xff\xff\xff\x0f"  # the length before a Snappy block: 4 GiB
    parts[1] = bomb + parts[1][len(bomb) :]
    with pytest.raises(StoreError, match="chunk is damaged"):
        inflate_whole(b"".join(parts), PATH)


def test_what_does_not_come_back_is_not_compressed(monkeypatch):
    whole = text(1000)
    monkeypatch.setattr(snappy, "decompress", lambda block: b"something else")
    parts = compress(whole, 400)
    assert parts[1:-1] == [whole[:400], whole[400:800], whole[800:]]
    assert inflate_whole(b"".join(parts), PATH) == whole
