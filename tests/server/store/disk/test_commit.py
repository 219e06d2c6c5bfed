"""GroupCommit: order, failures, a full disk, the lazy policy."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.store.disk.commit import BlockFile, GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.journal import Journal

A, B = Path("/s/a"), Path("/s/b")


class Recorder:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def flushed(self):
        self.heard.append("flushed")

    def stalled(self, error):
        self.heard.append(f"stalled: {error}")

    def failed(self, error):
        self.heard.append(f"failed: {error}")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


@pytest.fixture
def owner():
    return Recorder()


def test_nothing_queued_is_nothing_to_do(disk):
    commit = GroupCommit(disk)
    assert not commit.has_fresh
    assert commit.take(1) is None
    assert commit.next_deadline() is None


def test_adjacent_writes_are_one_and_survive_power_loss(disk, owner):
    commit = GroupCommit(disk)
    file, buffer = BlockFile(A), bytearray(b"hello world")
    commit.write(owner, file, buffer, 0, 5)
    commit.write(owner, file, buffer, 5, 11)
    flush = commit.take(1)
    assert len(flush.operations) == 1
    assert flush.run() == []
    assert owner.heard == []
    commit.complete(flush)
    assert not commit.has_fresh
    assert owner.heard == ["flushed"]
    disk.restart()
    assert disk.read(A) == b"hello world"


def test_last_replacement_wins_and_is_seen_before_the_flush(disk, owner):
    commit = GroupCommit(disk)
    commit.replace(owner, A, [b"one"])
    commit.replace(owner, A, [b"two"])
    assert commit.queued(A) == b"two"
    assert commit.drain() == []
    disk.restart()
    assert disk.read(A) == b"two"
    assert commit.queued(A) is None


def test_lazy_replacement_waits_but_not_for_ever(disk, owner):
    commit = GroupCommit(disk)
    commit.replace(owner, A, [b"state"], lazily=True)
    assert not commit.has_fresh
    assert commit.queued(A) == b"state"
    assert commit.take(1) is None
    assert commit.next_deadline() == 1 + 100 * MILLISECOND
    flush = commit.take(1 + 100 * MILLISECOND)
    assert flush.run() == []
    commit.complete(flush)
    assert disk.read(A) == b"state"
    assert commit.next_deadline() is None


def carry_out(commit, now):
    flush = commit.take(now)
    assert flush is not None and flush.run() == []
    commit.complete(flush)


@pytest.mark.parametrize("lazily_ns", [0, SECOND])
@pytest.mark.parametrize("what", ["lazy", "rubbish", "aside", "noted", "placed"])
def test_what_comes_after_turns_of_only_writes_is_looked_after(disk, owner, what, lazily_ns):
    disk.make_folder(Path("/s/f"))
    journal = Journal(Path("/s"), disk)
    commit = GroupCommit(disk, lazily_ns=lazily_ns, journal=journal)
    file, buffer, now = BlockFile(Path("/s/f/1.blk")), bytearray(b"abcdef"), 1
    if what == "placed":  # the journal is dirty from the beginning
        commit.replace(owner, Path("/s/f/config"), [b"1"], in_journal=True)
    for at in range(4):
        commit.write(owner, file, buffer, at, at + 1)
        carry_out(commit, now + 1)
        now += 2
        assert commit.take(now) is None
    assert (commit.next_deadline() is None) is (what != "placed" and not lazily_ns)
    match what:
        case "lazy":
            commit.replace(owner, Path("/s/f/state"), [b"state"], lazily=True)
        case "rubbish":
            commit.remove(owner, Path("/s/f/1.blk"), lazily=True)
        case "aside":
            disk.make_folder(Path("/s/.removed-1"))
            commit.clear(owner, Path("/s/.removed-1"))
        case "noted":
            commit.replace(owner, Path("/s/f/config"), [b"2"], in_journal=True)
            carry_out(commit, now + 1)
    now += 2
    assert commit.take(now) is None
    while (due := commit.next_deadline()) is not None:
        assert due > now, "what is due was not done"
        if (flush := commit.take(now := due)) is not None:
            assert flush.run() == []
            commit.complete(flush)
    match what:
        case "lazy":
            assert disk.read(Path("/s/f/state")) == b"state"
        case "rubbish":
            assert disk.names(Path("/s/f")) == []
        case "aside":
            assert ".removed-1" not in disk.names(Path("/s"))
        case _:
            assert "config" in disk.names(Path("/s/f")) and not journal.is_dirty


def test_lazy_replacement_goes_with_the_next_flush(disk, owner):
    commit = GroupCommit(disk)
    commit.replace(owner, A, [b"state"], lazily=True)
    commit.replace(owner, B, [b"config"])
    flush = commit.take(1)
    flush.run()
    commit.complete(flush)
    assert disk.read(A) == b"state"


def test_failure_is_told_once_and_never_retried(disk, owner):
    commit = GroupCommit(disk)
    other = Recorder()
    commit.write(owner, BlockFile(A), bytearray(b"x"), 0, 1)
    commit.replace(other, B, [b"fine"])
    disk.fail_in, disk.fail_errno = 3, errno.EIO  # folder, file, name; then the write
    failures = commit.drain()
    assert [str(error) for _, error in failures] == ["write failed: Input/output error (/s/a)"]
    assert owner.heard == ["failed: write failed: Input/output error (/s/a)"]
    assert other.heard == ["flushed"]
    assert not commit.has_fresh


def _failing_syncs(disk, folder, times):
    """Have the next syncs of a folder fail."""
    left, sync = [times], disk.sync_folder

    def sync_folder(path):
        if path == folder and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error", str(path))
        sync(path)

    disk.sync_folder = sync_folder


@pytest.mark.parametrize("uses_journal", [False, True])
def test_who_relies_on_a_folder_whose_names_were_lost_has_them_synced(disk, owner, uses_journal):
    """They found the folder there, and what they stored in it was gone with it (simulator's seed
    7604568)."""
    account = Path("/s/account")
    disk.make_folder(account)
    journal = Journal(Path("/s"), disk) if uses_journal else None
    if journal is not None:
        journal.load()
    commit, other = GroupCommit(disk, journal=journal), Recorder()
    _failing_syncs(disk, account, 2)
    commit.write(owner, BlockFile(account / "streams" / "A" / "1"), bytearray(b"x"), 0, 1)
    commit.drain()
    assert {each[:6] for each in owner.heard} == {"failed"}
    late = Recorder()
    commit.write(late, BlockFile(account / "streams" / "B" / "1"), bytearray(b"x"), 0, 1)
    commit.replace(other, Path("/s/elsewhere"), [b"fine"])
    commit.drain()
    assert {each[:6] for each in late.heard} == {"failed"}, "the names are still not there"
    assert other.heard == ["flushed"]
    path, third = account / "streams" / "C" / "meta", Recorder()
    commit.replace(third, path, [b"kept"], in_journal=uses_journal)
    commit.drain()
    if journal is not None:
        journal.place(100)
    assert third.heard == ["flushed"]
    for _ in range(10):
        disk.restart()
        assert disk.read(path) == b"kept"
    commit.write(third, BlockFile(path.with_name("1")), bytearray(b"x"), 0, 1)
    changes = disk.changes
    commit.drain()
    assert disk.changes - changes <= 4, "nothing is synced again for ever"


def test_full_disk_keeps_what_was_queued_in_order(disk, owner):
    commit = GroupCommit(disk)
    file, buffer = BlockFile(A), bytearray(b"hello world")
    commit.write(owner, file, buffer, 0, 11)
    commit.replace(owner, B, [b"after"])
    disk.capacity = 5
    flush = commit.take(1)
    assert "the disk is full" in str(flush.run()[0][1])
    commit.complete(flush)
    assert commit.is_stalled
    assert commit.take(2) is None
    assert commit.next_deadline() == 2 + 250 * MILLISECOND
    disk.capacity = None
    flush = commit.take(2 + 250 * MILLISECOND)
    assert flush.run() == []
    commit.complete(flush)
    assert not commit.is_stalled
    assert (disk.read(A), disk.read(B)) == (b"hello world", b"after")
    assert owner.heard[-1] == "flushed"


def test_a_log_that_a_removal_voids_is_not_made_again_by_what_found_no_room(disk, owner):
    commit, log, other = GroupCommit(disk), Path("/s/log"), Path("/s/other.1")
    disk.put(Path("/s/log.1"), b"names a")
    disk.put(A, b"a" * 20)
    commit.append(owner, Path("/s/log.2"), [b"names a ", b"as well"], 0)
    commit.append(owner, other, [b"of another log"], 0)
    commit.remove(owner, A, lazily=True, voids=log)
    disk.capacity = 0
    flush = commit.take()
    flush.run()
    commit.complete(flush)
    assert disk.names(Path("/s")) == []
    disk.capacity = None
    assert commit.drain() == []
    assert disk.names(Path("/s")) == ["other.1"]


def test_who_fails_on_a_full_disk_does_not_wait_for_room(disk, owner):
    """What follows the failure is skipped: trying the rest again would leave out the middle."""
    disk.put(B, b"old")
    commit = GroupCommit(disk)
    commit.write(owner, BlockFile(A), bytearray(b"hello world"), 0, 11)
    commit.remove(owner, B)
    commit.replace(owner, B, [b"new"])
    disk.capacity = 5
    disk.fail_in, disk.fail_errno = 3, errno.EIO  # file, name, write without room; then the removal
    failures = commit.drain()
    assert [str(error) for _, error in failures] == ["remove failed: Input/output error (/s/b)"]
    assert owner.heard == ["failed: remove failed: Input/output error (/s/b)"]
    assert (commit.has_fresh, commit.is_stalled) == (False, False)


def test_sync_that_finds_no_room_writes_again(disk, owner):
    commit = GroupCommit(disk)
    commit.write(owner, BlockFile(A), bytearray(b"hello"), 0, 5)
    disk.fail_in, disk.fail_errno = 5, errno.ENOSPC
    assert "full" in str(commit.drain()[0][1])
    assert commit.is_stalled
    assert commit.drain() == []
    disk.restart()
    assert disk.read(A) == b"hello"


def test_a_name_that_found_no_room_is_synced_by_the_next_try(disk, owner):
    disk.make_folder(A.parent)
    commit = GroupCommit(disk)
    commit.write(owner, BlockFile(A), bytearray(b"hello"), 0, 5)
    disk.fail_in, disk.fail_errno = 1, errno.ENOSPC  # the folder's sync, behind the open
    assert "full" in str(commit.drain()[0][1])
    assert commit.drain() == []
    disk.restart()
    assert disk.read(A) == b"hello"


def test_what_found_no_room_is_not_tried_again_if_its_folder_was_removed_meanwhile(disk, owner):
    """The flush has failed then, though nothing is stalled: what waited for it has to be told."""
    commit = GroupCommit(disk)
    commit.write(owner, BlockFile(A), bytearray(b"hello"), 0, 5)
    disk.capacity = 2
    flush = commit.take(1)
    commit.remove_tree(owner, A.parent)
    failures = flush.run()
    commit.complete(flush)
    assert [who for who, _ in failures] == [owner] == [each.owner for each in flush.stalled]
    assert not commit.is_stalled and commit.has_fresh
    assert commit.drain() == []


def test_removing_a_folder_forgets_what_waits_for_it(disk, owner):
    commit = GroupCommit(disk)
    commit.write(owner, BlockFile(A), bytearray(b"hello"), 0, 5)
    disk.capacity = 2
    commit.drain()
    assert commit.is_stalled
    commit.remove_tree(owner, A.parent)
    assert commit.is_removed(A)
    assert commit.drain() == []
    assert not commit.is_stalled
    assert disk.names(A.parent) == []


def flush_at(commit, now):
    while (flush := commit.take(now)) is not None:  # as the pump does
        assert flush.run() == []
        commit.complete(flush)


def test_a_large_folder_goes_a_few_files_at_a_time(disk, owner):
    commit = GroupCommit(disk)
    for number in range(30):
        disk.put(A.parent / str(number), b"x")
    other = A.parents[1] / "other"
    disk.put(other, b"x")
    commit.remove_tree(owner, A.parent)
    now, left = 0, []
    while now is not None:
        flush_at(commit, now)
        if now == 0:
            assert not commit.has_fresh  # replies need not wait for what is left
            assert disk.names(A.parent) == []
            disk.put(A, b"of a new folder")
        left.append(len(disk.paths()) - 2)
        now = commit.next_deadline()
    assert left[0] == 22
    assert len(left) > 3
    assert left[-1] == 0
    assert (disk.read(A), disk.read(other)) == (b"of a new folder", b"x")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_removed_folder_is_emptied_at_once_at_the_end_or_when_room_is_needed(
    disk, owner, is_full
):
    commit = GroupCommit(disk)
    for number in range(30):
        disk.put(A.parent / str(number), b"x")
    commit.remove_tree(owner, A.parent)
    flush_at(commit, 1)
    assert len(disk.paths()) == 22
    if is_full:
        disk.capacity = 22
        commit.replace(owner, B, [b"x"])
        for now in (2, 3):
            flush = commit.take(now)
            flush.run()
            commit.complete(flush)
            commit.replace(owner, B, [b"x"])
    commit.drain()
    assert disk.paths() == ([B] if is_full else [])


def test_a_folder_made_anew_is_not_removed(disk, owner):
    commit = GroupCommit(disk)
    commit.replace(owner, A, [b"old"])
    commit.drain()
    commit.remove_tree(owner, A.parent)
    commit.replace(owner, A, [b"new"])
    assert not commit.is_removed(A)
    assert commit.queued(A) == b"new"
    commit.drain()
    assert disk.read(A) == b"new"


def test_lazy_policy_syncs_after_the_interval(disk, owner, sim_disk_module):
    commit = GroupCommit(disk, lazily_ns=SECOND)
    file, buffer = BlockFile(A), bytearray(b"hello world")
    commit.write(owner, file, buffer, 0, 11)
    flush = commit.take(1)
    assert not flush.syncs
    flush.run()
    commit.complete(flush)
    assert not commit.has_fresh
    assert disk.read(A) == b"hello world"
    assert commit.next_deadline() == 1 + SECOND
    assert commit.take(SECOND) is None
    flush = commit.take(1 + SECOND)
    assert flush.syncs
    flush.run()
    commit.complete(flush)
    disk.restart()
    assert disk.read(A) == b"hello world"


@pytest.fixture
def lazy(disk, owner):
    """Return a lazily synced queue, and a file and its bytes, of which five are written."""
    commit = GroupCommit(disk, lazily_ns=SECOND)
    file, buffer = BlockFile(A), bytearray(b"hello world")
    commit.write(owner, file, buffer, 0, 5)
    assert not commit.write_through(1), "the file is yet to be made"
    flush = commit.take(1)
    flush.run()
    commit.complete(flush)
    owner.heard.clear()
    return commit, file, buffer


def test_a_lone_write_goes_through_and_is_synced_in_time(disk, owner, lazy):
    commit, file, buffer = lazy
    taken = commit.taken
    commit.write(owner, file, buffer, 5, 11)
    assert commit.write_through(2)
    assert owner.heard == ["flushed"]
    assert commit.taken == taken + 1
    assert not commit.has_fresh and commit.awaited_bytes == 0
    assert disk.read(A) == b"hello world"
    assert commit.next_deadline() == 1 + SECOND
    flush = commit.take(1 + SECOND)
    flush.run()
    disk.restart()
    assert disk.read(A) == b"hello world"


def test_anything_but_a_lone_write_is_left_to_a_flush(owner, lazy):
    commit, file, buffer = lazy
    assert not commit.write_through(2), "nothing is queued"
    commit.write(owner, file, buffer, 5, 11)
    assert not commit.write_through(1 + SECOND), "a sync is due"
    commit.replace(owner, B, [b"state"], lazily=True)
    assert not commit.write_through(2), "more is waiting"
    commit.replace(owner, B, [b"state"])
    assert not commit.write_through(2), "more is queued"
    assert owner.heard == []


def test_a_large_write_is_left_to_a_flush(owner, lazy):
    commit, file, _ = lazy
    large = bytearray(1 << 20)
    commit.write(owner, file, large, 5, len(large))
    assert not commit.write_through(2)
    assert owner.heard == []


def test_what_cannot_be_written_through_is_written_by_a_flush(disk, owner, lazy):
    commit, file, buffer = lazy
    disk.fail_in, disk.fail_errno = 0, errno.ENOSPC
    commit.write(owner, file, buffer, 5, 11)
    assert not commit.write_through(2)
    assert owner.heard == [] and commit.has_fresh
    disk.fail_in = 0
    flush = commit.take(2)
    assert "the disk is full" in str(flush.run()[0][1])
    commit.complete(flush)
    assert not commit.write_through(3), "it is stalled"
    assert commit.take(3) is None
    flush = commit.take(3 + SECOND // 4)
    assert flush.run() == []
    commit.complete(flush)
    assert disk.read(A) == b"hello world"


def test_one_flush_at_a_time(disk, owner):
    commit = GroupCommit(disk)
    commit.replace(owner, A, [b"one"])
    commit.take(1)
    with pytest.raises(AssertionError):
        commit.take(2)


@pytest.mark.parametrize("during_flush", [False, True])
def test_removing_a_folder_closes_its_files(tmp_path, owner, during_flush):
    commit = GroupCommit(OsDisk())
    file = BlockFile(tmp_path / "stream" / "a")
    commit.write(owner, file, bytearray(b"x"), 0, 1)
    flush = commit.take(1)
    flush.run()
    if not during_flush:
        commit.complete(flush)
        assert file.handle is not None
    commit.remove_tree(owner, tmp_path / "stream")
    if during_flush:
        commit.complete(flush)
    removal = commit.take(2)
    assert file.handle is None
    assert removal.run() == []
    commit.complete(removal)
    assert not (tmp_path / "stream").exists()


def test_a_failed_owners_files_are_closed(disk, owner):
    commit = GroupCommit(disk)
    file = BlockFile(A)
    commit.write(owner, file, bytearray(b"x"), 0, 1)
    disk.fail_in = 5
    assert "sync failed" in str(commit.drain()[0][1])
    assert file.handle is None


@pytest.mark.parametrize("lazily_ns", [0, SECOND])
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_due_once_all_that_is_due_is_done(disk, owner, lazily_ns, seed):
    """Else the server would be awake for ever: what waited may have been removed meanwhile."""
    chance = Random(seed)
    journal = Journal(Path("/s"), disk)
    disk.add_folder(Path("/s"))
    journal.load()
    commit = GroupCommit(disk, lazily_ns=lazily_ns, journal=journal)
    now = 1
    for number in range(60):
        folder = Path(f"/s/{chance.randrange(3)}")
        match chance.randrange(7):
            case 0:
                commit.write(owner, BlockFile(folder / f"{number}.blk"), bytearray(b"x" * 9), 0, 9)
            case 1:
                commit.replace(owner, folder / "state", [b"s"], lazily=True)
            case 2:
                commit.replace(owner, Path(f"/s/kept/{number}"), [b"c"], in_journal=True)
            case 3:
                commit.remove(owner, folder / f"{number}.blk", lazily=True)
            case 4:
                commit.remove_tree(owner, folder)
            case 5:
                now += chance.choice([1, 30 * MILLISECOND, 3 * SECOND])
        while (flush := commit.take(now)) is not None:
            assert flush.run() == []
            commit.complete(flush)
        deadline = commit.next_deadline()
        assert deadline is None or deadline > now
    commit.remove_tree(owner, Path("/s/0"))
    for _ in range(100):
        while (flush := commit.take(now)) is not None:
            assert flush.run() == []
            commit.complete(flush)
        now += SECOND
    assert commit.next_deadline() is None
