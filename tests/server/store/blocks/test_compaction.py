"""Blocks that are done with: what becomes of their files, and of what their tombstones say."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.kernels import columns
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import RUBBISH_NS, GroupCommit
from jetstream_server.store.file import FileStore

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


def settle(commit: GroupCommit, now: int) -> None:
    found = commit.take(now)
    assert found is not None
    assert found.run() == []
    commit.complete(found)


def filled(disk, count: int = 400) -> tuple[GroupCommit, FileStore]:
    """Return a store of many small blocks, message `n` stored at time `n`."""
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    for number in range(1, count + 1):
        store.append(b"s.%d" % (number % 3), b"", b"x" * 40, number)
    assert commit.drain() == []
    assert len(disk.names(FOLDER)) > 20
    return commit, store


def test_mostly_dead_blocks_are_rewritten(disk):
    store, commit = open_store(disk, block_bytes=10_000)
    publish(store, 1000)
    commit.drain()
    before = sum(disk.size(FOLDER / name) for name in disk.names(FOLDER))
    store.delete([s for s in range(2, 1001) if s % 10])
    commit.drain()
    after = sum(disk.size(FOLDER / name) for name in disk.names(FOLDER))
    assert after < before / 2
    assert sequences(store) == [1, *range(10, 1001, 10)]
    store, _ = open_store(disk)
    assert sequences(store) == [1, *range(10, 1001, 10)]
    assert store.count(None, 500) == 51


def test_blocks_are_rewritten_one_after_another(disk):
    store, commit = open_store(disk, block_bytes=10_000)
    publish(store, 1000)
    commit.drain()
    store.delete([s for s in range(2, 1001) if s % 10])
    flushes, rewritten = 0, []
    while (flush := commit.take(flushes)) is not None:
        names = [op.path.name for op in flush.operations if type(op).__name__ == "Replace"]
        rewritten.append(sum(name.endswith(".blk") for name in names))
        assert flush.run() == []
        commit.complete(flush)
        flushes += 1
    assert max(rewritten) == 1
    assert sum(rewritten) > 5
    assert sequences(store) == sequences(open_store(disk)[0]) == [1, *range(10, 1001, 10)]


def test_files_of_a_purge_go_one_block_after_the_other(disk):
    commit, store = filled(disk)
    files = len(disk.names(FOLDER))
    store.append(b"s.new", b"", b"", 500)
    commit.drain()
    assert store.purge(None, 0, 0).messages == 401
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
        store._log.rotate()
        for number in range(2, 32):
            store.append(b"a" if number < 5 else b"b", b"", b"x" * 600, number)
        assert not store.rest() and store.rest()
        commit.drain()
        disk.dark_in = dark_in
        is_done = True
        try:
            assert store.purge(store.filter([b"b"]), 0, 0).messages == 27
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
        assert store.purge_some(None, 2, 3, 1)[1].messages == 1
    else:
        assert store.delete([2]) == 1
    for turn in range(1, 4):  # the block that says so is sealed, and all in it goes
        first = store.last_seq + 1
        for _ in range(60):
            store.append(b"s.9", b"", b"x" * 40, 500)
        store.delete(range(first - 60, store.last_seq - 25))
        while (flush := commit.take(turn)) is not None:
            assert flush.run() == []
            commit.complete(flush)
        again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
        assert (again.load(1) is not None, again.load(2)) == (True, None)
        assert again.state() == store.state()
        if is_reopened:
            commit = GroupCommit(disk)
            store = FileStore(FOLDER, commit, block_bytes=2000)


def test_a_purge_goes_on_when_the_rewritten_block_is_on_the_disk(disk):
    store, commit = open_store(disk, block_bytes=10_000)
    publish(store, 1000)
    commit.drain()
    store.delete([s for s in range(150, 250) if s % 10])
    start, purged = store.purge_some(None, 300, 400, 10)
    assert (start, purged.messages, list(purged.gone.sequences)) == (300, 0, []), (
        "the disk is behind"
    )
    commit.drain()
    assert store.purge_some(None, 300, 400, 10)[1].messages == 10


@pytest.mark.parametrize("size", range(1000, 1600, 50))
def test_an_open_block_that_is_empty_may_be_filled_with_what_others_leave_to_say(disk, size):
    store, commit = open_store(disk, block_bytes=2000)
    publish(store, 20, payload=bytes(40))
    while len(store._list.blocks) < 2:
        first = publish(store, 1, payload=bytes(300))
    store.delete(range(2, 20, 2))  # of the first block, as the second says
    while len(store._list.blocks) < 3:
        publish(store, 1, payload=bytes(300))
    publish(store, 1, payload=bytes(size))
    store.delete(range(first, store.last_seq + 1))
    held = [1, *range(3, 20, 2), *range(20, first)]
    assert sequences(store) == held
    commit.drain()
    again, _ = open_store(disk, block_bytes=2000)
    assert (sequences(again), again.last_seq) == (held, store.last_seq)


def test_what_deletes_left_empty_goes_with_the_next_flush(disk):
    """It is not below a floor: all that keeps its messages away are tombstones."""
    commit, store = filled(disk)
    gone = store._list.blocks[3:5]
    assert store.delete(range(gone[0].first_seq, gone[1].last_seq + 1)) > 40
    settle(commit, 1000)
    names = {name for block in gone for name in (f"{block.number}.blk", f"{block.number}.idx")}
    assert names.isdisjoint(disk.names(FOLDER))


def test_a_block_that_goes_beforehand_keeps_no_other_from_going(disk):
    """The tombstone found no room in the open block, in which nothing was left."""
    commit, store = filled(disk)
    open_block, writer = store._list.blocks[-1], store._log._open
    while writer.used < 1000:
        store.append(b"s.0", b"", b"x" * 40, 500)
    store.append(b"s.0", b"", b"x" * (1990 - writer.used - 32 - len(b"s.0")), 500)
    assert (writer.used, store._list.blocks[-1]) == (1990, open_block)
    block = store._list.blocks[3]
    wanted = [*range(open_block.first_seq, open_block.last_seq + 1)]
    store.delete([*wanted, *range(block.first_seq, block.last_seq + 1)])
    assert (open_block.is_gone, block.is_gone) == (True, True)
    assert commit.drain() == []
    assert FileStore(FOLDER, GroupCommit(disk), block_bytes=2000).state() == store.state()


def test_a_block_without_its_dead_needs_no_tombstones(disk):
    store, commit = open_store(disk, block_bytes=10_000)
    publish(store, 1000)
    commit.drain()
    block = store._list.blocks[2]
    first = block.first_seq
    store.delete([first])
    assert (block.version, len(block.noted)) == (0, 1)
    store.delete(range(first + 1, block.last_seq - 5))
    assert (block.version, block.noted) == (1, set())


@pytest.mark.parametrize("act", ["nothing", "numbered", "numbering", "renumbering", "disk"])
def test_a_rewritten_block_looks_up_no_subjects_until_somebody_asks(disk, monkeypatch, act):
    """A block may have two hundred thousand, and the look-ups took 40 ms of the same turn."""
    store, commit = open_store(disk, block_bytes=10_000)
    for number in range(400):
        store.append(b"s.%d" % number, b"", b"x" * 50, 5)
    store.close()
    commit.drain()
    store, commit = open_store(disk, block_bytes=10_000)
    block = store._list.blocks[1]
    if act == "numbered":
        store._contents.of(block).number(1000)
    asked = []
    number_names = columns.number_names

    def counted(names, lengths, ids):
        asked.append(len(lengths))
        return number_names(names, lengths, ids)

    monkeypatch.setattr(columns, "number_names", counted)
    version, first, stop = block.version, block.first_seq, block.last_seq + 1
    kept = [sequence for sequence in range(first, stop) if sequence % 4 == 0]
    assert store.delete([sequence for sequence in range(first, stop) if sequence % 4])
    assert block.version == version + 1
    assert block.pinned is not None
    assert block.pinned.is_numbered == (act == "numbered")
    assert asked == []
    if act == "numbering":
        assert not block.pinned.number(3)
    elif act == "renumbering":
        block.pinned.number(3)
        store._table.prepare_to_renumber(1000)
        store._log._renumber()
    elif act == "disk":
        commit.drain()
        assert block.pinned is None
    assert [sequence for sequence in range(first, stop) if store.load(sequence)] == kept
    for sequence in kept:
        subject = b"s.%d" % (sequence - 1)
        assert store.subject_counts(subject) == {subject: 1}
        assert store.load_last(store.filter([subject])).sequence == sequence
        assert store.count(store.filter([subject, b"none.*"]), sequence, sequence + 1) == 1
    wild = store.filter([b"*.*"])
    assert store.count(wild, first, stop) == len(kept)
    assert list(store.last_sequences(wild))[: first - 1] == [*range(1, first)]
    assert store.purge(store.filter([b"s.%d" % (kept[-1] - 1)]), 0, 0).messages == 1
    assert store.subject_counts(b"s.%d" % (kept[-1] - 1)) == {}
    commit.drain()
    state = store.state()
    store, commit = open_store(disk)
    assert store.state() == state
    assert [sequence for sequence in range(first, stop) if store.load(sequence)] == kept[:-1]
