"""How far a store had come, and what is less than that."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import compaction, recovery
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/store/msgs")
SUBJECTS = (b"a", b"b")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


def open_store(disk):
    return FileStore(FOLDER, GroupCommit(disk), block_bytes=1000)


def publish(store, count, payload=b"x" * 60):
    subjects = [(SUBJECTS[i % 2], b"", b"", payload) for i in range(count)]
    store.append_run(PubRun.of(subjects), 0, count, 5)


def marks(disk):
    return [name for name in disk.names(FOLDER.parent) if name.startswith("high-water")]


@pytest.fixture
def closed(disk):
    """A store of three blocks that was closed."""
    store = open_store(disk)
    publish(store, 30)
    store.close()
    assert store._commit.drain() == []
    assert [n for n in disk.names(FOLDER) if n.endswith(".blk")] == ["1.blk", "2.blk", "3.blk"]
    return disk


@pytest.mark.parametrize("name", ["1.blk", "2.blk", "3.blk"])
def test_a_missing_block_is_damage(closed, name):
    closed.remove(FOLDER / name)
    store = open_store(closed)
    assert f"a block with messages is missing ({FOLDER / name}" in store.offline
    assert any("accept-loss" in note for note in store.notes)
    assert open_store(closed).offline == store.offline


@pytest.mark.parametrize("content", [b"", b"garbage" * 9])
def test_the_only_block_emptied_or_garbled(disk, content):
    store = open_store(disk)
    publish(store, 5)
    store.close()
    store._commit.drain()
    disk.put(FOLDER / "1.blk", content)
    assert f"({FOLDER}/1.blk at byte 0)" in open_store(disk).offline


def test_what_was_closed_has_no_torn_tail(closed):
    whole = closed.read(FOLDER / "3.blk")
    closed.damage(FOLDER / "3.blk", len(whole) - 3)
    assert "a stored record is damaged (/store/msgs/3.blk at byte" in open_store(closed).offline
    closed.put(FOLDER / "3.blk", whole)
    assert open_store(closed).offline == ""


def test_what_is_behind_the_mark_may_be_torn(closed):
    store = open_store(closed)
    (before,) = marks(closed)
    publish(store, 2)
    store._commit.drain()
    for name in marks(closed):  # the power went, and took with it what was not synced
        if name != before:
            closed.remove(FOLDER.with_name(name))
    closed.damage(FOLDER / "3.blk", closed.size(FOLDER / "3.blk") - 3)
    store = open_store(closed)
    assert store.offline == ""
    assert store.last_seq == 31
    assert ["unfinished bytes" in note for note in store.notes] == [True]


def test_at_rest_what_is_durable_is_noted(disk):
    store = open_store(disk)
    publish(store, 2)
    store._commit.drain()
    assert [store.rest(), store.rest()] == [False, True]
    store._commit.drain()
    disk.damage(FOLDER / "1.blk", disk.size(FOLDER / "1.blk") - 3)
    assert "a stored record is damaged" in open_store(disk).offline


def test_a_damaged_mark_is_written_anew(closed):
    name = marks(closed)[-1]
    for content in (b"", b"garbage" * 9):
        closed.put(FOLDER.with_name(name), content)
        store = open_store(closed)
        assert store.offline == ""
        assert store.notes == [
            "the high-water mark /store/high-water is damaged and will be written anew"
        ]
        assert store.last_seq == 30
    store.close()
    store._commit.drain()
    assert open_store(closed).notes == []


def test_every_cut_of_a_mark_says_nothing_false(disk):
    store = open_store(disk)
    for _ in range(6):
        publish(store, 12)
        store._commit.drain()
        store.delete(range(store.first_seq + 8, store.last_seq - 6, 2))
        store.purge(store.filter((b"a",)), store.last_seq - 20, 0)
        store._commit.drain()
    store.truncate_front(store.first_seq + 3)
    store.close()
    store._commit.drain()
    (name,) = marks(disk)
    whole = disk.read(FOLDER.with_name(name))
    for size in range(len(whole)):
        disk.put(FOLDER.with_name(name), whole[:size])
        assert open_store(disk).offline == ""


def test_a_store_from_before_the_mark_is_read(closed):
    for name in marks(closed):
        closed.remove(FOLDER.with_name(name))
    store = open_store(closed)
    assert (store.offline, store.notes, store.last_seq) == ("", [], 30)
    store.close()
    store._commit.drain()
    assert marks(closed)


@pytest.mark.parametrize("name", ["1.blk", "2.blk", "3.blk", "all"])
def test_whoever_accepts_the_loss_goes_on_behind_it(closed, name):
    for block in ("1.blk", "2.blk", "3.blk"):
        if name in (block, "all"):
            closed.put(FOLDER / block, b"")
    assert open_store(closed).offline
    closed.put(FOLDER / "accept-loss", b"")
    store = open_store(closed)
    assert store.offline == ""
    assert any("accepted the loss" in note for note in store.notes)
    assert store.last_seq == 30
    publish(store, 1)
    store.close()
    store._commit.drain()
    assert "accept-loss" not in closed.names(FOLDER)
    again = open_store(closed)
    assert (again.offline, again.last_seq) == ("", 31)
    assert again.load(31) is not None


def test_accepting_the_loss_cuts_a_damaged_block(closed):
    closed.damage(FOLDER / "2.blk", closed.size(FOLDER / "2.blk") // 2)
    closed.remove(FOLDER / "2.idx")
    assert "a stored record is damaged" in open_store(closed).offline
    closed.put(FOLDER / "accept-loss", b"")
    store = open_store(closed)
    assert store.offline == ""
    lost = store.deleted()
    assert 0 < len(lost) < 12
    assert all(store.load(n) is not None for n in range(1, 31) if n not in lost)


def test_no_sync_more_for_a_publish(disk):
    store = open_store(disk)
    publish(store, 1)
    store._commit.drain()
    before = disk.changes
    publish(store, 1)
    store._commit.drain()
    assert disk.changes - before == 3  # a write and a sync, and the note of it, not synced


@pytest.mark.parametrize("flushes", [1, 2, 5])
@pytest.mark.parametrize("damage", ["last byte", "cut", "emptied", "removed"])
def test_after_a_kill_the_last_flush_is_no_torn_tail(disk, flushes, damage):
    """It looked like one: its messages were gone, and their sequences were given again."""
    store = open_store(disk)
    for _ in range(flushes):
        publish(store, 2)
        store._commit.drain()
    path = FOLDER / "1.blk"
    whole = disk.read(path)
    if damage == "removed":
        disk.remove(path)
    else:
        left = {"last byte": whole[:-1] + b"?", "cut": whole[:-90], "emptied": b""}[damage]
        disk.put(path, left)
    assert f"({path} at byte" in open_store(disk).offline
    disk.put(FOLDER / "accept-loss", b"")
    assert open_store(disk).last_seq == 2 * flushes


def test_a_note_of_a_flush_is_there_before_anybody_is_told(disk):
    told = []

    class Told(FileStore):
        def flushed(self):
            super().flushed()
            told.append((self.last_seq, marks(disk)))

    store = Told(FOLDER, GroupCommit(disk), block_bytes=1000)
    publish(store, 1)
    store._commit.drain()
    assert told == [(1, ["high-water.1"])]


def test_what_a_power_cut_leaves_of_the_notes_is_true(sim_disk_module):
    kept = 0
    for seed in range(60):
        disk = sim_disk_module.SimDisk(Random(seed))
        store = open_store(disk)
        for _ in range(1 + seed % 7):
            publish(store, 1 + seed % 4)
            store._commit.drain()
            if seed % 3 == 0:
                store.rest()
                store.rest()
        last_seq = store.last_seq
        store._commit.drain()
        disk.restart()
        kept += bool(marks(disk))
        store = open_store(disk)
        assert (store.offline, store.last_seq) == ("", last_seq)
        publish(store, 1)
        store.close()
        store._commit.drain()
        assert len(marks(disk)) == 1
    assert 20 < kept < 60


def test_a_store_that_is_gone_notes_nothing_in_the_folder_of_the_next(disk):
    commit = GroupCommit(disk)
    old = FileStore(FOLDER, commit, block_bytes=1000)
    publish(old, 3)
    commit.drain()
    publish(old, 3)
    old.destroy()
    commit.remove_tree(old, FOLDER.parent)
    new = FileStore(FOLDER, commit, is_fresh=True, block_bytes=1000)
    publish(new, 1)
    commit.drain()
    assert open_store(disk).offline == ""
    assert open_store(disk).last_seq == 1


def test_a_sealed_block_that_is_rewritten_may_be_smaller_than_it_was_when_it_was_open(disk):
    store = open_store(disk)
    for _ in range(30):
        publish(store, 1)
        store._commit.drain()
    store.delete(range(8, 13))
    store._commit.drain()
    for name in disk.names(FOLDER):
        if name.endswith(".idx"):
            disk.remove(FOLDER / name)
    assert open_store(disk).offline == ""


@pytest.mark.parametrize("flushes", [0, 1])
@pytest.mark.parametrize("fail_in", range(1, 25))
def test_a_block_that_was_open_and_is_rewritten_soon_after_a_start_may_be_smaller(
    sim_disk_module, monkeypatch, fail_in, flushes
):
    """The mark went on saying how long it had been, until the flush was over (seed 100561 of the
    store's fuzzer)."""
    monkeypatch.setattr(recovery, "REOPEN_BYTES", 10)
    monkeypatch.setattr(compaction, "COMPACT_MIN_BYTES", 100)
    disk = sim_disk_module.SimDisk(Random(1))
    store = open_store(disk)
    publish(store, 17)
    store.close()
    store._commit.drain()
    before = len(disk.read(FOLDER / "2.blk"))
    store = open_store(disk)
    publish(store, 1)
    for _ in range(flushes):
        store._commit.drain()  # which notes another open block, for as long as there is power
    store.delete(range(12, 17))
    disk.fail_in = fail_in
    failed = store._commit.drain()
    disk.fail_in = None
    disk.restart()
    found = open_store(disk)
    assert (found.offline, found.last_seq >= 17) == ("", True)
    if not failed:
        assert 0 < len(disk.read(FOLDER / "2.blk")) < before


def test_on_a_full_disk_a_purge_goes_ahead_of_the_floor_and_takes_the_mark_along(disk):
    store = open_store(disk)
    publish(store, 60)
    store._commit.drain()
    disk.capacity = 0
    store.truncate_front(50)
    assert store._commit.drain() != []
    disk.restart()
    assert open_store(disk).offline == ""


def test_a_block_that_was_written_on_after_a_start_goes_with_the_mark_that_names_it(disk):
    """The mark went on naming it, and the store was offline for its absence."""
    store = open_store(disk)
    publish(store, 5)
    assert [store.rest(), store.rest()] == [False, True]
    store._commit.drain()
    store = open_store(disk)
    store.delete(range(1, 6))
    assert [store.rest(), store.rest()] == [False, True]
    store._commit.drain()
    disk.restart()
    assert "1.blk" not in disk.names(FOLDER)
    store = open_store(disk)
    assert (store.offline, store.last_seq) == ("", 5)
