"""Questions to a store of several blocks whose answers the model test does not pin down."""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import PREFIX_BYTES
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store import file as file_module
from jetstream_server.store.blocks import block_log
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore


@pytest.fixture
def store(sim_disk_module):
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    run = PubRun.of([(b"s.%d" % (i % 3), b"", b"", b"x" * 60) for i in range(30)])
    store.append_run(run, 0, 30, 5)
    commit.drain()
    return store


def test_a_window_ends_with_its_block(store):
    window = store.window(None, 1, 100, 1 << 20)
    assert list(window.sequences) == list(range(1, window.next_seq))
    assert window.next_seq < 30
    assert list(window.sizes) == [63] * len(window)


def test_a_window_gives_at_least_one_then_keeps_to_its_bounds(store):
    assert len(store.window(None, 1, 100, 1)) == 1
    assert len(store.window(None, 1, 100, 126)) == 2
    assert len(store.window(None, 1, 3, 1 << 20)) == 3
    assert len(store.window(None, 31, 100, 100)) == 0
    assert store.window(None, 31, 100, 100).next_seq == 31


def test_a_filter_sees_subjects_that_come_later(store):
    later = store.filter([b"later"])
    assert store.count(later, 0) == 0
    store.append(b"later", b"", b"x", 9)
    assert store.count(later, 0) == 1
    assert list(store.window(later, 31, 10, 100).sequences) == [31]


def test_many_patterns_are_looked_for_in_a_block_whose_subjects_were_forgotten(
    sim_disk_module, monkeypatch
):
    monkeypatch.setattr(block_log, "RENUMBER_MIN", 2)
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=2000)
    for number in range(30):
        store.append(b"s.%d" % number, b"", bytes(100), 5)
    gone = [sequence for sequence in range(2, 30) if sequence % 3]
    store.delete(gone)
    while not store._table.generation:
        store.append(b"s.0", b"", bytes(400), 5)
    commit.drain()
    wanted = store.filter([b"s.%d" % number for number in range(1, 20)])
    window = store.window(wanted, 1, 3, 10_000)
    assert list(window.sequences) == [3, 6, 9]


def test_a_window_stays_valid_while_the_store_goes_on(store):
    window = store.window(None, 28, 10, 1 << 20)
    before = bytes(window.buffer[window.positions[0] : window.positions[0] + 95])
    run = PubRun.of([(b"t", b"", b"", b"y" * 60)] * 100)
    store.append_run(run, 0, 100, 6)
    store.purge(None, 0, 0)
    assert bytes(window.buffer[window.positions[0] : window.positions[0] + 95]) == before


def test_what_is_located_lies_in_its_block(store):
    store.delete([4])
    buffers, positions = store.locate([30, 1, 4, 2, 31, 0, 29], 1 << 20)
    there = [buffer is not None for buffer in buffers]
    assert there == [True, True, False, True, False, False, True]
    assert buffers[1] is buffers[3]
    assert buffers[1] is not buffers[0]
    assert positions[3] - positions[1] == PREFIX_BYTES + 3 + 60
    assert store.locate([], 1 << 20) == ([], array("Q"))


@pytest.mark.parametrize("compression", ["none", "s2"])
def test_so_much_is_located_at_a_time(sim_disk_module, compression):
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    store.compression = compression
    run = PubRun.of([(b"s", b"", b"", b"x" * 67)] * 30)  # of 100 bytes each
    store.append_run(run, 0, 30, 5)
    commit.drain()
    for bytes_max, count in ((1, 1), (100, 1), (101, 2), (1500, 15), (1 << 20, 30)):
        buffers, positions = store.locate(range(1, 31), bytes_max)
        assert len(buffers) == len(positions) == count
        assert None not in buffers
    assert store.locate([31, 0, 1, 2], 1) == store.locate([31, 0, 1], 1 << 20)


def test_what_is_located_in_compressed_blocks_stays(sim_disk_module):
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    store.compression = "s2"
    run = PubRun.of([(b"s", b"", b"", b"%d" % (i % 10) * 60) for i in range(30)])
    store.append_run(run, 0, 30, 5)
    commit.drain()
    buffers, positions = store.locate(range(1, 31), 1 << 20)
    for number, (buffer, position) in enumerate(zip(buffers, positions, strict=True)):
        at = position + PREFIX_BYTES + 1
        assert bytes(buffer[at : at + 60]) == b"%d" % (number % 10) * 60


def test_an_offline_store_answers_nothing_but_its_state(store):
    store.failed(StoreError("the disk failed"))
    assert store.offline == "the disk failed"
    assert store.state().messages == 30
    for question in (lambda: store.load(1), lambda: store.window(None, 1, 1, 1)):
        with pytest.raises(StoreError, match="the disk failed"):
            question()


def test_blocks_without_headers_are_passed_over(sim_disk_module):
    disk = sim_disk_module.SimDisk(Random(7))
    commit = GroupCommit(disk)
    store = FileStore(Path("/s"), commit, block_bytes=600)
    run = PubRun.of([(b"orders.new", b"", b"", b"x" * 50)] * 40)
    store.append_run(run, 0, 40, 5)
    store.append(b"orders.new", b"NATS/1.0\r\nA: b\r\n\r\n", b"", 6)
    store.append_run(run, 0, 40, 5)
    for _ in range(2):
        found = store.next_with_headers(1)
        assert 1 < found <= 41, "the block that holds it, or the message itself"
        assert store.next_with_headers(30) >= 30
        assert store.next_with_headers(75) == 82
        store.close()
        commit.drain()
        commit = GroupCommit(disk)
        store = FileStore(Path("/s"), commit, block_bytes=600)
    store.delete([41])
    assert store.next_with_headers(1) <= 82


def test_subjects_are_forgotten_although_only_known_ones_are_written_to(
    sim_disk_module, monkeypatch
):
    monkeypatch.setattr(block_log, "PASSED_AT_ONCE", 10)
    monkeypatch.setattr(file_module, "_PASSED_AT_ONCE", 100)
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=20_000)
    for number in range(12_000):
        store.append(b"s.%d" % number, b"", b"", 5)
    store.delete(range(2, 12_001))
    blocks = 0
    while not store._table.generation:
        for _ in range(20):
            store.append(b"s.0", b"", bytes(1000), 5)
            commit.drain()
            store.flushed()
        blocks += 1
        assert blocks < 20
    assert len(store._table.names) < 10
