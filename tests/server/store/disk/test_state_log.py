"""A log of states: the last whole one counts, whatever a crash leaves behind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.state_log import FILE_BYTES_MIN, StateLog


class Owner:
    """Hears of no trouble."""

    def flushed(self) -> None: ...

    def stalled(self, error: StoreError) -> None:
        raise error

    def failed(self, error: StoreError) -> None:
        raise error


class CountingDisk(OsDisk):
    """Counts syncs of files."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0

    def sync(self, handle: int) -> None:
        self.syncs += 1
        super().sync(handle)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def commit(disk: CountingDisk) -> GroupCommit:
    return GroupCommit(disk)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "consumers" / "C" / "state"


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_the_last_state_is_loaded_queued_or_not(commit: GroupCommit, path: Path) -> None:
    log = StateLog(path, commit, Owner())
    assert log.load() is None
    for number in range(5):
        log.save(b"%d" % number, lazily=number % 2 == 0)
        assert log.load() == StateLog(path, commit, Owner()).load() == b"%d" % number
        if number % 3 == 0:
            commit.drain()
            assert StateLog(path, commit, Owner()).load() == b"%d" % number
    commit.drain()
    assert StateLog(path, GroupCommit(OsDisk()), Owner()).load() == b"4"


@pytest.mark.parametrize("seed", range(10))
def test_states_in_parts_are_like_whole_ones(
    commit: GroupCommit, path: Path, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    logs = [
        StateLog(path, commit, Owner()),
        StateLog(tmp_path / "whole" / "state", commit, Owner()),
    ]
    for _ in range(30):
        state = random.randbytes(random.choice([1, 9, 400, 30_000]))
        cuts = sorted(random.randrange(len(state) + 1) for _ in range(random.randrange(4)))
        parts = [state[start:stop] for start, stop in pairwise([0, *cuts, len(state)])]
        lazily, joins = random.random() < 0.3, random.random() < 0.7
        logs[0].save(*map(memoryview, parts), lazily=lazily, joins=joins)
        logs[1].save(state, lazily=lazily, joins=joins)
        assert [log.load() for log in logs] == [state, state]
        if random.random() < 0.4:
            commit.drain()
            assert [log.load() for log in logs] == [state, state]
    commit.drain()
    stored = [
        [file.read_bytes() for file in sorted(folder.iterdir())]
        for folder in (path.parent, tmp_path / "whole")
    ]
    assert stored[0] == stored[1]
    assert [StateLog(path, commit, Owner()).load(), bool(stored[0])] == [state, True]


def test_lazy_states_are_synced_now_and_then(
    commit: GroupCommit, disk: CountingDisk, path: Path
) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"first", lazily=True)
    commit.drain()
    assert disk.syncs == 1  # the first of a file always is
    for _ in range(40):
        log.save(b"more", lazily=True)
        commit.drain()
    assert disk.syncs == 5
    log.save(b"answered")
    commit.drain()
    assert disk.syncs == 6


def test_states_of_one_flush_share_a_sync(
    commit: GroupCommit, disk: CountingDisk, path: Path
) -> None:
    log = StateLog(path, commit, Owner())
    for number in range(100):
        log.save(b"%d" % number)
    commit.drain()
    assert disk.syncs == 1
    assert StateLog(path, GroupCommit(disk), Owner()).load() == b"99"


def test_a_restart_and_growth_begin_a_new_file(commit: GroupCommit, path: Path) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"1")
    commit.drain()
    assert names(path) == ["state.1"]
    log = StateLog(path, commit, Owner())
    log.save(b"2")
    commit.drain()
    assert names(path) == ["state.2"]
    for _ in range(FILE_BYTES_MIN // 1000 + 1):
        log.save(bytes(1000))
    log.save(b"last")
    commit.drain()
    assert names(path) == ["state.3"]
    assert StateLog(path, commit, Owner()).load() == b"last"


@pytest.mark.parametrize("cut", [1, 4, 8, 12])
def test_a_torn_end_is_left_out(commit: GroupCommit, path: Path, cut: int) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"whole")
    log.save(b"torn")
    commit.drain()
    file = path.with_name("state.1")
    file.write_bytes(file.read_bytes()[:-cut])
    log = StateLog(path, commit, Owner())
    assert log.load() == b"whole"
    log.save(b"next")
    commit.drain()
    assert StateLog(path, commit, Owner()).load() == b"next"


def test_a_torn_new_file_falls_back_on_the_one_before(commit: GroupCommit, path: Path) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"old")
    commit.drain()
    path.with_name("state.2").write_bytes(b"\1\2\3")
    assert StateLog(path, commit, Owner()).load() == b"old"


def test_damage_and_a_file_that_was_never_filled(commit: GroupCommit, path: Path) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"state")
    commit.drain()
    file = path.with_name("state.1")
    file.write_bytes(bytes(len(file.read_bytes())))
    assert StateLog(path, commit, Owner()).load() is None
    file.write_bytes(b"x" * 20)
    with pytest.raises(StoreError, match="no whole state"):
        StateLog(path, commit, Owner()).load()


def test_removal(commit: GroupCommit, path: Path) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"1")
    commit.drain()
    log.save(b"2")
    log.remove()
    assert log.load() is None
    commit.drain()
    assert names(path) == []
    log.save(b"3")
    commit.drain()
    assert StateLog(path, commit, Owner()).load() == b"3"


def test_a_folder_that_is_removed_and_made_anew(commit: GroupCommit, path: Path) -> None:
    old = StateLog(path, commit, Owner())
    old.save(b"old")
    commit.drain()
    old.save(b"older than the removal")
    commit.remove_tree(Owner(), path.parent)
    new = StateLog(path, commit, Owner())
    assert new.load() is None
    new.save(b"new")
    assert new.load() == b"new"
    commit.drain()
    assert names(path) == ["state.1"]
    assert StateLog(path, commit, Owner()).load() == b"new"


