"""The journal: what it costs, what is read of it, and what is left of it after a power cut."""

from __future__ import annotations

import contextlib
import errno
import itertools
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk import journal as journal_module
from jetstream_server.store.disk.commit import PLACE_NS, PLACED_FILES, GroupCommit
from jetstream_server.store.disk.flush import BlockFile
from jetstream_server.store.disk.journal import Journal
from jetstream_server.store.disk.journal_entries import ENTRIES_AT

ROOT = Path("/r")
STREAMS = ROOT / "a" / "streams"


class Owner:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def flushed(self) -> None: ...

    def stalled(self, error: StoreError) -> None:
        self.heard.append(f"stalled: {error.reason}")

    def failed(self, error: StoreError) -> None:
        self.heard.append(f"failed: {error.reason}")


class Syncs:
    """Counts what waits for the device, once for what waits together."""

    def __init__(self, disk: Any) -> None:
        self.count = 0
        self._sync, self._sync_folder = disk.sync, disk.sync_folder
        disk.sync, disk.sync_folder = self._counted(disk.sync), self._counted(disk.sync_folder)

    def _counted(self, sync: Any) -> Any:
        def counted(what: Any) -> None:
            self.count += 1
            sync(what)

        return counted


@pytest.fixture
def disk(sim_disk_module: Any) -> Any:
    disk = sim_disk_module.SimDisk(Random(1))
    disk.make_folder(ROOT)
    return disk


def running(disk: Any, room_bytes: int = 1000) -> GroupCommit:
    journal = Journal(ROOT, disk, room_bytes=room_bytes)
    journal.load()
    return GroupCommit(disk, journal=journal)


def flush(commit: GroupCommit, now: int) -> None:
    taken = commit.take(now)
    if taken is not None:
        assert not taken.run()
        commit.complete(taken)


def config(name: object) -> Path:
    return STREAMS / str(name) / "meta.json"


def put(commit: GroupCommit, name: object, content: bytes, owner: Any = None) -> None:
    commit.replace(owner or Owner(), config(name), [content], in_journal=True)


def found(commit: GroupCommit, path: Path) -> bytes | None:
    queued = commit.queued(path)
    if queued is not None:
        return bytes(queued)
    return None if commit.is_removed(path) else commit.disk.read(path)


def test_a_config_takes_one_sync_and_so_do_a_hundred(disk: Any) -> None:
    commit = running(disk)
    put(commit, "first", b"1")  # makes the journal
    flush(commit, 1)
    syncs = Syncs(disk)
    put(commit, "second", b"2")
    flush(commit, 2)
    assert syncs.count == 1
    for number in range(100):
        put(commit, number, b"%d" % number)
    flush(commit, 3)
    assert syncs.count == 2
    disk.restart()
    again = running(disk)
    assert again.names(STREAMS) == sorted(["first", "second", *map(str, range(100))])
    assert [found(again, config(n)) for n in (0, 99, "second")] == [b"0", b"99", b"2"]


def test_what_is_noted_is_read_like_any_other_and_put_in_place_when_the_makers_pause(
    disk: Any,
) -> None:
    commit = running(disk)
    for number in range(20):
        put(commit, number, b"%d" % number)
    flush(commit, 1)
    flush(commit, 2)
    assert disk.read(config(3)) is None
    assert found(commit, config(3)) == b"3"
    assert "3" in commit.names(STREAMS)
    assert commit.names(STREAMS / "3") == ["meta.json"]
    assert commit.next_deadline() == 2 + PLACE_NS
    now, placed = 2 + PLACE_NS, []
    while (deadline := commit.next_deadline()) is not None:
        now = max(deadline, now)
        flush(commit, now)
        placed.append(sum(disk.read(config(n)) == b"%d" % n for n in range(20)))
        assert [found(commit, config(n)) for n in range(20)] == [b"%d" % n for n in range(20)]
        flush(commit, now)
    assert placed[:3] == [PLACED_FILES, 2 * PLACED_FILES, 20]
    assert now < 2 + PLACE_NS + SECOND
    disk.restart()
    assert [disk.read(config(n)) for n in range(20)] == [b"%d" % n for n in range(20)]
    assert not running(disk).has_fresh


