"""FileStore: what happens to a folder, in good times and bad. Answers are compared in the model."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store import file, memory
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.disk import OsDisk
from jetstream_server.store.file import FileStore
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Limits

FOLDER = Path("/store/msgs")
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


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


def test_accounts_bytes_as_the_genuine_server(disk):
    store, _ = open_store(disk)
    store.append(b"ab", b"", b"12345", 1)
    assert store.state().bytes == 30 + 2 + 5
    store.append(b"ab", HEADERS, b"12345", 1)
    assert store.state().bytes == 2 * (30 + 2 + 5) + 4 + len(HEADERS)


def test_a_message_comes_back_as_it_went(disk):
    store, commit = open_store(disk)
    store.append(b"ab", HEADERS, b"\r\n\0payload", 77)
    commit.drain()
    store, _ = open_store(disk)
    message = store.load(1)
    assert message is not None
    assert (message.subject, message.headers) == (b"ab", HEADERS)
    assert (message.payload, message.timestamp) == (b"\r\n\0payload", 77)


def test_first_sequence_of_a_fresh_store(disk):
    store, commit = open_store(disk, first_seq=100)
    assert (store.state().first_seq, store.state().last_seq) == (100, 99)
    assert publish(store, 1) == 100
    commit.drain()
    assert open_store(disk)[0].first_seq == 100


def test_numbers_outlive_every_message(disk):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 100)
    assert store.purge(None, 0, 0) == 100
    commit.drain()
    store, _ = open_store(disk)
    state = store.state()
    assert (state.messages, state.first_seq, state.last_seq, state.last_ts) == (0, 101, 100, 5)
    assert publish(store, 1) == 101


def test_purge_gives_the_space_back(disk):
    store, commit = open_store(disk, block_bytes=100_000)
    publish(store, 5000)
    commit.drain()
    store.purge(None, 0, 0)
    commit.drain()
    assert sum(disk.size(FOLDER / name) for name in disk.names(FOLDER)) < 65536


def test_a_single_larger_record_gets_its_own_block(disk):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 3)
    publish(store, 1, payload=bytes(50_000))
    publish(store, 3)
    commit.drain()
    store, _ = open_store(disk)
    assert sequences(store) == [1, 2, 3, 4, 5, 6, 7]
    assert len(store.load(4).payload) == 50_000


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
        commit.settle(flush)
        flushes += 1
    assert max(rewritten) == 1
    assert sum(rewritten) > 5
    assert sequences(store) == sequences(open_store(disk)[0]) == [1, *range(10, 1001, 10)]


@pytest.mark.parametrize("limits", [{"max_msgs": 20}, {"max_bytes": 1000}])
def test_a_limit_that_is_lowered_takes_several_turns(disk, limits):
    store, _ = open_store(disk, block_bytes=1000)
    publish(store, 1000)
    limits, counts = Limits(**limits), [1000]
    while store.exceeds(limits) and len(counts) < 50:
        (removed,) = store.enforce(limits, 0)
        assert removed[1] - removed[0] == counts[-1] - store.state().messages
        counts.append(store.state().messages)
    assert len(counts) > 5
    assert not store.exceeds(limits)
    assert 0 < counts[-1] <= 20
    assert sequences(store) == list(range(1001 - counts[-1], 1001))
    publish(store, 5)
    store.enforce(limits, 0)
    assert not store.exceeds(limits)


def test_a_limit_for_each_subject_takes_several_turns(disk, monkeypatch):
    monkeypatch.setattr(file, "DELETED_AT_ONCE", 7)
    store, commit = open_store(disk, block_bytes=10_000)
    twin = MemoryStore(0)
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 7)
    for number in range(100):
        for each in (store, twin):
            each.append(b"s.%d" % (number % 4), b"", b"x", number)
    limits = Limits(max_msgs_per_subject=3)
    for each in (store, twin):
        turns, gone = 0, set()
        while turns == 0 or each.exceeds(limits):
            if turns == 2:  # what has enough already goes on being trimmed at once
                each.append(b"s.0", b"", b"x", 100)
                each.append(b"new", b"", b"x", 100)
            removed = [sequence for sequence, _ in each.enforce(limits, 0)]
            assert len(removed) <= 8
            gone.update(removed)
            turns += 1
            commit.drain()
        assert turns > 10
        assert len(gone) == 89
        assert each.subject_counts(b">") == {b"new": 1} | {b"s.%d" % n: 3 for n in range(4)}
        assert each.subject_last(b"s.0") == 101
    assert not store.exceeds(Limits())
    assert sequences(store) == sequences(twin) == [*range(90, 103)]


def test_torn_tail_is_cut_and_reported(disk):
    store, commit = open_store(disk)
    publish(store, 3)
    commit.drain()
    path = FOLDER / "1.blk"
    whole = disk.read(path)
    disk.put(path, whole + whole[40:90])
    store, commit = open_store(disk)
    assert store.offline == ""
    assert sequences(store) == [1, 2, 3]
    assert store.notes == [f"cut 50 unfinished bytes off /store/msgs/1.blk at byte {len(whole)}"]
    publish(store, 1)
    commit.drain()
    assert sequences(open_store(disk)[0]) == [1, 2, 3, 4]


def test_every_torn_length_is_recovered(disk):
    store, commit = open_store(disk)
    publish(store, 3)
    commit.drain()
    whole = disk.read(FOLDER / "1.blk")
    for length in range(len(whole)):
        disk.put(FOLDER / "1.blk", whole[:length])
        store, _ = open_store(disk)
        assert store.offline == ""
        expected = max((length - 40) // (32 + 10 + 50), 0)
        assert store.state().messages == expected


def test_damage_in_a_sealed_block_takes_the_store_offline(disk):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 50)
    commit.drain()
    disk.damage(FOLDER / "2.blk", 200)
    store, _ = open_store(disk)
    with pytest.raises(StoreError, match=r"damaged \(/store/msgs/2.blk at byte 132\)"):
        store.load(store.first_seq + 12)
    assert "2.blk at byte 132" in store.offline
    with pytest.raises(StoreError, match="damaged"):
        publish(store, 1)


def test_damage_in_a_sealed_block_without_index_is_found_on_opening(disk):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 50)
    commit.drain()
    disk.damage(FOLDER / "2.blk", 200)
    disk.remove(FOLDER / "2.idx")
    store, _ = open_store(disk)
    assert "2.blk at byte 132" in store.offline


def test_damage_below_a_durable_mark_is_no_torn_tail(disk):
    store, commit = open_store(disk)
    for _ in range(12):
        publish(store, 300, payload=bytes(100))
        commit.drain()
    disk.damage(FOLDER / "1.blk", 5000)
    store, _ = open_store(disk)
    assert "damaged (/store/msgs/1.blk at byte" in store.offline


@pytest.mark.parametrize("damage", ["missing", "short", "flipped"])
def test_a_block_without_valid_index_is_read_instead(disk, damage):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 50)
    store.delete([7, 8, 30])
    commit.drain()
    path = FOLDER / "2.idx"
    if damage == "missing":
        disk.remove(path)
    elif damage == "short":
        disk.put(path, disk.read(path)[:-5])
    else:
        disk.damage(path, 30)
    store, commit = open_store(disk, block_bytes=1000)
    assert store.offline == ""
    assert sequences(store) == [s for s in range(1, 51) if s not in (7, 8, 30)]
    commit.drain()
    assert len(disk.read(path)) > 100


def test_leftovers_of_a_crash_are_removed(disk):
    store, commit = open_store(disk)
    publish(store, 3)
    commit.drain()
    disk.put(FOLDER / "1.idx.tmp", b"half")
    disk.put(FOLDER / "9.idx", b"orphan")
    store, _ = open_store(disk)
    assert sequences(store) == [1, 2, 3]
    assert disk.names(FOLDER) == ["1.blk"]


def test_full_disk_refuses_and_recovers(disk):
    store, commit = open_store(disk)
    publish(store, 10)
    commit.drain()
    disk.capacity = 1500
    publish(store, 50)
    assert commit.drain() != []
    with pytest.raises(StoreError, match=r"the disk is full: No space left on device \(.*1.blk\)"):
        publish(store, 1)
    assert store.offline == ""
    assert commit.is_stalled
    disk.capacity = None
    assert commit.drain() == []
    assert publish(store, 1) == 61
    commit.drain()
    disk.restart()
    assert sequences(open_store(disk)[0]) == list(range(1, 62))


def test_purging_a_full_disk_makes_room(disk):
    store, commit = open_store(disk, block_bytes=2000)
    publish(store, 100)
    commit.drain()
    disk.capacity = sum(disk.size(FOLDER / name) for name in disk.names(FOLDER))
    publish(store, 20)
    assert commit.drain() != []
    store.purge(None, 0, 0)
    commit.drain()
    assert commit.drain() == []
    assert publish(store, 1) == 121
    assert commit.drain() == []


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_rollup", [False, True])
def test_what_gives_way_stays_on_a_full_disk_until_what_came_is_durable(disk, is_rollup, is_killed):
    """A crash took both: the oldest acknowledged messages, and the newest, of which nobody knew."""
    store, commit = open_store(disk, block_bytes=2000)
    publish(store, 100)
    commit.drain()
    disk.capacity = sum(disk.size(FOLDER / name) for name in disk.names(FOLDER))
    publish(store, 60)
    if is_rollup:
        store.purge(None, 160, 0, gives_way=True)
    else:
        store.enforce(Limits(max_msgs=100), 5)
    for _ in range(9):
        assert commit.drain() != []
    if is_killed:
        disk.restart()
        found = sequences(open_store(disk)[0])
        assert found[:100] == list(range(1, 101))
        return
    disk.capacity = None
    assert commit.drain() == []
    commit.drain()
    disk.restart()
    left = sequences(open_store(disk)[0])
    assert left == ([160] if is_rollup else list(range(61, 161)))
    assert len(disk.names(FOLDER)) < 20


def test_failed_sync_takes_the_store_offline_for_good(disk):
    store, commit = open_store(disk)
    publish(store, 1)
    commit.drain()
    publish(store, 1)
    disk.fail_in, disk.fail_errno = 1, errno.EIO
    failures = commit.drain()
    assert [str(error) for _, error in failures] == [
        "sync failed: Input/output error (/store/msgs/1.blk)"
    ]
    assert store.offline == "sync failed: Input/output error (/store/msgs/1.blk)"
    with pytest.raises(StoreError, match="sync failed"):
        publish(store, 1)
    assert not commit.is_dirty


def test_read_only_disk_takes_the_store_offline(disk):
    store, commit = open_store(disk)
    disk.is_read_only = True
    publish(store, 1)
    commit.drain()
    assert "Read-only file system" in store.offline


def test_orderly_close_spares_the_scan(disk, monkeypatch):
    store, commit = open_store(disk, block_bytes=3_000_000)
    publish(store, 2000, payload=bytes(1000))
    store.close()
    commit.drain()
    monkeypatch.setattr("jetstream_server.store.recovery.scan_block", None)
    store, _ = open_store(disk)
    assert store.state().messages == 2000
    assert publish(store, 1) == 2001


def test_forgets_subjects_that_have_no_message(disk):
    store, commit = open_store(disk, block_bytes=20_000)
    wanted = store.filter([b"s.*"])
    for base in range(0, 12_000, 500):
        run = PubRun.of([(b"s.%d" % (base + i), b"", b"", b"") for i in range(500)])
        store.append_run(run, 0, 500, base)
        store.enforce(Limits(max_msgs=600), base)
        commit.drain()
        assert store.count(wanted, 0) == store.state().messages
        assert store.subject_last(b"s.%d" % (base + 499)) == base + 500
    assert len(store._table.names) < 6000
    assert store.state().num_subjects == 600


def test_on_a_real_disk(tmp_path):
    commit = GroupCommit(OsDisk())
    store = FileStore(tmp_path / "msgs", commit, block_bytes=5000)
    publish(store, 500)
    store.delete(range(100, 200))
    assert commit.drain() == []
    assert store.count(None, 150) == 301
    store = FileStore(tmp_path / "msgs", GroupCommit(OsDisk()))
    assert sequences(store) == [*range(1, 100), *range(200, 501)]
    assert len(store.window(None, 450, 10, 1 << 20)) == 10


def test_blocks_without_headers_are_passed_over(disk):
    store, commit = open_store(disk, block_bytes=600)
    publish(store, 40)
    store.append(b"orders.new", HEADERS, b"", 6)
    publish(store, 40)
    for _ in range(2):
        found = store.next_with_headers(1)
        assert 1 < found <= 41, "the block that holds it, or the message itself"
        assert store.next_with_headers(30) >= 30
        assert store.next_with_headers(75) == 82
        store.close()
        commit.drain()
        store, commit = open_store(disk, block_bytes=600)
    store.delete([41])
    assert store.next_with_headers(1) <= 82


def test_limits_reached_in_slices_spare_what_they_would_have_spared_at_once(disk, monkeypatch):
    monkeypatch.setattr(file, "DELETED_AT_ONCE", 2)
    store, commit = open_store(disk)
    publish(store, 1, b"kept")
    publish(store, 8, b"overfull")
    limits = Limits(max_msgs=5, max_msgs_per_subject=1)
    calls = 0
    while store.enforce(limits, 5) or store.exceeds(limits):
        commit.drain()
        calls += 1
    assert calls > 3
    assert sequences(store) == [1, 9]
