"""The open block: growing, sealing, marking, and what flushes do to it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import SEQUENCE_MAX
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import block_log, subjects, tombstone
from jetstream_server.store.blocks.block import BlockWriter, scan_block
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore
from jetstream_server.store.ports import Limits

FOLDER = Path("/s/msgs")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


def publish(store, count, payload=bytes(100)):
    run = PubRun.of([(b"s", b"", b"", payload)] * count)
    return store.append_run(run, 0, count, 5)


def test_every_block_begins_with_the_numbers_of_the_store(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1000)
    publish(store, 20)
    store.truncate_front(10)
    publish(store, 10)
    commit.drain()
    blocks = sorted(
        (n for n in disk.names(FOLDER) if n.endswith(".blk")), key=lambda n: int(n[:-4])
    )
    stones = [scan_block(disk.read(FOLDER / name), Interned()).tombstones[0][1] for name in blocks]
    assert {stone.kind for stone in stones} == {tombstone.STARTED}
    assert [stone.sequence for stone in stones] == sorted(stone.sequence for stone in stones)
    assert stones[-1].floor() == 10


def test_a_block_is_on_disk_before_the_next_has_a_byte(disk, sim_disk_module):
    for dark_in in range(30):
        disk.restart()
        disk.remove_tree(FOLDER.parent)
        commit = GroupCommit(disk)
        store = FileStore(FOLDER, commit, block_bytes=600)
        publish(store, 20)
        disk.dark_in = dark_in
        with pytest.raises(sim_disk_module.PowerLostError):
            commit.drain()
            raise sim_disk_module.PowerLostError
        disk.restart()
        store = FileStore(FOLDER, GroupCommit(disk))
        assert store.offline == ""
        assert [s for s in range(1, 21) if store.load(s)] == list(range(1, store.last_seq + 1))


def test_marks_follow_what_is_durable(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit)
    publish(store, 3000)
    publish(store, 1)
    commit.drain()
    written = disk.size(FOLDER / "1.blk")
    publish(store, 1)
    commit.drain()
    marks = [
        stone.sequence
        for _, stone in scan_block(disk.read(FOLDER / "1.blk"), Interned()).tombstones
        if stone.kind == tombstone.DURABLE
    ]
    assert marks == [written]


def test_what_is_appended_during_a_flush_goes_with_the_next(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=600)
    publish(store, 20)
    flush = commit.take(1)
    publish(store, 20)
    assert flush.run() == []
    commit.complete(flush)
    assert commit.has_fresh
    assert [bool(store.load(s)) for s in range(1, 41)] == [True] * 40
    disk.restart()
    assert FileStore(FOLDER, GroupCommit(disk)).last_seq == 20


def test_nothing_is_left_in_memory_of_sealed_blocks(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=600)
    publish(store, 50)
    assert all(block.pinned for block in store._list.blocks)
    commit.drain()
    assert [bool(block.pinned) for block in store._list.blocks[:-1]] == [False] * (
        len(store._list.blocks) - 1
    )
    assert store.load(1) is not None


def test_a_store_at_rest_holds_no_block_in_memory(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=4000)
    publish(store, 10)
    assert not store.rest(), "it was written to since the last call, of which there was none"
    publish(store, 1)
    assert not store.rest()
    assert store.rest()
    commit.drain()
    assert [block.pinned for block in store._list.blocks] == [None]
    assert not store.rest()
    publish(store, 3)
    assert [bool(store.load(s)) for s in range(1, 15)] == [True] * 14
    assert not store.rest()
    assert not store.rest(), "so little is not worth a block"
    commit.drain()
    assert FileStore(FOLDER, GroupCommit(disk)).last_seq == 14


def test_a_store_at_rest_seals_its_block_before_it_forgets_subjects(disk, monkeypatch):
    """Each takes long, so they are not done in one go."""
    monkeypatch.setattr(block_log, "RENUMBER_MIN", 2)
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1200)
    for number in range(20):
        store.append(b"s.%d" % number, b"", b"x", 5)
    store.enforce(Limits(max_msgs=3), 5)
    assert not store.rest()
    assert store.rest() and store._log._open is None
    assert len(store._table.names) == 20
    commit.drain()
    assert store.rest()
    assert store._table.names == [b"s.17", b"s.18", b"s.19"]
    while store.rest():  # the names that are let go
        pass
    commit.drain()
    assert [store.load(s).subject for s in (18, 19, 20)] == store._table.names
    assert store.append(b"s.0", b"", b"x", 6) == 21 and store.subject_count(b"s.0") == 1


def test_a_small_block_at_rest_keeps_no_more_room_than_it_needs(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1 << 20)
    publish(store, 2, bytes(1 << 20))  # one that fills a block fills another
    publish(store, 3)
    store.rest()
    flush = commit.take(0)
    assert len(store._log._open.buffer) == 1 << 20
    assert store.rest()
    assert len(store._log._open.buffer) == block_log.FIRST_ROOM_BYTES
    assert not store.rest()
    assert flush.run() == []
    commit.complete(flush)
    publish(store, 1000)
    commit.drain()
    assert [
        len(m.payload) for m in map(FileStore(FOLDER, GroupCommit(disk)).load, range(1, 6))
    ] == [
        1 << 20,
        1 << 20,
        100,
        100,
        100,
    ]
    assert FileStore(FOLDER, GroupCommit(disk)).last_seq == 1005


def test_a_store_that_cannot_write_does_not_rest(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    publish(store, 10)
    assert not store.rest()
    disk.capacity = 0
    commit.drain()
    assert commit.is_stalled
    assert not store.rest()
    disk.capacity = None
    commit.drain()
    assert store.rest()
    commit.drain()
    assert FileStore(FOLDER, GroupCommit(disk)).last_seq == 10


def test_sequences_that_are_skipped_are_used_up(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1000)
    publish(store, 3)
    assert store.skip(4, 9) == 4
    assert store.skip(0, 10) == 8
    assert (store.last_seq, store.state().last_ts) == (7, 9)
    assert publish(store, 1) == 8
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=1000)
    assert (again.last_seq, again.deleted()) == (8, [4, 5, 6, 7])


def test_nothing_is_stored_under_a_sequence_that_no_block_may_have(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit)
    store.skip(SEQUENCE_MAX - 2, 5)
    for store_one in (
        lambda: publish(store, 3),
        lambda: store.append(b"s", b"", b"x", 5, SEQUENCE_MAX + 1),
        lambda: store.skip(3, 5),
    ):
        with pytest.raises(StoreError, match=f"no sequence above {SEQUENCE_MAX}: .*/s/msgs"):
            store_one()
    assert (store.last_seq, store.offline) == (SEQUENCE_MAX - 2, "")
    assert publish(store, 1) == SEQUENCE_MAX - 1
    assert store.append(b"s", b"", b"x", 5, SEQUENCE_MAX) == SEQUENCE_MAX
    with pytest.raises(StoreError, match="no sequence above"):
        publish(store, 1)
    store.close()
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk))
    assert (again.offline, again.last_seq) == ("", SEQUENCE_MAX)
    assert again.load(SEQUENCE_MAX).payload == b"x"


def test_tombstones_that_fill_more_than_a_block_are_not_copied_with_each(disk, monkeypatch):
    """Acks of a work queue to which nobody publishes took 11 ms each, once there were 8 MiB."""
    moves, move = [], BlockWriter.move
    monkeypatch.setattr(
        BlockWriter, "move", lambda writer, room: (moves.append(room), move(writer, room))
    )
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    publish(store, 600, b"")
    commit.drain()
    moves.clear()
    for sequence in range(2, 600, 2):
        store.delete([sequence])
    assert commit.drain() == []
    assert len(moves) < 20, moves
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
    assert again.state() == store.state()
    assert again.deleted() == list(range(2, 600, 2))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_meanwhile_subjects_are_forgotten_in_slices(disk, monkeypatch, seed):
    random = Random(seed)
    monkeypatch.setattr(block_log, "RENUMBER_MIN", 2)
    monkeypatch.setattr(block_log, "PASSED_AT_ONCE", random.choice([1, 3, 20]))
    monkeypatch.setattr(subjects, "_PASSED_FOR_NEW", random.choice([2, 4]))
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=random.choice([600, 2000]))
    held: dict[int, bytes] = {}
    prepared = 0
    for number in range(400):
        match random.randrange(12):
            case 0:
                gone = random.sample(sorted(held), min(len(held), 10))
                store.delete(gone)
                held = {sequence: name for sequence, name in held.items() if sequence not in gone}
            case 1:
                first = max(store.last_seq - random.randrange(60), 1)
                store.truncate_front(first)
                held = {sequence: name for sequence, name in held.items() if sequence >= first}
            case 2:
                digit = random.randrange(10)
                store.purge(store.filter([b"s.*.%d" % digit]), 0, 0)
                held = {at: name for at, name in held.items() if not name.endswith(b"%d" % digit)}
            case 3:
                commit.drain()
                store.rest()
            case _:
                for _ in range(random.randrange(8)):
                    at = number if random.random() < 0.8 else random.randrange(number + 1)
                    name = b"s.%d.%d" % (at, random.randrange(10))
                    held[store.append(name, b"", b"x" * random.randrange(30), 5)] = name
        prepared += store._table.is_renumbering
        assert store.subject_counts(b">") == Counter(held.values())
        assert store._table.present == len(set(held.values()))
        for name in (*random.choices([*held.values(), b"s.0.0"], k=3), *store._table.names[:1]):
            sequences = [sequence for sequence, own in held.items() if own == name]
            assert store.subject_last(name) == (sequences[-1] if sequences else 0)
            found = store.load_next(store.filter([name]), 0)
            assert (found.sequence if found else 0) == (sequences[0] if sequences else 0)
            if sequences:
                assert [*store._subjects.sequences_of(store._table.ids[name])] == sequences
    assert store._table.generation > 1 and prepared
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk))
    assert again.subject_counts(b">") == Counter(held.values())


def test_what_is_erased_last_of_a_block_is_found_though_subjects_are_forgotten(
    sim_disk_module, monkeypatch
):
    """Its tombstone finds no room, so the block is sealed, left behind and renumbered with."""
    monkeypatch.setattr(block_log, "RENUMBER_MIN", 2)
    renumbered = []
    for size in range(300, 600, 8):
        disk = sim_disk_module.SimDisk(Random(1))
        commit = GroupCommit(disk)
        store = FileStore(FOLDER, commit, block_bytes=2000)
        store.append(b"kept", b"", bytes(1900), 5)
        for number in range(6):
            store.append(b"s.%d" % number, b"", bytes(200), 5)
        store.append(b"last", b"", bytes(size), 5)
        store.delete(range(2, 8))
        generation = store._table.generation
        assert store.delete([8], erase=True) == 1
        assert store.offline == ""
        renumbered.append(store._table.generation > generation)
        commit.drain()
        again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
        assert (again.last_seq, again.subject_counts(b">")) == (8, {b"kept": 1})
    assert True in renumbered