def test_a_clean_stop_leaves_no_journal(disk: Any) -> None:
    commit = running(disk)
    put(commit, "a", b"1")
    flush(commit, 1)
    put(commit, "b", b"2")
    assert commit.drain() == []
    assert disk.names(ROOT) == ["a"]
    assert (disk.read(config("a")), disk.read(config("b"))) == (b"1", b"2")
    put(commit, "b", b"3")  # and it may go on
    assert commit.drain() == []
    assert disk.read(config("b")) == b"3"


def test_what_was_put_in_place_and_removed_does_not_come_back(disk: Any) -> None:
    commit = running(disk)
    for name in "abcdefghijkl":
        put(commit, name, b"x")
    flush(commit, 1)
    flush(commit, 2)
    flush(commit, 2 + PLACE_NS)
    placed = [name for name in "abcdefghijkl" if disk.read(config(name))]
    assert len(placed) == PLACED_FILES  # others are not, so the journal still tells of all
    for name in "abcdefghijkl":
        commit.remove_tree(Owner(), config(name).parent)
    flush(commit, 3 + PLACE_NS)
    assert commit.names(STREAMS) == disk.names(STREAMS)
    disk.restart()
    again = running(disk)
    assert [found(again, config(name)) for name in "abcdefghijkl"] == [None] * 12


def test_a_removal_that_was_noted_is_carried_out_by_the_next_process(
    disk: Any, sim_disk_module: Any
) -> None:
    commit = running(disk)
    put(commit, "a", b"x")
    put(commit, "b", b"x")
    buffer = bytearray(b"message")
    commit.write(Owner(), BlockFile(STREAMS / "a" / "1.blk"), buffer, 0, 7)
    flush(commit, 1)
    commit.remove_tree(Owner(), STREAMS / "a")
    disk.dark_in = 2  # behind write and sync of the note, before the folder is set aside
    with pytest.raises(sim_disk_module.PowerLostError):
        flush(commit, 2)
    disk.restart()
    assert disk.read(STREAMS / "a" / "1.blk") == b"message"
    again = running(disk)
    assert again.names(STREAMS / "a") == []
    assert disk.read(STREAMS / "a" / "1.blk") is None
    assert found(again, config("b")) == b"x"


@pytest.mark.parametrize("is_noted_again", [True, False])
@pytest.mark.parametrize("is_folder", [True, False])
def test_what_cannot_be_removed_is_there_with_all_that_was_noted_of_it(
    disk: Any, monkeypatch: pytest.MonkeyPatch, is_noted_again: bool, is_folder: bool
) -> None:
    """A stream whose folder could not be removed came back without the consumers made last."""
    commit = running(disk)
    put(commit, "a", b"first")
    flush(commit, 1)
    flush(commit, 2)
    flush(commit, 2 + PLACE_NS)
    assert disk.read(config("a")) == b"first"
    put(commit, "a", b"second")
    put(commit, "a/consumers/c", b"consumer")
    flush(commit, 3 + PLACE_NS)

    def failing(*given: Any) -> None:
        if not is_noted_again:
            disk.fail_in = 0  # the note as well
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "set_aside" if is_folder else "remove", failing)
        if is_folder:
            commit.remove_tree(Owner(), STREAMS / "a")
        else:
            commit.remove(Owner(), config("a"))
        taken = commit.take(4 + PLACE_NS)
        assert taken is not None and taken.run()
        commit.complete(taken)
    again = commit
    if is_noted_again:
        disk.restart()
        again = running(disk)
    else:
        flush(commit, 5 + PLACE_NS)
        flush(commit, 6 + 2 * PLACE_NS)
        assert disk.read(config("a/consumers/c")) == b"consumer"
    assert found(again, config("a")) == b"second"
    assert found(again, config("a/consumers/c")) == b"consumer"


