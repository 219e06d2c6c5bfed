"""Room kept back for a full disk: how much, given up piece by piece, filled up again."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from jetstream_server.store.disk.commit import FILL_NS, BlockFile, GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.reserve import PIECE_BYTES, RESERVE_NAME, Reserve

FOLDER = Path("/s")
FILE = FOLDER / RESERVE_NAME


class Owner:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def flushed(self) -> None:
        self.heard.append("flushed")

    def stalled(self, error) -> None:
        self.heard.append("stalled")

    def failed(self, error) -> None:
        self.heard.append("failed")


@pytest.fixture
def disk(sim_disk_module):
    disk = sim_disk_module.SimDisk(Random(1))
    disk.make_folder(FOLDER)
    return disk


def make(disk, bytes_max: int = 200_000, bytes_min: int = 1000) -> Reserve:
    return Reserve(FOLDER, disk, bytes_max=bytes_max, bytes_min=bytes_min)


def flush(commit: GroupCommit, now: int) -> None:
    found = commit.take(now)
    assert found is not None
    found.run()
    commit.complete(found)


def test_it_takes_a_part_of_what_is_free_and_no_more_than_it_should(disk):
    assert make(disk).fill() is None
    assert disk.size(FILE) == 200_000
    disk.remove(FILE)
    disk.capacity = 160_000
    assert make(disk).fill() is None
    assert disk.size(FILE) == 10_000


def test_too_little_room_is_said(disk):
    disk.capacity = 15_000
    error = make(disk).fill()
    assert str(error) == "the disk is full: too little room is left (/s)"
    assert make(disk).give(1) is False


def test_it_is_filled_with_the_first_flush_however_long_there_was_none(disk):
    commit = GroupCommit(disk, reserve=make(disk))
    for now in range(1, 5):
        assert commit.take(now) is None and commit.next_deadline() is None
    assert not disk.names(FOLDER)
    commit.write(Owner(), BlockFile(FOLDER / "1.blk"), bytearray(b"x"), 0, 1)
    flush(commit, 5)
    assert disk.size(FILE) == 200_000


def test_it_is_given_up_as_far_as_needed(disk):
    reserve = make(disk)
    reserve.fill()
    assert reserve.give(1)
    assert disk.size(FILE) == 200_000 - PIECE_BYTES
    assert reserve.give(50_000)
    assert disk.size(FILE) == 100_000 - PIECE_BYTES
    assert reserve.give(50_000)
    assert not reserve.give(1)


def test_a_quota_below_what_seems_free(disk):
    reserve = make(disk)
    disk.free_bytes = lambda path: 1 << 40
    disk.capacity = 60_000
    assert reserve.fill() is None
    assert disk.size(FILE) == 50_000


def test_a_file_system_that_sets_no_room_aside_goes_without(disk):
    def refuse(path: Path, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    disk.allocate = refuse
    reserve = make(disk)
    assert reserve.fill() is None
    assert not reserve.is_usable


def test_on_a_real_disk(tmp_path):
    reserve = Reserve(tmp_path, OsDisk(), bytes_max=1 << 20)
    assert reserve.fill() is None
    file = tmp_path / RESERVE_NAME
    assert file.stat().st_blocks * 512 >= file.stat().st_size == 1 << 20
    assert reserve.give(300_000)
    assert file.stat().st_size == (1 << 20) - 600_000
    assert reserve.fill() is None
    assert file.stat().st_size == 1 << 20


def test_what_is_queued_finds_room_and_the_shortage_ends_with_the_reserve(disk):
    commit, owner = GroupCommit(disk, reserve=make(disk)), Owner()
    file, buffer = BlockFile(FOLDER / "1"), bytearray(b"x" * 20_000)
    commit.write(owner, file, buffer, 0, 10_000)
    flush(commit, 1)
    assert disk.size(FILE) == 200_000
    assert commit.full is None
    disk.capacity = 210_500
    commit.write(owner, file, buffer, 10_000, 20_000)
    flush(commit, 2)
    assert commit.is_stalled
    assert "No space left" in str(commit.full)
    flush(commit, 2)  # at once
    assert not commit.is_stalled
    assert disk.read(FOLDER / "1") == bytes(buffer)
    assert owner.heard == ["flushed", "stalled", "flushed"]
    assert commit.full is not None  # for there is no room for more
    assert commit.take(3) is None
    assert commit.next_deadline() == 2 + FILL_NS
    disk.capacity = 180_000
    flush(commit, 2 + FILL_NS)
    assert commit.full is not None
    disk.capacity = None
    assert commit.take(3 + FILL_NS) is None
    flush(commit, 3 + 2 * FILL_NS)
    assert commit.full is None
    assert disk.size(FILE) == 200_000
    assert commit.next_deadline() is None


def test_a_shortage_does_not_end_with_what_the_reserve_gave(disk):
    reserve = make(disk, 1_000_000)
    reserve.fill()
    disk.capacity = 1_000_100
    assert reserve.give(1)
    assert reserve.fill() is not None
    disk.capacity = 1_300_000
    assert reserve.fill() is None


def test_a_server_that_starts_with_too_little_room_takes_nothing(disk):
    disk.capacity = 5000
    commit, owner = GroupCommit(disk, reserve=make(disk)), Owner()
    commit.write(owner, BlockFile(FOLDER / "1"), bytearray(b"x"), 0, 1)
    flush(commit, 1)
    assert disk.read(FOLDER / "1") == b"x"
    assert "too little room" in str(commit.full)


def test_a_spare_file_is_left_out_on_a_full_disk(disk):
    commit, owner = GroupCommit(disk), Owner()
    disk.capacity = 10
    commit.replace(owner, FOLDER / "1.idx", [b"x" * 100], is_spare=True)
    flush(commit, 1)
    assert owner.heard == ["flushed"]
    assert (commit.full, commit.is_stalled) == (None, False)


def test_rubbish_goes_a_few_files_at_a_time_and_at_once_when_room_is_needed(disk):
    commit, owner = GroupCommit(disk), Owner()
    for number in range(10):
        disk.put(FOLDER / f"{number}", b"x" * 100)
        commit.remove(owner, FOLDER / f"{number}", lazily=True)
    assert not commit.has_fresh
    assert commit.take(1) is None
    at = commit.next_deadline()
    flush(commit, at)
    assert len(disk.names(FOLDER)) == 8
    disk.capacity = 850
    commit.write(owner, BlockFile(FOLDER / "new"), bytearray(b"y" * 300), 0, 300)
    flush(commit, at + 1)
    assert commit.is_stalled
    commit.drain()
    assert disk.names(FOLDER) == ["new"]


def test_rubbish_goes_with_its_folder(disk):
    commit, owner = GroupCommit(disk), Owner()
    commit.remove(owner, FOLDER / "a" / "1", lazily=True)
    commit.remove_tree(owner, FOLDER / "a")
    disk.put(FOLDER / "a" / "1", b"of another stream with the same name")
    flush(commit, 1)
    disk.put(FOLDER / "a" / "1", b"of another stream with the same name")
    commit.drain()
    assert disk.names(FOLDER / "a") == ["1"]
