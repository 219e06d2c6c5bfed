"""Erased messages: gone from the disk, and no tear on the way takes anything else along."""

from __future__ import annotations

import contextlib
from array import array
from pathlib import Path
from random import Random

import pytest
from jetstream_server.kernels import columns, records
from jetstream_server.kernels.interned import Interned
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import erasure
from jetstream_server.store.blocks.block import scan_block
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/store/msgs")
SECRET = b"the secret payload"
HEADERS = b"NATS/1.0\r\nPassword: in the headers\r\n\r\n"


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(7))


def open_store(disk):
    commit = GroupCommit(disk)
    return FileStore(FOLDER, commit, block_bytes=600), commit


def everything(disk):
    return b"".join(disk.read(FOLDER / name) for name in disk.names(FOLDER))


@pytest.mark.parametrize("sealed", [True, False])
def test_no_byte_of_an_erased_message_is_left(disk, sealed):
    store, commit = open_store(disk)
    store.append(b"s.kept", b"", b"kept", 1)
    store.append(b"s.secret", HEADERS, SECRET, 2)
    for _ in range(20 if sealed else 1):
        store.append(b"s.kept", b"", b"kept", 3)
    commit.drain()
    assert SECRET in everything(disk)
    assert store.delete([2], erase=True) == 1
    expected = [store.load(sequence) for sequence in range(1, store.last_seq + 1)]
    assert commit.drain() == []
    assert SECRET not in everything(disk)
    assert b"Password" not in everything(disk)
    for _ in range(2):  # with the index, and without it
        assert [store.load(sequence) for sequence in range(1, store.last_seq + 1)] == expected
        state = store.state()
        store.append(b"s.kept", b"", b"kept", 3)
        expected.append(store.load(store.last_seq))
        commit.drain()
        store, commit = open_store(disk)
        assert not store.offline
        assert store.state().messages == state.messages + 1
        for name in disk.names(FOLDER):
            if name.endswith(".idx"):
                disk.remove(FOLDER / name)
        store, commit = open_store(disk)
        assert not store.offline


def test_a_deleted_message_that_is_not_to_be_erased_stays_until_compaction(disk):
    store, commit = open_store(disk)
    for _ in range(3):
        store.append(b"s.kept", b"", SECRET, 1)
    store.delete([2])
    commit.drain()
    assert everything(disk).count(SECRET) == 3


def test_power_lost_at_any_change_of_an_erasure(sim_disk_module):
    for sealed in (True, False):
        for dark_in in range(16):
            for seed in range(6):
                disk = sim_disk_module.SimDisk(Random(seed))
                store, commit = open_store(disk)
                run = PubRun.of([(b"s.a", b"", HEADERS, SECRET)] * (30 if sealed else 3))
                store.append_run(run, 0, run.count, 1)
                commit.drain()
                store.delete([2], erase=True)
                disk.dark_in = dark_in
                with contextlib.suppress(sim_disk_module.PowerLostError):
                    commit.drain()
                disk.restart()
                store, commit = open_store(disk)
                assert store.offline == ""
                left = [s for s in range(1, run.count + 1) if store.load(s) is not None]
                assert left in ([s for s in range(1, run.count + 1) if s != 2],
                                list(range(1, run.count + 1)))  # fmt: skip


def test_power_lost_after_a_process_was_killed_within_an_erasure(sim_disk_module):
    """What the killed one wrote and did not sync is only in the system's memory."""
    for change in range(16):
        for seed in range(8):
            disk = sim_disk_module.SimDisk(Random(seed))
            store, commit = open_store(disk)
            run = PubRun.of([(b"s.a", b"", HEADERS, SECRET * 9)] * 30)
            store.append_run(run, 0, run.count, 1)
            commit.drain()
            store.delete([2], erase=True)
            disk.fail_in = change
            commit.drain()
            disk.fail_in = None
            store, commit = open_store(disk)
            assert store.offline == ""
            is_erased = store.load(2) is None
            commit.drain()
            disk.restart()
            store, commit = open_store(disk)
            assert store.offline == "", change
            left = [s for s in range(1, run.count + 1) if store.load(s) is not None]
            assert left == [s for s in range(1, run.count + 1) if s != 2 or not is_erased]