def test_the_journal_grows_no_further_than_it_must(
    disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "WORN_BYTES", 10_000)
    monkeypatch.setattr(journal_module, "KEPT_BYTES", 20_000)
    commit, now = running(disk), 1
    for number in range(300):
        put(commit, number % 7, b"%d" % number * 100)
        flush(commit, now)
        now += MILLISECOND
    sizes = [len(disk.read(ROOT / f"journal-{n}") or b"") for n in (0, 1)]
    assert max(sizes) < 25_000
    assert [found(commit, config(n)) for n in range(7)] == [
        b"%d" % max(range(n, 300, 7)) * 100 for n in range(7)
    ]
    put(commit, "large", b"x" * 50_000)
    flush(commit, now)
    while (deadline := commit.next_deadline()) is not None:
        now = max(deadline, now)
        flush(commit, now)
    assert disk.read(config("large")) == b"x" * 50_000
    assert max(len(disk.read(ROOT / f"journal-{n}") or b"") for n in (0, 1)) < 25_000


def test_a_full_disk_holds_configs_up_and_places_them_later(disk: Any) -> None:
    commit, owner = running(disk, room_bytes=0), Owner()
    put(commit, "a", b"1")
    flush(commit, 1)
    used = sum(len(disk.read(ROOT / f"journal-{n}") or b"") for n in (0, 1))
    disk.capacity = used + 20
    put(commit, "b", b"2" * 100, owner)
    taken = commit.take(2)
    assert taken is not None
    taken.run()
    commit.complete(taken)
    assert owner.heard == ["stalled: the disk is full: No space left on device"]
    assert found(commit, config("b")) == b"2" * 100
    assert commit.take(3) is None  # until it is tried again
    disk.capacity = None
    flush(commit, 3 + SECOND)
    assert (commit.has_fresh, commit.is_stalled) == (False, False)
    disk.restart()
    assert found(running(disk), config("b")) == b"2" * 100


@pytest.mark.parametrize("trouble", ["full", "sync"])
def test_who_relies_on_a_folder_that_the_journal_made_keeps_what_is_in_it(
    sim_disk_module: Any, trouble: str
) -> None:
    """The folder was there and its name was not durable, as there was no room for what else was to
    be put in place (simulator's seed 7607879)."""
    for seed in range(30):
        disk = sim_disk_module.SimDisk(Random(seed))
        disk.make_folder(ROOT)
        commit = running(disk, room_bytes=0)
        put(commit, "A/streams/small", b"1")
        put(commit, "B/streams/large", b"2" * 1000)
        flush(commit, 1)
        flush(commit, 2)
        used = disk.used_bytes()
        if trouble == "full":
            disk.capacity = used + 500
        else:
            disk.fail_in, disk.fail_errno = 9, errno.ENOSPC  # the sync of a folder
        flush(commit, 2 + PLACE_NS)
        disk.fail_in = None
        path = config("A/streams/small").with_name("1.blk")
        commit.write(Owner(), BlockFile(path), bytearray(b"acknowledged"), 0, 12)
        flush(commit, 3 + PLACE_NS)
        disk.restart()
        assert disk.read(path) == b"acknowledged"
        again = running(disk)
        assert found(again, config("B/streams/large")) == b"2" * 1000


def test_of_what_found_no_room_and_was_given_up_nothing_comes_back(disk: Any) -> None:
    commit, owner = running(disk, room_bytes=0), Owner()
    put(commit, "a", b"1")
    flush(commit, 1)
    disk.fail_in, disk.fail_errno = 1, errno.ENOSPC  # the sync: what was written may survive
    put(commit, "b", b"2", owner)
    taken = commit.take(2)
    assert taken is not None
    taken.run()
    commit.complete(taken)
    assert owner.heard
    commit.remove_tree(owner, config("b").parent)
    assert commit.drain() == []
    for seed in range(20):
        disk.random.seed(seed)
        disk.restart()
        again = running(disk)
        assert (found(again, config("a")), found(again, config("b"))) == (b"1", None)


def test_trouble_with_a_place_is_told_once_and_the_note_stays(disk: Any) -> None:
    commit, owner = running(disk), Owner()
    put(commit, "a", b"1", owner)
    flush(commit, 1)
    flush(commit, 2)
    for now in (2 + PLACE_NS, 3 + 2 * PLACE_NS):
        disk.fail_in, disk.fail_errno = 1, errno.EIO
        taken = commit.take(now)
        assert taken is not None
        taken.run()
        commit.complete(taken)
        assert commit.take(now + 1) is None  # until it is tried again
        assert owner.heard == ["failed: replace failed: Input/output error"]
        assert found(commit, config("a")) == b"1"
    disk.fail_in = None
    disk.restart()
    assert found(running(disk), config("a")) == b"1"


