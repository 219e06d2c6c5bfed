"""Opening a store: it goes on from what is there."""

from __future__ import annotations

import errno
from array import array
from pathlib import Path
from random import Random

import pytest
from jetstream_server.kernels import records
from jetstream_server.kernels.interned import Interned
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import tombstone
from jetstream_server.store.blocks.block import scan_block
from jetstream_server.store.disk.commit import GroupCommit
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


def test_a_sequence_too_far_from_the_first_of_its_block_is_damage(disk):
    """No store writes that; whoever changed the file has set the checksum right."""
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 30)
    commit.drain()
    path = FOLDER / "1.blk"
    columns, whole = (array("I"), array("I")), bytearray(disk.read(path))
    run = PubRun.single(b"orders.new", payload=b"x" * 50)
    at = scan_block(bytes(whole), Interned()).positions[-1]
    records.encode_run(run.chunk, run.fields, 0, 1, 2**33, 5, whole, at, *columns, Interned())
    disk.put(path, bytes(whole))
    disk.remove(path.with_suffix(".idx"))
    store, _ = open_store(disk, block_bytes=1000)
    assert store.offline == f"a stored record is damaged ({path} at byte {at})"


def test_a_block_in_the_place_of_a_later_one_is_damage(disk):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 30)
    commit.drain()
    path = FOLDER / "2.blk"
    disk.put(path, disk.read(FOLDER / "1.blk"))
    disk.remove(path.with_suffix(".idx"))
    store, _ = open_store(disk, block_bytes=1000)
    assert store.offline == (
        f"a block begins with message 1, and one before it ends with 10 ({path} at byte 0)"
    )


LAST = 2**64 - 2**32


@pytest.mark.parametrize(
    ("stone", "message", "is_damage"),
    [
        (tombstone.started(LAST - 1, 5, 0), LAST, False),
        (tombstone.started(LAST, 5, 0), LAST + 1, True),
        (tombstone.started(2**64 - 1, 5, 0), None, True),
        (tombstone.started(2, 5, LAST + 1), None, False),
        (tombstone.started(2, 5, LAST + 2), None, True),
        (tombstone.Tombstone(tombstone.FLOOR, LAST + 1), None, False),
        (tombstone.Tombstone(tombstone.FLOOR, 2**64 - 1), None, True),
        (tombstone.Tombstone(tombstone.SKIPPED, LAST, 5), None, False),
        (tombstone.Tombstone(tombstone.SKIPPED, 2**64 - 1, 5), None, True),
    ],
)
def test_a_sequence_beyond_all_is_damage(disk, stone, message, is_damage):
    """No store writes that: a crafted file, of which counting on does not fit 64 bits."""
    whole = bytearray(b"" if stone.kind == tombstone.STARTED else _begun(0))
    at = len(whole)
    whole += stone.encode()
    if message is not None:
        at = len(whole)
        run, record = PubRun.single(b"a", payload=b"x"), bytearray(100)
        columns = array("I"), array("I")
        _, size = records.encode_run(
            run.chunk, run.fields, 0, 1, message, 5, record, 0, *columns, Interned()
        )
        whole += record[:size]
    whole += tombstone.Tombstone(
        tombstone.DURABLE, len(whole), 0, tombstone.DURABLE_PAYLOAD
    ).encode()
    path = FOLDER / "1.blk"
    disk.make_folder(FOLDER)
    disk.put(path, bytes(whole))
    store, _ = open_store(disk, block_bytes=1000)
    expected = f"a stored record is damaged ({path} at byte {at})" if is_damage else ""
    assert store.offline == expected


def _begun(last: int) -> bytes:
    return tombstone.started(last, 5, 0).encode()


def test_leftovers_of_a_crash_are_removed(disk):
    store, commit = open_store(disk)
    publish(store, 3)
    commit.drain()
    disk.put(FOLDER / "1.idx.tmp", b"half")
    disk.put(FOLDER / "9.idx", b"orphan")
    store, _ = open_store(disk)
    assert sequences(store) == [1, 2, 3]
    assert disk.names(FOLDER) == ["1.blk"]


def test_orderly_close_spares_the_scan(disk, monkeypatch):
    store, commit = open_store(disk, block_bytes=3_000_000)
    publish(store, 2000, payload=bytes(1000))
    store.close()
    commit.drain()
    monkeypatch.setattr("jetstream_server.store.blocks.recovery.scan_block", None)
    store, _ = open_store(disk)
    assert store.state().messages == 2000
    assert publish(store, 1) == 2001


