"""Limits: what goes, and how much of it at a time."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.kernels import columns
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store import memory
from jetstream_server.store.blocks import block_log, compaction, enforcement, subjects
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Limits

from tests.traced_lines import lines_of

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


def filled(disk, count: int = 400) -> tuple[GroupCommit, FileStore]:
    """Return a store of many small blocks, message `n` stored at time `n`."""
    commit = GroupCommit(disk)
    store = FileStore(FOLDER, commit, block_bytes=2000)
    for number in range(1, count + 1):
        store.append(b"s.%d" % (number % 3), b"", b"x" * 40, number)
    assert commit.drain() == []
    assert len(disk.names(FOLDER)) > 20
    return commit, store


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
    monkeypatch.setattr(enforcement, "DELETED_AT_ONCE", 7)
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


def test_limits_reached_in_slices_spare_what_they_would_have_spared_at_once(disk, monkeypatch):
    monkeypatch.setattr(enforcement, "DELETED_AT_ONCE", 2)
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


def test_much_that_is_too_old_goes_in_slices_and_everything_at_once(disk):
    _, store = filled(disk)
    age, calls = Limits(max_age_ns=100), 0
    while (due := store.next_expiry(100)) is not None and due <= 450:
        assert store.enforce(age, 450)
        calls += 1
    assert (store.first_seq, calls > 5) == (351, True)
    assert store.enforce(age, 1000) == [(351, 401)]
    assert store.state().messages == 0


@pytest.mark.parametrize("block_bytes", [1000, 100_000])
def test_a_store_is_within_limits_up_to_the_last_byte(disk, block_bytes):
    store, _ = open_store(disk, block_bytes=block_bytes)
    publish(store, 30)
    before = store.state()
    exact = Limits(max_msgs=30, max_bytes=before.bytes)
    assert (store.exceeds(exact), store.enforce(exact, 0)) == (False, [])
    assert store.state() == before
    for limits, start in ((Limits(max_bytes=before.bytes - 1), 1), (Limits(max_msgs=28), 2)):
        assert store.exceeds(limits)
        assert store.enforce(limits, 0) == [(start, start + 1)]
        assert not store.exceeds(limits)
    front = store._list.blocks[0]
    left = Limits(max_bytes=store.state().bytes - front.accounted)
    assert store.enforce(left, 0) == [(3, front.last_seq + 1)]


@pytest.mark.parametrize("limits", [Limits(max_msgs=0), Limits(max_bytes=0)])
def test_a_limit_of_nothing_leaves_nothing(disk, limits):
    store, _ = open_store(disk)
    publish(store, 3)
    assert store.exceeds(limits)
    assert store.enforce(limits, 0) == [(1, 4)]
    assert (store.state().messages, store.exceeds(limits)) == (0, False)


def test_a_message_expires_when_it_is_as_old_as_may_be(disk):
    _, store = filled(disk)
    assert store.next_expiry(100) == 101
    assert store.enforce(Limits(max_age_ns=100), 100) == []
    assert store.enforce(Limits(max_age_ns=100), 101) == [(1, 2)]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_trimmed_in_slices_is_always_the_oldest_of_a_subject_that_has_too_many(
    disk, monkeypatch, seed
):
    """Whatever comes, goes and is rewritten between the slices, and however few they look at."""
    random = Random(seed)
    monkeypatch.setattr(enforcement, "_FEW_SUBJECTS", random.choice([0, 0, 3]))
    monkeypatch.setattr(enforcement, "WALKED_AT_ONCE", random.choice([1, 3, 20]))
    monkeypatch.setattr(enforcement, "NUMBERED_MAX", random.choice([1, 5, 100]))
    monkeypatch.setattr(enforcement, "DELETED_AT_ONCE", random.choice([1, 4, 50]))
    monkeypatch.setattr(enforcement, "LOOKED_AT_ONCE", random.choice([1, 4, 100]))
    monkeypatch.setattr(enforcement, "GROWN_AT_ONCE", random.choice([1, 5, 1000]))
    monkeypatch.setattr(block_log, "RENUMBER_MIN", 2)
    monkeypatch.setattr(compaction, "COMPACT_MIN_BYTES", 100)
    options = {"block_bytes": random.choice([600, 3000])}
    store, commit = open_store(disk, **options)
    subjects = [b"s.%d" % number for number in range(14)]
    held: dict[bytes, list[int]] = {subject: [] for subject in subjects}
    limit, trimmed, busy = 2, 0, 0

    def append(count):
        for subject in random.choices(subjects, k=count):
            held[subject].append(store.append(subject, b"", b"x" * random.randrange(40), 5))

    def enforce():
        nonlocal trimmed
        for sequence, following in store.enforce(Limits(max_msgs_per_subject=limit), 5):
            assert following == sequence + 1
            (subject,) = [each for each, its in held.items() if sequence in its]
            assert held[subject][0] == sequence, "it is the oldest"
            assert len(held[subject]) > limit, "the subject has too many"
            held[subject].pop(0)
            trimmed += 1
        for subject, its in held.items():
            assert store.subject_count(subject) == len(its)
            if its:
                assert store._table.firsts[store._table.ids[subject]] <= its[0]

    append(60)
    for _ in range(60):
        act = random.randrange(12)
        if act < 5:
            enforce()
            busy += bool(store._enforcement._overfull)
        elif act < 7:
            append(random.randrange(1, 6))
        elif act == 7:
            live = [sequence for its in held.values() for sequence in its]
            if random.random() < 0.7:  # so that some have no more than they may have
                live = max(held.values(), key=lambda its: (len(its), random.random()))[1:]
            gone = random.sample(live, min(len(live), random.choice([3, 9])))
            assert store.delete(gone, erase=random.random() < 0.5) == len(gone)
            for its in held.values():
                its[:] = [sequence for sequence in its if sequence not in gone]
        elif act == 8:
            subject = random.choice(subjects)
            assert store.purge(store.filter([subject]), 0, 0).messages == len(held[subject])
            held[subject].clear()
        elif act == 9:
            limit = random.choice([1, 2, 5, -1])
        elif act == 10:
            commit.drain()
        else:
            store.close()
            commit.drain()
            store, commit = open_store(disk, **options)
        if act in (10, 11):
            append(random.choice([0, 40]))
    limit = max(limit, 1)
    while store.exceeds(Limits(max_msgs_per_subject=limit)):
        commit.drain()
        enforce()
    enforce()
    assert all(len(its) <= limit for its in held.values())
    assert sequences(store) == sorted(sequence for its in held.values() for sequence in its)
    assert (trimmed, busy) > (10, 3)


def test_a_subject_that_others_trimmed_meanwhile_is_as_any_other_again(disk, monkeypatch):
    monkeypatch.setattr(enforcement, "_FEW_SUBJECTS", 0)
    monkeypatch.setattr(enforcement, "WALKED_AT_ONCE", 2)
    store, _ = open_store(disk)
    for subject in (b"a", b"a", b"b", b"a", b"b", b"b", b"b"):
        publish(store, 1, subject)
    store.delete([4])
    limits = Limits(max_msgs_per_subject=2)
    publish(store, 1, b"a")
    assert store.enforce(limits, 5) == [(1, 2)]
    store.delete([8])  # `a` has one less than it may have
    publish(store, 1, b"b")
    assert store.enforce(limits, 5) == [(3, 4)]
    publish(store, 2, b"a")
    removed = store.enforce(limits, 5)
    while store.exceeds(limits):
        removed += store.enforce(limits, 5)
    assert sorted(removed) == [(2, 3), (5, 6), (6, 7)]
    assert sequences(store) == [7, 9, 10, 11]


def test_a_subject_at_its_limit_when_the_walk_passes_it_loses_its_oldest_later(disk, monkeypatch):
    monkeypatch.setattr(enforcement, "_FEW_SUBJECTS", 0)
    monkeypatch.setattr(enforcement, "WALKED_AT_ONCE", 1)
    store, _ = open_store(disk)
    for subject in (b"b", b"a", b"a", b"a", b"b", b"b", b"b"):
        publish(store, 1, subject)
    limits = Limits(max_msgs_per_subject=2)
    assert store.enforce(limits, 5) == [(1, 2)]
    store.delete([4])
    for _ in range(2):
        assert store.enforce(limits, 5) == []  # passes both messages of `a`
    publish(store, 1, b"a")
    removed = []
    while store.exceeds(limits):
        removed += store.enforce(limits, 5)
    assert sorted(removed) == [(2, 3), (5, 6)]
    assert sequences(store) == [3, 6, 7, 8]


@pytest.mark.parametrize("grown", [1000, 1])
def test_what_came_while_no_limit_held_goes_some_at_a_time(disk, monkeypatch, grown):
    """Of 300,000 subjects it took more than 100 s, in one piece."""
    monkeypatch.setattr(enforcement, "GROWN_AT_ONCE", 100)
    monkeypatch.setattr(enforcement, "LOOKED_AT_ONCE", 100)
    monkeypatch.setattr(enforcement, "WALKED_AT_ONCE", 100)
    monkeypatch.setattr(enforcement, "DELETED_AT_ONCE", 50)
    store, commit = open_store(disk, block_bytes=4000)
    limits, subjects = Limits(max_msgs_per_subject=1), [b"s.%d" % n for n in range(grown)]
    for subject in subjects:
        store.append(subject, b"", b"x", 5)
    while store.exceeds(limits):
        store.enforce(limits, 5)
    assert store.enforce(limits, 5) == []
    for subject in subjects * (2000 // grown):
        store.append(subject, b"", b"x", 5)
    calls = 0
    while store.enforce(limits, 5) or store.exceeds(limits):
        commit.drain()
        calls += 1
        assert lines_of(lambda: store.enforce(limits, 5)) < 15_000
    assert calls > 10 and store.state().messages == grown
    assert sequences(store) == list(range(store.last_seq - grown + 1, store.last_seq + 1))


def test_what_is_noted_while_no_limit_holds_has_a_bound(disk, monkeypatch):
    """One more of seven hundred thousand numbers took 35 ms."""
    monkeypatch.setattr(block_log, "RECENT_MAX", 20)
    monkeypatch.setattr(enforcement, "GROWN_AT_ONCE", 10)
    store, _ = open_store(disk)
    store.enforce(Limits(max_msgs_per_subject=1), 5)
    for number in range(100):
        publish(store, 1, b"s.%d" % number)
    publish(store, 1, b"s.99")
    assert len(store._table.recent) == 21
    while store.exceeds(Limits(max_msgs_per_subject=1)) or store._table.recent:
        store.enforce(Limits(max_msgs_per_subject=1), 5)
    assert store.subject_counts(b">") == {b"s.%d" % number: 1 for number in range(100)}


def test_a_limit_for_each_of_many_subjects_takes_a_walk_and_no_search(disk, monkeypatch):
    """To look for five hundred of them in blocks of a hundred thousand took half a second."""
    store, commit = open_store(disk, block_bytes=20_000)
    for _ in range(3):
        run = PubRun.of([(b"s.%d" % number, b"", b"", b"") for number in range(2000)])
        store.append_run(run, 0, run.count, 5)
    store.close()
    commit.drain()
    store, commit = open_store(disk)
    assert len(store._list.blocks) > 10
    found, numbered = [], []
    find, number_names = columns.find, columns.number_names
    monkeypatch.setattr(columns, "find", lambda *given, **more: found.append(find(*given, **more)))

    def counted(names, lengths, ids):
        numbered.append(len(lengths))
        return number_names(names, lengths, ids)

    monkeypatch.setattr(columns, "number_names", counted)
    monkeypatch.setattr(enforcement, "NUMBERED_MAX", 100)
    limits, gone, most = Limits(max_msgs_per_subject=1), [], 0
    while not gone or store.exceeds(limits):
        numbered.clear()
        removed = store.enforce(limits, 5)
        assert len(removed) <= enforcement.DELETED_AT_ONCE
        most = max(most, sum(numbered))
        gone += removed
        commit.drain()
    assert gone == [(sequence, sequence + 1) for sequence in range(1, 4001)]
    assert found == []
    assert most <= 600  # a rewritten block is read from its files, and so numbered again


def reopened(disk, subjects: int) -> tuple[GroupCommit, FileStore]:
    """Return a store of several blocks, message `n` of a subject of its own and stored at time `n`,
    in which no subject has a number yet."""
    store, commit = open_store(disk, block_bytes=10_000)
    for number in range(1, subjects + 1):
        store.append(b"s.%d" % number, b"", b"", number)
    store.close()
    commit.drain()
    store, commit = open_store(disk)
    assert len(store._list.blocks) > 4
    return commit, store


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_msgs=10),
        Limits(max_bytes=400),
        Limits(max_age_ns=10),
        Limits(max_msgs=1990),
    ],
)
def test_few_subjects_of_what_is_removed_are_numbered_at_a_time(disk, monkeypatch, limits):
    """Eight blocks of 60,000 subjects each took 200 ms."""
    monkeypatch.setattr(enforcement, "NUMBERED_MAX", 50)
    monkeypatch.setattr(enforcement, "EMPTIED_AT_ONCE", 100)
    commit, store = reopened(disk, 2000)
    numbered = []
    number_names = columns.number_names

    def counted(names, lengths, ids):
        numbered.append(len(lengths))
        return number_names(names, lengths, ids)

    monkeypatch.setattr(columns, "number_names", counted)

    def is_over() -> bool:
        due = store.next_expiry(limits.max_age_ns) if limits.max_age_ns else None
        return store.exceeds(limits) or (due is not None and due <= 2001)

    gone, calls = [], 0
    while is_over():
        numbered.clear()
        gone += store.enforce(limits, 2001)
        assert sum(numbered) <= 50
        commit.drain()
        calls += 1
    assert calls > 5
    assert [start for start, _ in gone] == [1, *[stop for _, stop in gone[:-1]]]
    left = sequences(store)
    assert left == list(range(gone[-1][1], 2001)) and left
    if limits.max_msgs >= 0:
        assert len(left) == limits.max_msgs
    assert store.subject_counts(b">") == {b"s.%d" % number: 1 for number in left}


def test_few_messages_of_small_blocks_are_removed_at_a_time(disk, monkeypatch):
    monkeypatch.setattr(enforcement, "EMPTIED_AT_ONCE", 60)
    _, store = filled(disk)
    while store.exceeds(Limits(max_msgs=20)):
        removed = store.enforce(Limits(max_msgs=20), 400)
        assert sum(stop - start for start, stop in removed) <= 60
    assert sequences(store) == list(range(381, 401))


def test_all_are_looked_at_before_some_would_be_noted_no_more():
    assert subjects.RECENT_MAX > enforcement.GROWN_AT_ONCE
