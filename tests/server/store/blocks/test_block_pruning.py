"""Removing messages: single ones, from the front, by subject, in slices."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.kernels import columns
from jetstream_server.store.blocks import block_pruning, block_subjects
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/s")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


def filled(disk, count: int = 400) -> tuple[GroupCommit, FileStore]:
    """Return a store of many small blocks, message `n` stored at time `n`."""
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    for number in range(1, count + 1):
        store.append(b"s.%d" % (number % 3), b"", b"x" * 40, number)
    assert commit.drain() == []
    assert len(disk.names(FOLDER)) > 20
    return commit, store


def purged_some(store, wanted, start, stop, count_max):
    """Return where to go on and how many went; what is said to be gone is what is."""
    before = sequences(store)
    following, purged = store.purge_some(wanted, start, stop, count_max)
    took = [each for each in before if store.load(each) is None]
    assert len(took) == purged.messages
    assert set(took) <= set(purged.gone.sequences)
    assert not set(purged.gone.sequences).intersection(sequences(store))
    return following, purged.messages


def sequences(store):
    return [s for s in range(store.first_seq, store.last_seq + 1) if store.load(s) is not None]


def test_a_purge_below_a_sequence_takes_a_block_at_a_time(disk):
    commit, store = filled(disk)
    start, removed, calls = store.first_seq, 0, 0
    while start < 351:
        start, count = purged_some(store, None, start, 351, 1 << 40)
        assert count <= 40
        removed += count
        calls += 1
    assert (removed, store.first_seq, store.state().messages) == (350, 351, 50)
    assert calls > 10
    assert sum(store.subject_counts(b">").values()) == 50
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
    assert again.state() == store.state()


def test_what_may_go_at_most_is_kept_to(disk):
    _, store = filled(disk)
    start, left = store.first_seq, 123
    while left:
        start, count = purged_some(store, None, start, 401, left)
        left -= count
    assert (store.first_seq, store.state().messages) == (124, 277)


def test_a_slice_says_where_the_next_one_begins(disk):
    _, store = filled(disk)
    first, second, third = (block.last_seq + 1 for block in store._list.blocks[:3])
    assert purged_some(store, None, 1, 401, 400) == (first, first - 1)
    in_second = len([n for n in range(first, second) if n % 3 == 1])
    assert purged_some(store, store.filter([b"s.1"]), first, 401, 400) == (second, in_second)
    assert purged_some(store, None, second, second + 5, 400) == (second + 5, 5)
    assert purged_some(store, None, second + 5, 401, 2) == (401, 2), "no more may go"
    in_third = len([n for n in range(second + 7, third) if n % 3 == 1])
    before = store.state()
    assert purged_some(store, store.filter([b"s.1"]), first, third, 400) == (third, in_third)
    assert purged_some(store, store.filter([b"none"]), first, third, 400) == (third, 0)
    assert store.state().messages == before.messages - in_third


@pytest.mark.parametrize("keep", [1, 50])
def test_the_newest_are_kept(disk, keep):
    _, store = filled(disk)
    ones = list(range(1, 401, 3))
    assert store.purge(store.filter([b"s.1"]), 0, keep).messages == len(ones) - keep
    left = sorted({*range(1, 401)} - {*ones[:-keep]})
    assert sequences(store) == left
    assert store.purge(None, 0, keep).messages == len(left) - keep
    assert sequences(store) == left[-keep:]
    assert store.purge(None, 0, keep).messages == store.purge(None, 0, keep + 1).messages == 0


def test_of_a_purge_below_a_sequence_as_many_are_kept_wherever_they_are(disk):
    _, store = filled(disk)
    wanted = store.filter([b"s.1"])
    assert store.purge(wanted, 100, 130).messages == 4
    assert store.purge(wanted, 100, 0).messages == 29
    assert sequences(store)[66:68] == [100, 101]
    assert store.purge(None, 100, 0).messages == 66
    assert store.first_seq == 100


def test_a_subject_without_messages_is_not_counted(disk):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit)
    for number, subject in enumerate([b"a", b"b", b"b"], 1):
        store.append(subject, b"", b"x", number)
    for sequence, left in ((2, 2), (1, 1), (3, 0)):
        assert store.delete([sequence]) == 1
        assert store.state().num_subjects == left
        commit.drain()
        assert FileStore(FOLDER, GroupCommit(disk)).state().num_subjects == left


def test_what_is_not_there_is_not_deleted(disk):
    _, store = filled(disk)
    store.append(b"s.0", b"", b"x", 500, 450)
    assert store.delete([7, 7]) == 1
    before = store.state()
    assert store.delete([0, 7, 420, 449, 451]) == 0, "deleted, in a gap, or never there"
    assert store.state() == before
    assert store.delete([420, 400, 7, 450, 0]) == 2


@pytest.mark.parametrize("between", ["nothing", "append", "delete", "purge", "renumber"])
def test_subjects_of_a_block_get_their_numbers_in_slices(disk, monkeypatch, between):
    """Whatever happens between two of them, what matched goes and nothing else."""
    monkeypatch.setattr(block_pruning, "NUMBERED_MAX", 3)
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    for number in range(1, 201):
        store.append(b"s.%d.%d" % (number % 2, number), b"", b"x" * 40, number)
    assert commit.drain() == []
    live = set(range(1, 201))
    wanted, start, slices = store.filter([b"s.1.*"]), 1, 0
    while start < 201:
        before = start
        start, removed = purged_some(store, wanted, start, 201, 1 << 40)
        live -= {number for number in range(before, start) if number % 2}
        assert removed or start == before or start == 201
        slices += start == before
        match between:
            case "append":
                assert store.append(b"s.1.new.%d" % slices, b"", b"", 9) == store.last_seq
                live.add(store.last_seq)
            case "delete":
                gone = min(live, default=0)
                assert store.delete([gone]) == (gone in live)
                live.discard(gone)
            case "purge":
                store.purge(store.filter([b"s.0.%d" % (slices % 200)]), 0, 0)
                live -= {slices % 200} if slices % 2 == 0 else set()
            case "renumber" if slices in (3, 30):
                store._log.rotate()
                store._table.prepare_to_renumber(1000)
                store._log._renumber()
        commit.drain()
    assert slices > 50
    assert set(sequences(store)) == live
    assert sum(store.subject_counts(b">").values()) == len(live)
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
    assert set(sequences(again)) == live


def test_a_subject_is_rolled_up_without_going_through_the_blocks(disk, monkeypatch):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=20_000)
    for number in range(1, 2001):
        store.append(b"s.%d" % number, b"", b"x" * 40, number)
    commit.drain()
    looked_at = [0]

    class Counted:
        """The kernels, which note how many entries each may look at."""

        withdraw = staticmethod(columns.withdraw)

        @staticmethod
        def bury(*, start, stop, **named):
            looked_at[0] += stop - start
            return columns.bury(start=start, stop=stop, **named)

        @staticmethod
        def count(ids, flags, alive, start, stop):
            looked_at[0] += stop - start
            return columns.count(ids, flags, alive, start, stop)

        @staticmethod
        def find(ids, alive, start, stop, number, *, is_last=False):
            if not is_last:  # that begins at a bound which most often is one
                looked_at[0] += stop - start
            return columns.find(ids, alive, start, stop, number, is_last=is_last)

    monkeypatch.setattr(block_pruning, "columns", Counted)
    monkeypatch.setattr(block_subjects, "columns", Counted)
    subjects = list(range(2, 2001, 7))
    for turn in range(3):  # each finds what the one before has left
        for number in subjects:
            sequence = store.append(b"s.%d" % number, b"", b"new %d" % turn, 3000)
            assert store.purge(store.filter([b"s.%d" % number]), sequence, 0).messages == 1
            assert store.purge(store.filter([b"s.%d" % number]), sequence, 0).messages == 0
    assert looked_at[0] == 0
    last = 2000 + 3 * len(subjects)
    stays = [*sorted({*range(1, 2001)} - {*subjects}), *range(last - len(subjects) + 1, last + 1)]
    assert sequences(store) == stays
    assert all(store.subject_count(b"s.%d" % number) == 1 for number in range(1, 2001))
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=20_000)
    assert (sequences(again), again.state()) == (stays, store.state())


@pytest.mark.parametrize("compression", ["none", "s2"])
@pytest.mark.parametrize("few", [0, 3, 64])
def test_purges_of_one_subject_leave_what_a_list_would(disk, monkeypatch, compression, few):
    monkeypatch.setattr(block_pruning, "FEW_MESSAGES", few)
    random = Random(few)
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    store.compression = compression
    held: dict[int, bytes] = {}
    for number in range(1, 2001):
        subject = b"s.%d" % random.randrange(12)
        held[store.append(subject, b"", b"x" * 40, number)] = subject
        choice = random.randrange(12)
        if choice == 0:
            below, keep = random.choice((0, number, random.randrange(number))), random.randrange(3)
            mine = [each for each in held if held[each] == subject]
            gone = [each for each in mine[: max(len(mine) - keep, 0)] if not below or each < below]
            assert store.purge(store.filter([subject]), below, keep).messages == len(gone)
        elif choice == 1:
            gone = [random.choice(list(held))] if held else []
            store.delete(gone)
        elif choice == 2:
            gone = list(held)[:2]
            if gone:
                store.truncate_front(gone[-1] + 1)
        else:
            gone = []
        for each in gone:
            del held[each]
        if not number % 50:
            assert commit.drain() == []
            assert sequences(store) == list(held)
        if not number % 500:
            store.close()
            commit.drain()
            store = FileStore(FOLDER, commit, block_bytes=2000)
            store.compression = compression
    assert sequences(store) == list(held)
    counts = {subject: [*held.values()].count(subject) for subject in held.values()}
    assert store.subject_counts(b">") == counts


@pytest.mark.parametrize("is_last_there", [True, False])
def test_one_message_takes_the_place_of_all_without_going_through_them(
    disk, monkeypatch, is_last_there
):
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=20_000)
    for number in range(1, 2001):
        store.append(b"s.%d" % (number % 500), b"", b"x" * 40, number)
    commit.drain()

    class Idle:
        """The kernels, none of which is to be asked for."""

    last = store.append(b"s.7", b"", b"all", 3000)
    if not is_last_there:
        assert store.delete([last]) == 1
    with monkeypatch.context() as patched:
        patched.setattr(block_pruning, "columns", Idle)
        assert store.purge(None, last, 0).messages == 2000
    stays = [last] * is_last_there
    assert sequences(store) == stays
    assert store.subject_counts(b">") == ({b"s.7": 1} if is_last_there else {})
    assert store.state().num_subjects == len(stays)
    assert store.append(b"s.7", b"", b"next", 3001) == last + 1
    assert store.subject_count(b"s.7") == 1 + is_last_there
    commit.drain()
    again = FileStore(FOLDER, GroupCommit(disk), block_bytes=20_000)
    assert (sequences(again), again.state()) == ([*stays, last + 1], store.state())
    assert again.subject_counts(b">") == store.subject_counts(b">")