def test_a_half_written_head_still_says_what_it_is():
    store_run = PubRun.of([(b"s.a", b"", HEADERS, SECRET)])
    block = bytearray(400)
    _, used = records.encode_run(
        store_run.chunk, store_run.fields, 0, 1, 9, 5, block, 0, array("I"), array("I"), Interned()
    )
    whole = bytes(block[:used])
    head, stop = erasure.erase(block, 0)
    assert stop == used
    for cut in range(len(head) + 1):
        for torn in (head[:cut] + whole[cut:], whole[:cut] + head[cut:] + whole[len(head) :]):
            scan = scan_block(torn, Interned())
            assert scan.stop == used, cut
            assert list(scan.sequences) == [9]
    erased = head.ljust(used, b"\0")
    assert list(scan_block(erased, Interned()).sequences) == [9]
    for at in range(len(head)):
        broken = bytearray(erased)
        broken[at] ^= 1
        assert scan_block(bytes(broken), Interned()).stop == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_message_erased_before_it_was_written_is_gone_without_its_tombstone(
    sim_disk_module, seed
):
    disk = sim_disk_module.SimDisk(Random(seed))
    store, commit = open_store(disk)
    for _ in range(9):
        store.append(b"s.plain", b"", b"", 1)
    assert store.delete([1], erase=True) == 1
    disk.dark_in = 3  # at the write, of which some arrives
    with pytest.raises(sim_disk_module.PowerLostError):
        commit.drain()
    disk.restart()
    again, commit = open_store(disk)
    assert not again.offline
    assert again.load(1) is None
    found = [again.load(sequence) for sequence in range(2, again.last_seq + 1)]
    assert all(message.subject == b"s.plain" for message in found)
    assert again.state().messages == len(found)


@pytest.mark.parametrize("compression", ["none", "s2"])
@pytest.mark.parametrize("is_numbered", [True, False])
def test_erasing_looks_up_no_other_subjects(disk, monkeypatch, compression, is_numbered):
    """A block may have two hundred thousand, and took a tenth of a second."""
    store, commit = open_store(disk)
    store.compression = compression
    store.append(b"s.secret", HEADERS, SECRET, 1)
    for number in range(40):
        store.append(b"s.%d" % (number % 15), b"", b"kept" * 9, 2)
    commit.drain()
    store, commit = open_store(disk)
    erased = store._list.blocks[0]
    if is_numbered:
        store._contents.of(erased).number(1 << 20)
    before = store._contents.of(erased)
    ids = list(before.entries.subject_ids)
    looked_up = []
    monkeypatch.setattr(
        columns, "number_names", lambda names, lengths, ids: looked_up.append(lengths)
    )
    monkeypatch.setattr(columns, "localize", lambda *given: looked_up.append(given))
    assert store.delete([1, 3], erase=True) == 2
    assert looked_up == []
    monkeypatch.undo()
    assert list(store._contents.of(erased).entries.subject_ids) == ids, "flags are kept by these"
    wanted = store.filter([b"s.1*"])
    expected = [store.load(sequence) for sequence in range(1, store.last_seq + 1)]
    found = store.count(wanted, 0)
    counts = store.subject_counts(b">")
    assert b"s.secret" not in counts
    commit.drain()
    for _ in range(2):  # as it was in memory, and as its new index says
        assert [store.load(sequence) for sequence in range(1, store.last_seq + 1)] == expected
        assert store.count(store.filter([b"s.1*"]), 0) == found
        assert store.subject_counts(b">") == counts
        assert [store.load_last(store.filter([name])).sequence for name in counts] == [
            max(m.sequence for m in expected if m is not None and m.subject == name)
            for name in counts
        ]
        store, commit = open_store(disk)


def test_subjects_are_numbered_anew_while_an_erased_block_is_on_its_way(disk):
    """Its own have not been looked up yet when the table forgets those that have no messages."""
    store, commit = open_store(disk)
    for number in range(40):
        store.append(b"s.%d" % number, b"", b"kept" * 9, 2)
    commit.drain()
    store, commit = open_store(disk)
    content = store._contents.of(store._list.blocks[0])
    assert store.delete([2], erase=True) == 1
    pinned = store._list.blocks[0].pinned
    assert pinned is not None
    assert not pinned.is_numbered
    assert not pinned.number(3), "some are"
    store.delete([sequence for sequence in range(10, 41) if sequence % 2])
    before = {m.subject: m.sequence for n in range(1, 41) if (m := store.load(n)) is not None}
    store._table.prepare_to_renumber(1000)
    store._log._renumber()
    table = store._table
    assert pinned.is_numbered is False
    assert [table.names[number] for number in pinned.table_ids] == [
        b"s.%d" % number for number in range(len(pinned.table_ids))
    ]
    assert pinned.entries is content.entries
    for subject, sequence in before.items():
        assert store.load_last(store.filter([subject])).sequence == sequence
        assert store.subject_counts(subject) == {subject: 1}
    assert store.delete([1], erase=True) == 1
    assert store.subject_counts(b"s.0") == {}
    commit.drain()
    assert store.subject_counts(b"s.2") == {b"s.2": 1}