def journal_file(disk: Any) -> tuple[Path, bytes]:
    """The file that has something in it."""
    for path in (ROOT / "journal-0", ROOT / "journal-1"):
        if stored := disk.read(path):
            return path, stored
    raise AssertionError("no journal")


def test_garbage_where_a_journal_begins_is_damage_and_cannot_become_an_entry(disk: Any) -> None:
    commit = running(disk)
    for number in range(5):
        put(commit, number, b"old")
        flush(commit, 1)
    path, stored = journal_file(disk)
    disk.put(path, b"\xff" * ENTRIES_AT + stored[ENTRIES_AT:])
    journal = Journal(ROOT, disk)
    journal.load()
    assert f"{path} is damaged at byte 0" in journal.damage
    again = running(disk)
    assert again.names(STREAMS) == []
    put(again, 0, b"new")
    flush(again, 1)
    disk.restart()
    third = running(disk)
    assert third.names(STREAMS) == ["0"]
    assert found(third, config(0)) == b"new"


def test_a_journal_without_a_beginning_is_told_of_once(disk: Any) -> None:
    commit = running(disk)
    put(commit, "a", b"old")
    flush(commit, 1)
    path, stored = journal_file(disk)
    disk.put(path, b"\xff" * ENTRIES_AT + stored[ENTRIES_AT:])
    running(disk)
    disk.remove(path.with_name(path.name + ".damaged"))
    journal = Journal(ROOT, disk)
    journal.load()
    assert not journal.damage


def test_a_note_that_failed_leaves_no_hole(disk: Any) -> None:
    commit, owner = running(disk), Owner()
    put(commit, "a", b"1")
    flush(commit, 1)
    disk.fail_in = 0
    put(commit, "b", b"2", owner)
    taken = commit.take(2)
    assert taken is not None
    taken.run()
    commit.complete(taken)
    assert owner.heard
    put(commit, "c", b"3")
    flush(commit, 3)
    disk.restart()
    journal = Journal(ROOT, disk)
    journal.load()
    assert not journal.damage
    assert [journal.content(config(name)) for name in "abc"] == [b"1", None, b"3"]


def test_what_is_in_place_is_removed_without_a_note(disk: Any) -> None:
    commit = running(disk)
    put(commit, "a", b"1")
    flush(commit, 1)
    flush(commit, 1)
    flush(commit, 1 + PLACE_NS)
    before = [disk.read(ROOT / f"journal-{number}") for number in (0, 1)]
    commit.remove_tree(Owner(), config("a").parent)
    flush(commit, 2 + PLACE_NS)
    assert [disk.read(ROOT / f"journal-{number}") for number in (0, 1)] == before


def test_what_a_start_removes_again_does_not_come_back_when_the_note_is_gone(
    sim_disk_module: Any,
) -> None:
    for seed in range(10):
        disk = sim_disk_module.SimDisk(Random(seed))
        disk.make_folder(ROOT)
        commit = running(disk)
        put(commit, "a", b"1")
        commit.write(Owner(), BlockFile(STREAMS / "a" / "1.blk"), bytearray(b"message"), 0, 7)
        flush(commit, 1)
        commit.remove_tree(Owner(), STREAMS / "a")
        disk.dark_in = 2
        with pytest.raises(sim_disk_module.PowerLostError):
            flush(commit, 2)
        disk.restart()
        assert running(disk).drain() == []
        disk.restart()
        assert disk.read(STREAMS / "a" / "1.blk") is None