def test_numbers_outlive_every_message(disk):
    store, commit = open_store(disk, block_bytes=1000)
    publish(store, 100)
    assert store.purge(None, 0, 0).messages == 100
    commit.drain()
    store, _ = open_store(disk)
    state = store.state()
    assert (state.messages, state.first_seq, state.last_seq, state.last_ts) == (0, 101, 100, 5)
    assert publish(store, 1) == 101


@pytest.mark.parametrize("is_indexed", [True, False])
def test_what_is_deleted_stays_so_when_a_block_found_with_tombstones_is_rewritten(disk, is_indexed):
    store, commit = open_store(disk, block_bytes=4000)
    publish(store, 44)
    store.delete([5, 6])
    publish(store, 100)
    commit.drain()
    if not is_indexed:
        disk.remove(FOLDER / "2.idx")
    store, commit = open_store(disk, block_bytes=4000)
    commit.drain()
    second = [s for s in range(1, 200) if store._list.at(s) is store._list.blocks[1]]
    assert store._list.blocks[0].noted == {2}
    assert store.delete(second[3:-3]) > 20
    commit.drain()
    assert store._list.blocks[1].count == 6, "it was rewritten"
    expected = sequences(store)
    assert sequences(open_store(disk, block_bytes=4000)[0]) == expected
    assert 5 not in expected


@pytest.mark.parametrize("is_indexed", [True, False])
def test_subjects_are_found_again_where_sequences_have_gaps(disk, is_indexed):
    store, commit = open_store(disk)
    for number in range(1, 8):
        store.append(b"s.%d" % (number % 3), b"", b"", 5, number * 10)
    if is_indexed:
        store.close()
    commit.drain()
    store, _ = open_store(disk)
    assert [store.subject_last(b"s.%d" % number) for number in range(3)] == [60, 70, 50]
    assert sequences(store) == [10, 20, 30, 40, 50, 60, 70]
    table = store._table
    assert [table.firsts[table.ids[b"s.%d" % number]] for number in range(3)] == [30, 10, 20]
    assert [table.lasts[table.ids[b"s.%d" % number]] for number in range(3)] == [60, 70, 50]


def test_a_torn_tail_that_a_full_disk_kept_goes_as_soon_as_there_is_room(disk):
    store, commit = open_store(disk)
    publish(store, 3)
    commit.drain()
    path = FOLDER / "1.blk"
    whole = disk.read(path)
    disk.put(path, whole + b"bytes that no flush completed")
    disk.fail_in, disk.fail_errno = 0, errno.ENOSPC
    store, commit = open_store(disk)
    assert (store.offline, disk.fail_in) == ("", None)
    assert disk.read(path) != whole
    assert commit.drain() == []
    assert disk.read(path) == whole
    publish(store, 1)
    commit.drain()
    store, _ = open_store(disk)
    assert (store.notes, sequences(store)) == ([], [1, 2, 3, 4])


def test_an_erasure_that_a_full_disk_put_off_is_done_as_soon_as_there_is_room(disk):
    store, commit = open_store(disk)
    publish(store, 3)
    commit.drain()
    path = FOLDER / "1.blk"
    whole = disk.read(path)
    disk.put(path.with_suffix(".redo"), whole)
    disk.put(path, b"what is to be erased" * 10)
    overwritten, overwrite = [], disk.overwrite

    def spy(path: Path, offset: int, head: bytes, stop: int) -> None:
        overwrite(path, offset, head, stop)
        overwritten.append(disk.read(path))

    disk.overwrite = spy
    disk.fail_in, disk.fail_errno = 0, errno.ENOSPC
    store, commit = open_store(disk)
    assert (store.offline, overwritten, sequences(store)) == ("", [], [1, 2, 3])
    assert commit.drain() == []
    assert [bytes(len(each)) for each in overwritten] == overwritten != []
    assert (disk.names(FOLDER), disk.read(path)) == (["1.blk"], whole)
    publish(store, 1)
    commit.drain()
    assert sequences(open_store(disk)[0]) == [1, 2, 3, 4]


def test_blocks_are_numbered_behind_those_whose_loss_was_accepted(disk):
    """A mark that says what became of them would be taken to be about other messages."""
    store, commit = open_store(disk, block_bytes=100_000)
    publish(store, 12, payload=bytes(20_000))
    store.close()
    commit.drain()
    for name in ("2.blk", "2.idx", "3.blk", "3.idx"):
        disk.remove(FOLDER / name)
    disk.put(FOLDER / "accept-loss", b"")
    store, commit = open_store(disk, block_bytes=100_000)
    assert (store.offline, store.last_seq) == ("", 12)
    publish(store, 12, payload=bytes(20_000))
    commit.drain()
    blocks = [name for name in disk.names(FOLDER) if name.endswith(".blk")]
    assert blocks == ["1.blk", "4.blk", "5.blk", "6.blk"]
