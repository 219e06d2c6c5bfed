"""Reading a folder of blocks."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.interned import Interned
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.block import scan_block
from jetstream_server.store.blocks.recovery import read_folder
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/store/msgs")


@pytest.fixture
def disk(sim_disk_module):
    disk = sim_disk_module.SimDisk(Random(1))
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=1000)
    run = PubRun.of([(b"s.%d" % (i % 3), b"", b"", b"x" * 60) for i in range(30)])
    store.append_run(run, 0, 30, 5)
    commit.drain()
    return disk


def test_nothing_is_no_blocks(sim_disk_module):
    findings = read_folder(FOLDER, sim_disk_module.SimDisk(Random(1)), SubjectTable())
    assert (findings.blocks, findings.notes) == ([], [])


def test_only_the_last_block_is_read(disk):
    table = SubjectTable()
    findings = read_folder(FOLDER, disk, table)
    assert [found.scan is not None for found in findings.blocks] == [False, False, True]
    assert sum(found.block.count for found in findings.blocks) == 30
    assert table.names == [b"s.0", b"s.1", b"s.2"]
    assert list(table.counts) == [10, 10, 10]


def test_every_flipped_byte_of_a_sealed_block_is_noticed_when_it_is_read(disk):
    whole = disk.read(FOLDER / "2.blk")
    disk.remove(FOLDER / "2.idx")
    for at in range(0, len(whole), 7):
        disk.damage(FOLDER / "2.blk", at)
        with pytest.raises(StoreError, match=r"damaged \(/store/msgs/2.blk at byte"):
            read_folder(FOLDER, disk, SubjectTable())
        disk.put(FOLDER / "2.blk", whole)


def test_a_sealed_block_that_was_cut_between_two_records(disk):
    whole = disk.read(FOLDER / "2.blk")
    scan = scan_block(whole, Interned())
    disk.put(FOLDER / "2.blk", whole[: scan.positions[-1]])
    with pytest.raises(StoreError, match=rf"cut short \(.*2.blk at byte {scan.positions[-1]}\)"):
        read_folder(FOLDER, disk, SubjectTable())


def test_a_last_block_without_its_first_record_never_was(disk):
    disk.put(FOLDER / "9.blk", b"\0" * 100)
    findings = read_folder(FOLDER, disk, SubjectTable())
    assert [found.block.number for found in findings.blocks] == [1, 2, 3]
    assert "9.blk" not in disk.names(FOLDER)


def test_a_disk_that_does_not_answer(disk, monkeypatch):
    def refuse(path):
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(disk, "read", refuse)
    with pytest.raises(StoreError, match="recovery failed: Input/output error"):
        read_folder(FOLDER, disk, SubjectTable())


@pytest.mark.parametrize("seed", range(12))
def test_what_is_shown_after_a_kill_outlives_a_power_failure(sim_disk_module, seed):
    disk = sim_disk_module.SimDisk(Random(seed))
    commit = GroupCommit(disk, lazily_ns=1 << 40)  # written at once, synced much later
    store = FileStore(FOLDER, commit)
    run = PubRun.of([(b"s", b"", b"", b"x" * 60) for _ in range(30)])
    store.append_run(run, 0, 30, 5)
    flush = commit.take(1)
    assert flush is not None and flush.run() == []
    commit.complete(flush)
    shown = FileStore(FOLDER, GroupCommit(disk)).last_seq  # the process was killed
    assert shown == 30
    disk.restart()
    assert FileStore(FOLDER, GroupCommit(disk)).last_seq == shown


@pytest.mark.parametrize("torn", [b"", b"half a record"])
@pytest.mark.parametrize("seed", range(6))
def test_the_name_of_a_block_that_is_shown_outlives_a_power_failure(
    disk, sim_disk_module, seed, torn
):
    """A process was killed between the sync of a new block and that of its folder."""
    whole = disk.read(FOLDER / "1.blk") + torn
    disk = sim_disk_module.SimDisk(Random(seed))
    disk.make_folder(FOLDER)
    handle, _ = disk.open(FOLDER / "1.blk")
    disk.write(handle, memoryview(whole), 0)
    disk.sync(handle)
    shown = FileStore(FOLDER, GroupCommit(disk)).last_seq
    assert shown > 0
    disk.restart()
    assert FileStore(FOLDER, GroupCommit(disk)).last_seq == shown


@pytest.mark.parametrize("is_full", [False, True])
def test_what_a_full_disk_cannot_mend_is_yet_to_be_done(disk, is_full):
    sealed, last = (disk.read(FOLDER / name) for name in ("1.blk", "3.blk"))
    disk.put(FOLDER / "1.redo", sealed)
    disk.put(FOLDER / "3.blk", last + b"torn")
    disk.fail_errno = errno.ENOSPC
    disk.capacity = 0 if is_full else None
    cut = disk.truncate

    def truncate(path: Path, size: int) -> None:
        disk.fail_in = 0 if is_full else None
        cut(path, size)

    disk.truncate = truncate
    blocks = read_folder(FOLDER, disk, SubjectTable()).blocks
    assert [found.redoes for found in blocks] == [is_full, False, False]
    assert [found.rewrites for found in blocks] == [False, False, is_full]
    assert (blocks[-1].whole, "1.redo" in disk.names(FOLDER)) == (last, is_full)