@pytest.mark.parametrize("seed", range(8))
def test_a_note_that_its_process_did_not_sync_is_durable_before_it_is_believed(
    sim_disk_module: Any, seed: int
) -> None:
    disk = sim_disk_module.SimDisk(Random(seed))
    disk.make_folder(ROOT)
    commit = running(disk)
    put(commit, "stays", b"1")
    put(commit, "goes", b"2")
    flush(commit, 1)
    journal = Journal(ROOT, disk)
    journal.load()
    disk.fail_in = 2  # the sync, after that of the folder and the write
    with pytest.raises(OSError, match="error"):
        journal.remove(STREAMS / "goes", is_folder=True)
    # Killed: the next process finds all that was written, and tells and does accordingly.
    assert [found(running(disk), config(name)) for name in ("stays", "goes")] == [b"1", None]
    disk.restart()
    assert [found(running(disk), config(name)) for name in ("stays", "goes")] == [b"1", None]


def test_folders_that_a_killed_process_made_are_durable_before_the_note_is_gone(
    sim_disk_module: Any,
) -> None:
    for step in range(30):
        disk = sim_disk_module.SimDisk(Random(step))
        disk.make_folder(ROOT)
        commit = running(disk)
        put(commit, "a", b"1")
        flush(commit, 1)
        flush(commit, 1)
        disk.dark_in = step
        with contextlib.suppress(sim_disk_module.PowerLostError):  # the system goes on
            flush(commit, 1 + PLACE_NS)
        disk.dark_in = None
        assert running(disk).drain() == []
        disk.restart()
        assert disk.read(config("a")) == b"1", step


def test_of_a_flipped_byte_anywhere_it_is_told_what_may_be_lost(disk: Any) -> None:
    contents = {str(number): b"content of %d" % number * 3 for number in range(4)}
    commit = running(disk, room_bytes=0)
    for name in ("0", "1"):
        put(commit, name, contents[name])
        flush(commit, 1)
    for name in ("2", "3"):
        put(commit, name, contents[name])
    flush(commit, 1)
    path, stored = journal_file(disk)
    later = stored.index(contents["1"]) + len(contents["1"])  # the last flush begins here
    # What says how far the journal reached outlives a kill, but not always a power cut.
    reached = disk.read(ROOT / "journal-reached")
    told = [0, 0]
    for at, is_killed in itertools.product(range(len(stored)), (True, False)):
        if is_killed:
            disk.put(ROOT / "journal-reached", reached)
        else:
            disk.remove(ROOT / "journal-reached")
        damaged = bytearray(stored)
        damaged[at] ^= 1
        disk.put(path, bytes(damaged))
        journal = Journal(ROOT, disk)
        journal.load()
        again = GroupCommit(disk, journal=journal)
        got = {name: found(again, config(name)) for name in contents}
        wrong = [name for name in contents if got[name] != contents[name]]
        copy = path.with_name(path.name + ".damaged")
        if at >= later and not is_killed:  # it may be torn, so that nobody was told of it
            assert set(wrong) <= {"2", "3"}, at
            assert not journal.damage
            assert not wrong or got[wrong[0]] is None
            continue
        assert len(wrong) <= 1, at
        assert bool(journal.damage) == bool(wrong)
        if wrong:
            told[got[wrong[0]] is None] += 1
            assert disk.read(copy) == bytes(damaged)
            disk.remove(copy)
    assert min(told) > 40  # of damaged contents the stream is known, of a damaged head it is not


@pytest.mark.parametrize("size", [0, 30, ENTRIES_AT, ENTRIES_AT + 5, None])
def test_after_a_kill_a_journal_that_was_cut_short_or_removed_is_told(
    disk: Any, size: int | None
) -> None:
    commit = running(disk, room_bytes=0)
    for name in "ab":
        put(commit, name, name.encode())
        flush(commit, 1)
    path, stored = journal_file(disk)
    if size is None:
        disk.remove(path)
    else:
        disk.put(path, stored[:size])
    journal = Journal(ROOT, disk)
    journal.load()
    assert f"{path} is damaged at byte" in journal.damage
    copies = [name for name in disk.names(ROOT) if name.endswith(".damaged")]
    assert copies == ["journal-0.damaged"]
    disk.remove(ROOT / copies[0])
    journal = Journal(ROOT, disk)
    journal.load()
    assert journal.damage == ""  # it is told once


