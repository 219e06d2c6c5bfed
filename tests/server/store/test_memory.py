"""MemoryStore on its own; the model test holds it against FileStore."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from jetstream_server.kernels.deliveries import encode_deliveries
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store import memory, sequence_order
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Limits
from jetstream_server.store.sequence_order import SequenceOrder

from tests.traced_lines import lines_of


def filled(count, subjects=2):
    store = MemoryStore()
    for index in range(count):
        store.append(b"s.%d" % (index % subjects), b"", b"x", index)
    return store


@pytest.fixture(autouse=True, params=["as they are", "small"])
def parts(request, monkeypatch):
    """All that a store does it does as well with its messages in very many parts."""
    if request.param == "small":
        monkeypatch.setattr(memory, "_PART_MAX", 8)
        monkeypatch.setattr(memory, "_SEQUENCES_MAX", 3)


def test_accounts_bytes_as_the_genuine_server():
    store = MemoryStore()
    store.append(b"s.0", b"", b"x", 1)
    assert store.state().bytes == 20  # measured at nats-server 2.15
    store.append(b"s.0", b"HEAD", b"x", 1)
    assert store.state().bytes == 44


def test_deleting_at_either_end():
    store = filled(4)
    store.delete([4])
    state = store.state()
    assert (state.first_seq, state.last_seq, state.num_deleted) == (1, 4, 1)
    store.delete([1])
    assert (store.first_seq, store.deleted()) == (2, [4])
    store.delete([2, 3])
    state = store.state()
    assert (state.first_seq, state.last_seq, state.num_deleted, state.first_ts) == (5, 4, 0, 0)


def test_never_used_and_purged():
    store = MemoryStore()
    assert (store.state().first_seq, store.deleted()) == (0, [])
    store.purge(None, 0, 0)
    assert (store.state().first_seq, store.state().last_seq) == (1, 0)
    store.truncate_front(10)
    assert (store.state().first_seq, store.state().last_seq) == (10, 9)


def test_limits():
    store = filled(10)
    assert store.enforce(Limits(max_msgs=8), 0) == [(1, 3)]
    assert sorted(store.enforce(Limits(max_msgs_per_subject=2), 0)) == [
        (s, s + 1) for s in range(3, 7)
    ]
    assert store.enforce(Limits(max_bytes=60), 0) == [(7, 8)]
    assert store.enforce(Limits(max_age_ns=5), 12) == [(8, 9)]
    assert store.enforce(Limits(max_bytes=0), 12) == [(9, 11)]


@pytest.mark.parametrize("others", [Limits(max_msgs=1000), Limits(max_bytes=20_000)])
def test_what_has_room_once_subjects_are_trimmed_stays(others):
    """A call trims 2,500 messages; then what was in front went for the count of the rest."""
    store = MemoryStore()
    store.append(b"keep", b"", b"", 1)
    for _ in range(6000):
        store.append(b"a", b"", b"", 1)
    limits = replace(others, max_msgs_per_subject=5)
    calls = 1
    store.enforce(limits, 2)
    while store.exceeds(limits):
        store.enforce(limits, 2)
        calls += 1
    assert store.subject_counts(b">") == {b"keep": 1, b"a": 5}
    assert calls > 2


def test_windows_feed_the_deliveries_kernel():
    store = filled(4)
    window = store.window(store.filter([b"s.1"]), 1, 10, 1000)
    frames, _ = encode_deliveries(
        window.buffer,
        window.positions,
        window.sequences,
        0,
        2,
        b"7",
        b"$JS.ACK.S.C.",
        1,
        1,
        2,
        True,
    )
    assert frames.count(b"MSG s.1 7 $JS.ACK.S.C.1.") == 2
    assert window.next_seq == 5


def test_many_front_removals_stay_cheap():
    store = filled(5000, subjects=1)
    for sequence in range(1, 5001):
        assert store.delete([sequence]) == 1
        assert store.first_seq == sequence + 1
    assert len(store._order) < 2000


def test_one_call_looks_at_so_many_messages_and_no_more(monkeypatch):
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 10)
    store = MemoryStore()
    for number in range(35):
        store.append(b"s.%d" % (number == 30), b"", b"", 5)
    wanted = store.filter([b"s.1"])
    window, calls = store.window(wanted, 1, 5, 1000), 1
    while not len(window):
        assert window.next_seq == 10 * calls + 1
        window, calls = store.window(wanted, window.next_seq, 5, 1000), calls + 1
    assert (list(window.sequences), calls) == ([31], 4)
    assert store.window(wanted, 32, 5, 1000).next_seq == 36
    for start, stop, following, gone in ((1, 36, 11, []), (31, 36, 36, [31]), (1, 8, 8, [])):
        at, purged = store.purge_some(wanted, start, stop, 100)
        assert (at, purged.messages, list(purged.gone.sequences)) == (following, len(gone), gone)


def test_ages_are_kept_to_a_little_at_a_time(monkeypatch):
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 10)
    store = MemoryStore()
    for _ in range(25):
        store.append(b"s", b"", b"", 5)
    limits = Limits(max_age_ns=10)
    assert store.enforce(limits, 100) == [(1, 11)]
    assert store.next_expiry(10) == 15
    assert store.enforce(limits, 100) == [(11, 21)]
    assert store.enforce(limits, 100) == [(21, 26)]
    assert store.next_expiry(10) is None


def test_what_very_many_leave_behind_is_handed_over(monkeypatch):
    """However many go at once, the state is as if they had gone one by one."""
    random = Random(7)
    left: list[Any] = []
    for _ in range(60):
        quick, plain = MemoryStore(), MemoryStore()
        quick.leave_to(left.append)
        for number in range(1, 40):
            act = random.randrange(5)
            subject = b"s.%d" % random.randrange(3)
            below, keep = random.choice((0, number)), random.choice((0, 0, 2))
            for store, dropped in ((quick, 3), (plain, 1000)):
                monkeypatch.setattr(memory, "_DROPPED_AT_ONCE", dropped)
                monkeypatch.setattr(memory, "_KEPT_MAX", 8)
                if act < 3:
                    store.append(subject, b"", b"x" * number, number)
                elif act == 3:
                    store.purge(store.filter([subject]), below, keep)
                else:
                    store.truncate_front(max(store.last_seq - keep, 1))
            assert quick.state() == plain.state()
            assert quick.deleted() == plain.deleted()
            for pattern in (b"s.*", b"s.1", b">"):
                wanted, others = quick.filter([pattern]), plain.filter([pattern])
                assert quick.load_last(wanted) == plain.load_last(others)
                assert quick.load_next(wanted, 2) == plain.load_next(others, 2)
                assert quick.count(wanted, 0) == plain.count(others, 0)
                assert quick.subject_counts(pattern) == plain.subject_counts(pattern)
            assert quick.sequence_at(number // 2) == plain.sequence_at(number // 2)
        order = quick._order
        live = filter(quick._messages.__contains__, order.sequences.between(order.head, len(order)))
        assert list(live) == list(quick._messages) == sorted(quick._messages)
    assert len(left) > 100, "it was the quick way at times"


def test_a_rollup_looks_at_its_subject_alone():
    store = filled(5000, subjects=2500)
    assert lines_of(lambda: store.purge(store.filter([b"s.7"]), 0, 0)) < 200
    assert store.subject_count(b"s.7") == 0
    assert lines_of(lambda: store.load_next(store.filter([b"s.2499"]), 0)) < 200


@pytest.mark.parametrize("seed", range(20))
def test_the_first_message_of_a_time_is_found_among_dead_ones(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(sequence_order, "DEAD_MIN", random.choice([1, 50]))
    store, now = MemoryStore(0), 100
    for _ in range(200):
        now += random.choice([0, 0, 1, 7])
        store.append(b"s.%d" % random.randrange(3), b"", b"x", now)
        if random.random() < 0.3:
            start = random.randint(1, store.last_seq)
            store.delete(range(start, start + random.choice([1, 5, 40])))
        live = [found for n in range(1, store.last_seq + 1) if (found := store.load(n)) is not None]
        for timestamp in (99, now, now + 1, random.randint(95, now)):
            late = (found.sequence for found in live if found.timestamp >= timestamp)
            assert store.sequence_at(timestamp) == next(late, store.last_seq + 1)
        assert store.first_seq == (live[0].sequence if live else store.last_seq + 1)


@pytest.mark.parametrize("given", [(0, 0), (0, 1), (0, 2000), (7001, 0), (9001, 3), (3, 0)])
def test_many_messages_of_one_subject_go_together(given):
    """Half a million of them took 240 ms, one by one, and whoever rolled them up held others up."""
    below, keep = given
    stores = [MemoryStore(), MemoryStore()]
    for number in range(9000):
        for store in stores:
            headers = b"" if number % 5 else b"NATS/1.0\r\n\r\n"
            store.append(b"s.%d" % (number % 2), headers, b"x" * (number % 7), number)
    handed: list[Any] = []
    at_once, one_by_one = stores
    at_once.leave_to(handed.append)
    for store in stores:
        store.delete([1, 5, 8999])
        assert store.count(store.filter([b"*.0"]), 0) == 4497
    doomed = [n for n in range(1, 9001, 2) if (not below or n < below) and one_by_one.load(n)]
    doomed = doomed[: len(doomed) - keep]
    removed = []
    wanted = at_once.filter([b"s.0"])
    lines = lines_of(lambda: removed.append(at_once.purge(wanted, below, keep)))
    assert one_by_one.delete(doomed) == removed[0].messages == len(doomed)
    assert list(removed[0].gone.sequences) == doomed
    assert lines < len(doomed) + 200
    assert len(handed) >= 2 or below == 3
    for pattern in (b"s.0", b"s.1", b"s.*", b">"):
        mine, theirs = at_once.filter([pattern]), one_by_one.filter([pattern])
        assert at_once.count(mine, 0) == one_by_one.count(theirs, 0)
        assert at_once.last_sequences(mine) == one_by_one.last_sequences(theirs)
        assert at_once.subject_counts(pattern) == one_by_one.subject_counts(pattern)
    assert at_once.state() == one_by_one.state()
    assert list(at_once.subject_counts(b">")) == list(one_by_one.subject_counts(b">"))
    assert [*at_once.gaps().parts()] == [*one_by_one.gaps().parts()]
    for store in stores:
        store.append(b"s.0", b"", b"y", 9001)
    found = [store.load_next(store.filter([b"s.0"]), 2).sequence for store in stores]
    assert found[0] == found[1]
    assert at_once.state() == one_by_one.state()


def test_a_time_is_found_beside_dead_messages_without_passing_over_each():
    store = MemoryStore()
    for number in range(8000):
        store.append(b"s", b"", b"x", number)
    store.delete(list(range(2001, 6001)))
    found = []
    assert lines_of(lambda: found.append(store.sequence_at(4000))) < 300
    assert found == [6001] and store.sequence_at(1000) == 1001


LIMITED = Limits(max_msgs_per_subject=1)


def test_a_new_limit_looks_at_some_subjects_at_a_time(monkeypatch):
    """Half a million of them took a third of a second."""
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 100)
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 100)
    store = filled(4000, subjects=2000)
    calls, removed = 0, list[tuple[int, int]]()
    while calls == 0 or store.exceeds(LIMITED):
        assert lines_of(lambda: removed.extend(store.enforce(LIMITED, 9))) < 3500
        calls += 1
    assert calls >= 20 and len(removed) == 2000
    assert store.state().messages == store.state().num_subjects == 2000
    # Meanwhile limits go, and come back.
    for number in range(4000):
        store.append(b"s.%d" % (number % 2000), b"", b"", 9)
    assert lines_of(lambda: store.enforce(LIMITED, 9)) < 3500 and store.exceeds(LIMITED)
    while store.exceeds(LIMITED):
        store.enforce(LIMITED, 9)
    assert store.state().messages == 2000 and store.state().first_seq == 6001


def test_what_comes_to_a_subject_while_no_limit_holds_goes_some_at_a_time(monkeypatch):
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 100)
    store = filled(10, subjects=2)
    while store.enforce(LIMITED, 9) or store.exceeds(LIMITED):
        pass
    for _ in range(1000):
        store.append(b"s.1", b"", b"", 9)
    for left in range(901, 0, -100):
        assert store.exceeds(LIMITED) or left == 901
        assert sum(stop - start for start, stop in store.enforce(LIMITED, 9)) == 100
        assert store.subject_count(b"s.1") == left
    assert not store.exceeds(LIMITED)


@pytest.mark.parametrize("seed", range(10))
def test_a_limit_that_changes_all_the_time_is_kept_to(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 5)
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 7)
    monkeypatch.setattr(sequence_order, "DEAD_MIN", 5)
    store = MemoryStore()
    kept: dict[bytes, list[int]] = {}
    for round_ in range(60):
        for _ in range(random.randrange(40)):
            subject = b"s.%d" % random.randrange(30)
            kept.setdefault(subject, []).append(store.append(subject, b"", b"", round_))
        if random.random() < 0.2:
            gone = random.sample(range(1, store.last_seq + 2), min(store.last_seq, 9))
            store.delete(gone)
            for each in kept.values():
                each[:] = [sequence for sequence in each if sequence not in gone]
        if random.random() < 0.2:
            store.prepare_subjects(store.filter([b"s.*"]), 7)
        limit = random.choice([-1, 1, 1, 2, 5])
        limits = Limits(max_msgs_per_subject=limit)
        for _ in range(random.choice([1, 1, 1000])):
            for start, stop in store.enforce(limits, round_):
                [subject] = [name for name, its in kept.items() if start in its]
                assert stop == start + 1 and len(kept[subject]) > limit > 0
                assert kept[subject].pop(0) == start, "the oldest"
            if not store.exceeds(limits):
                break
        live = sorted(sequence for each in kept.values() for sequence in each)
        assert list(store._messages) == live
        if limit > 0 and not store.exceeds(limits):
            assert all(len(each) <= limit for each in kept.values())


def test_literals_that_nobody_has_used_cost_next_to_nothing():
    store = MemoryStore()
    for number in range(50):
        store.append(b"s.%d" % number, b"", b"", 5)
    wanted = store.filter([b"s.%d" % number for number in range(40, 5000)])
    assert lines_of(lambda: store.count(wanted, 0)) < 200
    assert lines_of(lambda: store.count(wanted, 2)) < 200
    assert (store.count(wanted, 0), store.count(wanted, 46)) == (10, 5)


@pytest.mark.parametrize("seed", range(10))
def test_a_filter_decides_on_many_messages_as_on_each(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(memory, "_ONE_BY_ONE", random.choice((1, 3)))
    monkeypatch.setattr(memory, "_TOGETHER_MAX", random.choice((2, 8)))
    store = MemoryStore()
    for number in range(120):
        store.append(b"%c.%d" % (random.choice(b"st"), number % 9), b"", b"", number)
    store.delete(random.sample(range(1, 121), 40))
    for patterns in ([b"s.*"], [b"*.1", b"t.3"], [b"s.1", b"t.2"], [b"s.1"], [b"none.*"]):
        wanted: Any = store.filter(patterns)
        start = random.randrange(1, 121)
        found = [each for each in map(store.load, range(start, 121)) if each is not None]
        expected = [each.sequence for each in found if wanted.wants(each.subject)]
        assert list(store.window(wanted, start, 1000, 100_000).sequences) == expected
        assert list(store.window(wanted, start, 3, 100_000).sequences) == expected[:3]
        assert store.count(wanted, start) == len(expected)


def test_a_search_looks_at_few_messages_if_each_takes_long(monkeypatch):
    monkeypatch.setattr(memory, "_SEARCHED_AT_ONCE", 10)
    store = MemoryStore()
    for number in range(200):
        store.append(b"s.%d.x" % number, b"", b"", 5)
    many = store.filter([b"s.*.%d" % number for number in range(100)])
    assert store.window(many, 1, 5, 1000).next_seq == 11
    assert store.window(store.filter([b"s.*.y"]), 1, 5, 1000).next_seq == 201


@pytest.mark.parametrize("seed", range(10))
def test_the_last_up_to_a_sequence_is_what_a_plain_look_finds(seed):
    random = Random(seed)
    store = MemoryStore()
    for _ in range(200):
        store.append(b"s.%d" % random.randrange(12), b"", b"", 1)
    store.delete(random.sample(range(1, 201), 60))
    for _ in range(20):
        up_to, patterns = random.randrange(1, 200), random.choice(([b"s.*"], [b"s.1", b"s.2"]))
        wanted: Any = store.filter(patterns)
        lasts: dict[bytes, int] = {}
        for each in filter(None, map(store.load, range(1, up_to + 1))):
            if wanted.wants(each.subject):
                lasts[each.subject] = each.sequence
        assert list(store.last_sequences(wanted, up_to)) == sorted(lasts.values())
        assert len(store.last_sequences(wanted, up_to, 2)) == min(3, len(lasts))


def test_the_past_of_a_subject_is_not_gone_through_backwards():
    """A million messages since took 40 ms."""
    store = MemoryStore()
    for _ in range(5000):
        store.append(b"s.1", b"", b"", 1)
    for pattern in (b"s.1", b"s.*"):
        wanted = store.filter([pattern])
        store.count(wanted, 0)
        assert lines_of(partial(store.last_sequences, wanted, 7)) < 100
        assert list(store.last_sequences(wanted, 7)) == [7]


def test_changes_that_nobody_asks_for_are_handed_over(monkeypatch):
    """What remembers a million of them takes long to remember one more."""
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 20)
    store = filled(500, subjects=500)
    run = PubRun.of((b"s.%d" % number, b"", b"", b"") for number in range(100))
    store.append_run(run, 0, 100, 5)
    assert len(store._grown) <= 20
    store.delete(range(1, 400))
    assert len(store._shrunk) <= 20
    store.enforce(Limits(max_msgs_per_subject=1), 5)
    for number in range(60):
        store.append(b"t.%d" % number, b"", b"", 5)
        store.append(b"t.1", b"", b"", 5)
    while store.exceeds(limits := Limits(max_msgs_per_subject=1)) or store._grown:
        store.enforce(limits, 5)
    assert store.subject_count(b"t.1") == 1


@pytest.mark.parametrize("limits", [Limits(max_msgs=10), LIMITED])
def test_many_messages_over_a_limit_go_together(limits, monkeypatch):
    """One by one they took twice the time."""
    swept = []
    sweep = SequenceOrder.sweep
    monkeypatch.setattr(
        SequenceOrder, "sweep", lambda order, left=1: (swept.append(left), sweep(order, left))[0]
    )
    store = filled(1000, subjects=10)
    assert sum(stop - start for start, stop in store.enforce(limits, 9)) == 990
    assert max(swept) == 990
    assert list(store._messages) == list(range(991, 1001))
    state = store.state()
    assert state.bytes == sum(16 + len(b"s.0") + len(m.payload) for m in store._messages.values())
    assert (state.first_seq, state.messages, state.num_subjects) == (991, 10, 10)
    assert store.subject_counts(b"s.*") == {b"s.%d" % n: 1 for n in range(10)}


def test_many_messages_over_two_limits_go_until_both_hold():
    store = filled(1000, subjects=10)
    limits = Limits(max_msgs=900, max_bytes=50 * 20)
    assert store.enforce(limits, 9) == [(1, 951)] and not store.exceeds(limits)


def test_subjects_beyond_a_limit_are_not_all_remembered_at_once(monkeypatch):
    """A dictionary of half a million took 20 ms to grow."""
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 100)
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 10)
    store = filled(4000, subjects=2000)
    remembered = []
    while store.enforce(LIMITED, 9) or store.exceeds(LIMITED):
        remembered.append(len(store._overfull))
    assert max(remembered) <= 200
    assert store.state().messages == store.state().num_subjects == 2000


def test_what_many_ask_for_is_encoded_once(monkeypatch):
    """For 500 consumers a thousand messages took 0.6 s."""
    encoded = []
    record = memory._record
    monkeypatch.setattr(memory, "_record", lambda each: (encoded.append(each), record(each))[1])
    store = filled(100, subjects=2)
    wanted = store.filter([b"s.1"])

    def asked(*given):
        encoded.clear()
        window = store.window(*given)
        return window, list(window.sequences), len(encoded)

    everything = None, 1, 1000, 1 << 20
    window, *answer = asked(*everything)
    assert answer == [list(range(1, 101)), 100]
    again, *answer = asked(*everything)
    assert answer == [list(range(1, 101)), 0]
    assert (again.buffer, again.positions) == (window.buffer, window.positions)
    assert (again.sizes, again.next_seq) == (window.sizes, 101)
    del again.sequences[:]  # whoever has one may change its numbers
    again.next_seq = 7
    again, *answer = asked(*everything)
    assert answer == [list(range(1, 101)), 0] and again.next_seq == 101
    # Others ask for something else.
    assert asked(None, 2, 1000, 1 << 20)[1:] == (list(range(2, 101)), 99)
    assert asked(None, 2, 50, 1 << 20)[1:] == (list(range(2, 52)), 50)
    assert asked(None, 2, 50, 60)[1] == list(range(2, 17))
    assert asked(wanted, 1, 1000, 1 << 20)[1] == list(range(2, 101, 2))
    # And what there is changes.
    assert asked(*everything)[2] == 100
    store.delete([50])
    assert asked(*everything)[1:] == ([*range(1, 50), *range(51, 101)], 99)
    store.append(b"s.1", b"", b"new", 9)
    assert asked(*everything)[1:] == ([*range(1, 50), *range(51, 102)], 100)
    store.delete([101])
    assert asked(*everything)[2] == 99
    assert asked(*everything)[2] == 0
    store.rest()
    assert asked(*everything)[2] == 99


def test_a_large_window_is_not_kept():
    store = MemoryStore()
    for number in range(100):
        store.append(b"s", b"", bytes(5000), number)
    assert len(store.window(None, 1, 1000, 1 << 20)) == 100
    assert store._known_window is None


def test_no_dictionary_of_a_store_becomes_large():
    """One that grows is copied, which took 135 ms with 1,400,000 messages and subjects."""
    store = MemoryStore()
    for number in range(30_000):
        store.append(b"s.%d" % number, b"", b"", 5)
        store.append(b"t", b"", b"", 5)
    (of_one,) = (held for held in store._subjects.values() if len(held) > 1)
    parts = [*store._messages.parts, *store._subjects.parts, *of_one.parts]
    assert max(map(len, parts)) <= 4096
    assert store.subject_count(b"t") == 30_000 == store.subject_last(b"t") // 2
    assert store.last_sequences(store.filter([b"t"]), up_to=101).tolist() == [100]
