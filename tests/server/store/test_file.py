"""FileStore: what happens to a folder, in good times and bad. Answers are compared in the model."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.file import FileStore
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
    disk.remove(FOLDER.with_name("high-water.1"))  # of which the power left nothing
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
    assert (commit.has_fresh, commit.is_stalled) == (False, False)


def test_read_only_disk_takes_the_store_offline(disk):
    store, commit = open_store(disk)
    disk.is_read_only = True
    publish(store, 1)
    commit.drain()
    assert "Read-only file system" in store.offline


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


def test_what_was_removed_answers_nothing_and_its_names_are_let_go(disk):
    """Whoever still asks it, in the middle of something, is told that it is removed, or of
    nothing."""
    store, commit = open_store(disk, block_bytes=2000)
    names = [b"s.%d.%d" % (number % 3, number) for number in range(300)]
    for name in names:
        publish(store, 1, name)
    store.delete(range(1, 40))
    assert not commit.drain()
    filters = [store.filter(patterns) for patterns in ([b"s.1.*"], [b"s.*.7"], [b"s.2.200"])]
    left: list[Any] = []
    store.leave_to(left.append)
    store.destroy()
    assert sorted(left[0]) == sorted(names), "all of them, for somebody who has time"
    assert sum(map(len, left[1])) == len(names)
    for wanted in filters:
        asked = {
            "load_last": (wanted,),
            "load_next": (wanted, 1),
            "count": (wanted, 1),
            "prepare_count": (wanted, 1, 100),
            "last_sequences": (wanted,),
            "window": (wanted, 50, 10, 10_000),
            "decide": (wanted, 10),
            "purge": (wanted, 0, 0),
            "purge_some": (wanted, 1, 300, 10),
        }
        for question, given in asked.items():
            try:
                answer = getattr(store, question)(*given)
            except StoreError as error:
                assert "removed" in str(error)
            else:
                assert not answer or answer is True
    assert store.subject_counts(b"s.>") == {} and store.subject_last(b"s.1.1") == 0
    assert store.subject_count(b"s.1.1") == 0 and [*store.subject_lasts([b"s.1.1"])] == [0]
    assert store.filter([b"new.*"]) is not None
    assert not commit.drain()
    assert not store.rest()