def test_damage_is_told_until_somebody_removes_the_copy(disk: Any) -> None:
    commit = running(disk)
    for name in "ab":
        put(commit, name, name.encode())
        flush(commit, 1)
    path, _ = journal_file(disk)
    disk.damage(path, ENTRIES_AT)
    for text in (f"{path} is damaged at byte {ENTRIES_AT}:", "at an earlier start"):
        journal = Journal(ROOT, disk)
        journal.load()
        again = GroupCommit(disk, journal=journal)
        assert text in journal.damage
        assert found(again, config("b")) == b"b"
        assert again.drain() == []
    disk.remove(path.with_name(path.name + ".damaged"))
    journal = Journal(ROOT, disk)
    journal.load()
    assert journal.damage == ""


def test_no_room_for_a_copy_of_what_is_damaged_keeps_nobody_from_starting(disk: Any) -> None:
    commit = running(disk)
    for name in "ab":
        put(commit, name, name.encode())
        flush(commit, 1)
    disk.damage(journal_file(disk)[0], ENTRIES_AT)
    disk.capacity = 0
    journal = Journal(ROOT, disk)
    journal.load()
    assert "is damaged" in journal.damage
    assert journal.content(config("b")) == b"b"


def test_what_is_noted_after_a_restart_counts_more_than_what_was_there(disk: Any) -> None:
    """Both files were in use, and the one that has been wiped has a higher number in it than the
    first entry of the other, but not than its last."""
    commit, now = running(disk), 1
    for number in range(3 * PLACED_FILES):
        put(commit, number, b"x")
    flush(commit, now)
    flush(commit, now)
    now += PLACE_NS
    flush(commit, now)  # some are in place, so notes go to the other file from here on
    put(commit, "early", b"1")
    flush(commit, now)
    while disk.read(config(3 * PLACED_FILES - 1)) is None:
        now = max(commit.next_deadline() or 0, now)
        flush(commit, now)
    for number in range(5):
        put(commit, f"late {number}", b"1")
    flush(commit, now)
    assert disk.read(config("early")) is None
    again = running(disk)
    put(again, "early", b"2")
    flush(again, 1)
    disk.restart()
    assert found(running(disk), config("early")) == b"2"


def test_what_was_left_of_a_torn_flush_does_not_come_to_life(disk: Any) -> None:
    commit = running(disk, room_bytes=0)
    put(commit, "a", b"1")
    flush(commit, 1)
    path, before = journal_file(disk)
    for name in ("b", "c"):
        put(commit, name, b"old")
    flush(commit, 1)
    _, after = journal_file(disk)
    torn = bytearray(after)
    torn[len(before)] ^= 1  # the first one did not get there, the second one did
    disk.put(path, bytes(torn))
    disk.remove(ROOT / "journal-reached")  # nor did that
    again = running(disk)
    assert again.names(STREAMS) == ["a"]
    put(again, "b", b"new")  # just as long as what stood there
    flush(again, 1)
    disk.restart()
    third = running(disk)
    assert third.names(STREAMS) == ["a", "b"]
    assert found(third, config("b")) == b"new"


def test_an_interrupted_wipe_leaves_what_there_was(disk: Any, sim_disk_module: Any) -> None:
    for seed in range(40):
        disk = sim_disk_module.SimDisk(Random(seed))
        disk.make_folder(ROOT)
        commit = running(disk, room_bytes=0)
        for name in "abc":
            put(commit, name, name.encode())
        flush(commit, 1)
        flush(commit, 1)
        disk.dark_in = seed
        try:
            flush(commit, 1 + PLACE_NS)
        except sim_disk_module.PowerLostError:
            disk.restart()
        disk.dark_in = None
        journal = Journal(ROOT, disk)
        journal.load()
        assert journal.damage == ""
        again = GroupCommit(disk, journal=journal)
        assert [found(again, config(name)) for name in "abc"] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("turns", range(2))