class Patient(Owner):
    """Waits for room."""

    def stalled(self, error: StoreError) -> None: ...


@pytest.mark.parametrize("dark_in", range(8))
@pytest.mark.parametrize("seed", range(8))
def test_a_new_file_that_found_no_room_at_first_is_there_before_the_old_one_goes(
    sim_disk_module: Any, seed: int, dark_in: int
) -> None:
    disk, path = sim_disk_module.SimDisk(Random(seed)), Path("/s/C/state")
    commit = GroupCommit(disk)
    StateLog(path, commit, Patient()).save(b"one")
    assert commit.drain() == []
    StateLog(path, commit, Patient()).save(b"two")
    disk.capacity = disk.size(Path("/s/C/state.1"))
    assert commit.drain()
    disk.capacity, disk.dark_in = None, dark_in
    try:
        assert commit.drain() == []
        acknowledged = [b"two"]
    except sim_disk_module.PowerLostError:
        acknowledged = [b"one", b"two"]
    disk.restart()
    assert StateLog(path, GroupCommit(disk), Patient()).load() in acknowledged


def test_a_new_file_that_waits_for_room_has_another_number_than_the_next_one(
    sim_disk_module: Any,
) -> None:
    disk, path = sim_disk_module.SimDisk(Random(1)), Path("/s/C/state")
    commit, owner = GroupCommit(disk), Patient()
    StateLog(path, commit, owner).save(b"one")
    assert commit.drain() == []
    log = StateLog(path, commit, owner)
    disk.capacity = disk.used_bytes()
    commit.replace(owner, path.with_name("large"), [bytes(1000)])  # holds up what comes behind it
    log.save(b"two")  # the file of the first state is to go when this one is there
    assert commit.drain()
    log.leave()
    log.save(b"three")
    assert log.load() == StateLog(path, commit, owner).load() == b"three"
    disk.capacity = None
    assert commit.drain() == []
    assert StateLog(path, GroupCommit(disk), Patient()).load() == b"three"
    assert sorted(each.name for each in disk.paths()) == ["large", "state.3"]


def written(path: Path, states: list[bytes]) -> bytes:
    """Return the file of a log that each of these was saved to."""
    commit = GroupCommit(OsDisk())
    log = StateLog(path, commit, Owner())
    for state in states:
        log.save(state)
        commit.drain()
    return path.with_name("state.1").read_bytes()


def test_of_a_flipped_bit_anywhere_only_the_last_state_suffers_and_it_is_told(path: Path) -> None:
    states = [b"one", b"two and more", b"three"]
    stored = written(path, states)
    last = len(stored) - len(states[-1]) - 8
    for at in range(8 * len(stored)):
        changed = bytearray(stored)
        changed[at // 8] ^= 1 << at % 8
        path.with_name("state.1").write_bytes(changed)
        log = StateLog(path, GroupCommit(OsDisk()), Owner())
        is_last = at // 8 >= last
        assert log.load() == states[1 if is_last else 2], at
        said = f"the last state is torn or damaged ({path}.1 at byte {last})"
        assert log.damage == (said if is_last else ""), at


def test_what_is_noted_past_the_queue_is_there_at_once(
    commit: GroupCommit, disk: CountingDisk, path: Path
) -> None:
    path.parent.mkdir(parents=True)
    log = StateLog(path, commit, Owner())
    for number in range(3):
        assert log.note(b"noted %d" % number)
        fresh = StateLog(path, GroupCommit(OsDisk()), Owner())
        assert fresh.load() == b"noted %d" % number
    assert disk.syncs == 0
    log.save(b"saved")
    assert not log.note(b"too soon")  # what is queued comes first
    commit.drain()
    assert disk.syncs >= 1
    assert log.note(b"later")
    fresh = StateLog(path, GroupCommit(OsDisk()), Owner())
    assert fresh.load_all() == (
        [b"noted 0", b"noted 1", b"noted 2", b"saved", b"later"],
        False,
    )
    log.leave()
    assert names(path) == ["state.1"]


def test_a_file_begun_past_the_queue_takes_over_when_it_is_durable(
    commit: GroupCommit, path: Path
) -> None:
    written(path, [b"old"])
    log = StateLog(path, commit, Owner())
    assert log.note(b"new")
    assert names(path) == ["state.1", "state.2"]
    log.save(b"newer")
    commit.drain()
    assert names(path) == ["state.2"]
    fresh = StateLog(path, GroupCommit(OsDisk()), Owner())
    assert fresh.load_all() == ([b"new", b"newer"], False)


def test_where_nothing_can_be_noted_nothing_is_lost(sim_disk_module: Any) -> None:
    disk, path = sim_disk_module.SimDisk(Random(1)), Path("/s/C/state")
    commit = GroupCommit(disk)
    log = StateLog(path, commit, Patient())
    log.save(b"one")
    commit.drain()
    disk.capacity = disk.used_bytes() + 4
    assert not log.note(b"no room")
    disk.capacity = None
    assert StateLog(path, GroupCommit(disk), Patient()).load() == b"one"
    assert log.note(b"two")
    assert StateLog(path, GroupCommit(disk), Patient()).load() == b"two"
    assert not StateLog(Path("/nowhere/state"), commit, Patient()).note(b"no folder")


def test_two_files_begun_in_one_flush_leave_one(commit: GroupCommit, path: Path) -> None:
    log = StateLog(path, commit, Owner())
    log.save(b"1", begins=True)
    log.save(b"2", begins=True)
    commit.drain()
    assert names(path) == ["state.2"]