def test_a_note_of_one_file_is_not_outdone_by_an_older_one_of_the_other(
    disk: Any, turns: int
) -> None:
    commit, now = running(disk), 1
    for _ in range(turns):  # so that it is the other file that has older notes
        put(commit, "first", b"x")
        flush(commit, now)
        flush(commit, now)
        now += PLACE_NS
        flush(commit, now)
    for number in range(20):
        put(commit, number, b"old")
    flush(commit, now)
    flush(commit, now)
    now += PLACE_NS
    flush(commit, now)
    left = [number for number in range(20) if disk.read(config(number)) is None]
    put(commit, left[0], b"new")
    commit.remove_tree(Owner(), config(left[1]).parent)
    flush(commit, now)
    assert found(commit, config(left[0])) == b"new"
    disk.restart()
    again = running(disk)
    assert found(again, config(left[0])) == b"new"
    assert found(again, config(left[1])) is None
    assert again.drain() == []
    assert disk.read(config(left[0])) == b"new"
    assert disk.read(config(left[1])) is None


@pytest.mark.parametrize("part", range(8))
def test_a_power_cut_at_any_step_leaves_what_was_durable_or_what_came_later(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(journal_module, "WORN_BYTES", 400)
    monkeypatch.setattr(journal_module, "KEPT_BYTES", 600)
    for seed in range(part * 60, part * 60 + 60):
        _live_through(sim_disk_module, Random(seed))


class World:
    """What each of some streams may look like: config, and a message of the same incarnation."""

    def __init__(self, names: str) -> None:
        nothing: tuple[bytes | None, bytes | None] = (None, None)
        self.known = {name: [nothing] for name in names}

    def add(self, name: str, config: bytes | None, message: bytes | None) -> None:
        self.known[name].append((config, message))

    def settled(self) -> None:
        self.known = {name: states[-1:] for name, states in self.known.items()}

    def check(self, name: str, now: tuple[bytes | None, bytes | None]) -> None:
        configs = {config for config, _ in self.known[name]}
        messages = {message for _, message in self.known[name]}
        assert now[0] in configs, (name, now, self.known[name])
        assert now[1] in messages, (name, now, self.known[name])
        if now[1] is not None:  # a message never without its config, nor with another's
            assert now[0] is not None, (name, now, self.known[name])
            assert now[0].split(b".")[0] == now[1].split(b".")[0], (name, now, self.known[name])
        if None not in messages:
            assert now[1] is not None
        self.known[name] = [now]


def _live_through(sim_disk_module: Any, chance: Random) -> None:
    disk = sim_disk_module.SimDisk(chance)
    disk.make_folder(ROOT)
    disk.make_folder(STREAMS)
    world, clock, number = World("abc"), 1, 0
    for _ in range(6):  # lives of the process
        commit = running(disk, room_bytes=chance.choice([0, 300]))
        now = {}
        for name in "abc":
            message = found(commit, STREAMS / name / "1.blk")
            message = message if message is not None and message.endswith(b".m") else None  # torn
            now[name] = (found(commit, config(name)), message)
            world.check(name, now[name])
        life = chance.choice(["cut", "kill", "stop"])
        disk.dark_in = chance.randrange(120) if life == "cut" else None
        try:
            for _ in range(chance.randrange(30)):
                number += 1
                clock += chance.choice([1, 30 * MILLISECOND, PLACE_NS])
                name = chance.choice("abc")
                kept, message = now[name]
                wish = chance.choice(["config", "config", "message", "remove", "flush", "flush"])
                if wish == "config":
                    head = kept.split(b".")[0] if kept is not None else b"%d" % number
                    now[name] = (head + b".%d" % number + b"x" * chance.choice([1, 200]), message)
                    put(commit, name, now[name][0])
                elif wish == "message" and kept is not None and message is None:
                    data = bytearray(kept.split(b".")[0] + b".m")
                    now[name] = (kept, bytes(data))
                    file = BlockFile(STREAMS / name / "1.blk")
                    commit.write(Owner(), file, data, 0, len(data))
                elif wish == "remove":
                    now[name] = (None, None)
                    commit.remove_tree(Owner(), STREAMS / name)
                elif wish == "flush":
                    flush(commit, clock)
                    if not (commit.has_fresh or commit.is_stalled):
                        world.settled()
                    continue
                world.add(name, *now[name])
            if life == "stop":
                assert commit.drain() == []
                world.settled()
        except sim_disk_module.PowerLostError:
            life = "cut"
        if life == "cut":
            disk.restart()
        else:
            disk.dark_in = None
