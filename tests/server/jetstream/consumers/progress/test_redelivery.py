"""The queue, the deadlines and the counts of redelivery."""

from __future__ import annotations

import sys
from array import array
from itertools import pairwise
from operator import sub
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.consumers.progress import redelivery as redelivery_module
from jetstream_server.jetstream.consumers.progress.redelivery import Redelivery

from tests.traced_lines import lines_of


def seqs(*numbers):
    return array("Q", numbers)


def drain(redelivery, count=1):
    taken = []
    while run := redelivery.next_run(count):
        taken += run
        redelivery.delivered(run, 1 << 60)
    return taken


def as_dict(numbered):
    return dict(zip(*numbered.columns(), strict=True))


def test_the_queue_keeps_the_order_and_each_sequence_once():
    redelivery = Redelivery()
    redelivery.queue([3, 1])
    redelivery.queue([1, 2])
    assert redelivery.queued == 3
    assert drain(redelivery) == [3, 1, 2]
    assert redelivery.queued == 0


def test_leaving_and_coming_back_goes_to_the_end():
    redelivery = Redelivery()
    redelivery.queue([1, 2])
    redelivery.schedule([1], 50)
    assert redelivery.next_run(9) == seqs(2)
    redelivery.queue([1])
    assert 1 not in redelivery.deadlines
    assert drain(redelivery) == [2, 1]


def test_a_run_rises_and_has_been_out_equally_often():
    redelivery = Redelivery()
    redelivery.delivered(seqs(3, 4), 10)
    redelivery.queue([1, 2, 3, 4, 5])
    redelivery.queue([0])
    assert redelivery.next_run(9) == seqs(1, 2)
    assert redelivery.delivered(seqs(1, 2), 10) == 2
    assert redelivery.next_run(9) == seqs(3, 4)
    assert redelivery.next_run(1) == seqs(3)
    redelivery.forget([3])
    assert redelivery.next_run(9) == seqs(4)
    redelivery.give_up(4)
    assert redelivery.next_run(9) == seqs(5)
    redelivery.forget([5])
    assert redelivery.next_run(9) == seqs(0)


def test_refusals_one_after_another_make_a_run():
    redelivery = Redelivery()
    for sequence in (2, 5, 9, 4):
        redelivery.queue([sequence])
    assert redelivery.next_run(9) == seqs(2, 5, 9)
    assert list(redelivery.queued_sequences()) == [2, 5, 9, 4]


def test_deliveries_count_from_one():
    redelivery = Redelivery()
    assert redelivery.deliveries(5) == 1
    assert redelivery.delivered(seqs(5), 10) == 2
    assert redelivery.delivered(seqs(5), 20) == 3
    assert redelivery.deliveries(5) == 3
    redelivery.give_up(5)
    assert redelivery.deliveries(5) == 3
    redelivery.forget([5])
    assert redelivery.deliveries(5) == 1


def test_deadlines_come_due_in_stream_order():
    redelivery = Redelivery()
    redelivery.schedule([9], 10)
    redelivery.schedule([2], 20)
    redelivery.schedule([5], 30)
    assert redelivery.next_deadline() == 10
    assert redelivery.pop_due(20) == [2, 9]
    assert as_dict(redelivery.deadlines) == {5: 30}
    redelivery.forget([5])
    assert redelivery.next_deadline() is None


def test_when_very_many_are_due_the_others_are_left_for_another_time():
    redelivery = Redelivery()
    for deadline in range(1, 6):
        redelivery.schedule(range(10 * deadline, 10 * deadline + 3), deadline)
    assert redelivery.pop_due(4, 5) == [10, 11, 12, 20, 21]
    assert redelivery.next_deadline() == 2
    assert redelivery.pop_due(4, 5) == [22, 30, 31, 32, 40]
    assert redelivery.pop_due(4, 5) == [41, 42]
    assert redelivery.pop_due(4, 5) == []
    assert as_dict(redelivery.deadlines) == {50: 5, 51: 5, 52: 5}


def test_a_moved_deadline_counts_once():
    redelivery = Redelivery()
    redelivery.schedule([1, 2, 3], 10)
    redelivery.schedule([2], 20)
    redelivery.schedule([2], 10)
    redelivery.schedule([3], 5)
    assert redelivery.pop_due(9) == [3]
    assert redelivery.pop_due(10) == [1, 2]
    assert redelivery.next_deadline() is None


@pytest.mark.parametrize("others", [0, 100])
def test_what_was_given_up_is_known_until_it_is_forgotten(others):
    redelivery = Redelivery()
    redelivery.delivered(seqs(3, 4, 8), 10)
    redelivery.delivered(seqs(*range(100, 100 + others)), 10) if others else None
    for sequence in (8, 3, *range(100, 100 + others)):
        redelivery.give_up(sequence)
    redelivery.give_up(5)  # it was out but once
    assert redelivery.given_up_within(3, 9) == seqs(3, 8)
    assert redelivery.given_up_within(4, 8) == redelivery.given_up_within(9, 3) == seqs()
    redelivery.forget([3])
    assert redelivery.given_up_within(0, 99) == seqs(8)
    assert (3 in redelivery.counts, 8 in redelivery.counts) == (False, True)
    redelivery.clear()
    assert redelivery.given_up_within(0, 1000) == seqs()


def test_emptying_a_long_queue_from_the_front_is_quick():
    redelivery = Redelivery()
    redelivery.queue(range(1, 50_001))
    assert drain(redelivery) == list(range(1, 50_001))


SEQUENCES = st.lists(st.integers(1, 9), max_size=5, unique=True)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), SEQUENCES),
        st.tuples(st.just("forget"), SEQUENCES),
        st.tuples(st.just("schedule"), SEQUENCES, st.integers(1, 20)),
        st.tuples(st.just("pop"), st.integers(1, 20)),
        st.tuples(st.just("deliver"), st.integers(1, 4), st.integers(1, 20)),
    )
)


@given(STEPS)
def test_it_behaves_like_a_list_and_two_dictionaries(steps):
    redelivery = Redelivery()
    queue, due, counts = [], {}, {}
    for verb, *arguments in steps:
        if verb == "queue":
            redelivery.queue(arguments[0])
            for sequence in arguments[0]:
                due.pop(sequence, None)
                if sequence not in queue:
                    queue.append(sequence)
        elif verb == "forget":
            redelivery.forget(arguments[0])
            queue = [sequence for sequence in queue if sequence not in arguments[0]]
            due = {key: at for key, at in due.items() if key not in arguments[0]}
            counts = {key: count for key, count in counts.items() if key not in arguments[0]}
        elif verb == "schedule":
            redelivery.schedule(*arguments)
            queue = [sequence for sequence in queue if sequence not in arguments[0]]
            due |= dict.fromkeys(arguments[0], arguments[1])
        elif verb == "pop":
            expected = sorted(key for key, at in due.items() if at <= arguments[0])
            assert redelivery.pop_due(arguments[0]) == expected
            due = {key: at for key, at in due.items() if at > arguments[0]}
        else:
            run = list(redelivery.next_run(arguments[0]))
            assert run == queue[: len(run)]
            assert bool(run) == bool(queue)
            assert len({counts.get(sequence, 0) for sequence in run}) <= 1
            if run:
                redelivery.delivered(array("Q", run), arguments[1])
                counts |= {sequence: counts.get(sequence, 0) + 1 for sequence in run}
                due |= dict.fromkeys(run, arguments[1])
                queue = queue[len(run) :]
        assert list(redelivery.queued_sequences()) == queue
        assert redelivery.queued == len(queue)
        assert as_dict(redelivery.deadlines) == due
        assert redelivery.next_deadline() == min(due.values(), default=None)
        assert as_dict(redelivery.counts) == counts


@pytest.mark.parametrize("seed", range(40))
def test_the_queue_behaves_like_a_list(seed, monkeypatch):
    random = Random(seed)
    if seed % 2:
        monkeypatch.setattr(redelivery_module, "_RUN_MAX", random.choice((2, 5, 50)))
    redelivery, twin = Redelivery(), []
    for _ in range(200):
        chosen = [random.randrange(60) for _ in range(random.choice((1, 1, 2, 9)))]
        if random.random() < 0.5:
            chosen.sort(reverse=random.random() < 0.3)
        match random.choice(("queue", "queue", "forget", "schedule", "count")):
            case "queue":
                redelivery.queue(chosen)
                twin += [each for each in dict.fromkeys(chosen) if each not in twin]
            case "forget":
                redelivery.forget(chosen)
                twin = [each for each in twin if each not in chosen]
            case "schedule":
                redelivery.schedule(set(chosen), 5 + random.randrange(3))
                twin = [each for each in twin if each not in chosen]
            case "count":
                redelivery.counts.number_all(seqs(chosen[0]), random.randrange(1, 3))
        assert list(redelivery.queued_sequences()) == twin
        assert redelivery.queued == len(twin)
        run = list(redelivery.next_run(20))
        assert run == twin[: len(run)] == sorted(run) and bool(run) is bool(twin)
        assert len({redelivery.deliveries(each) for each in run}) <= 1


def test_what_is_refused_in_falling_order_is_few_stretches():
    """Each was a run of its own, and 200,000 of them took 200 ms to save."""
    redelivery = Redelivery()
    for sequence in range(20_000, 0, -1):
        redelivery.queue((sequence,))
    assert lines_of(redelivery.queued_sequences) < 50
    redelivery.forget(range(5, 20_000, 2))
    assert lines_of(redelivery.queued_sequences) < 150
    assert list(redelivery.next_run(100)) == [20_000]


def test_deadlines_that_nobody_waits_for_are_gone():
    redelivery = Redelivery()
    for sequence in range(1, 5001):
        redelivery.schedule((sequence,), sequence * 10)
    redelivery.forget(range(1, 5000))
    assert lines_of(redelivery.next_deadline) < 50
    assert redelivery.next_deadline() == 50_000
    assert redelivery.pop_due(50_000, 1) == [5000]


def test_deadlines_come_back_whatever_was_saved_of_them():
    redelivery = Redelivery()
    redelivery.restore_deadlines(seqs(5, 9, 2, 5), seqs(30, 10, 30, 20))
    assert as_dict(redelivery.deadlines) == {2: 30, 5: 20, 9: 10}
    assert redelivery.pop_due(20) == [5, 9]
    assert redelivery.pop_due(40) == [2]
    assert redelivery.next_deadline() is None


def test_what_is_known_of_very_many_is_not_moved_in_one_go():
    """It took 50 ms at 700,000 messages, and 160 where each has a deadline of its own."""
    redelivery, count, step = Redelivery(), 210_000, 7000
    held = redelivery.counts, redelivery.deadlines, redelivery._due, redelivery._queue
    sizes = []
    for start in range(1, count, step):
        some = seqs(*range(start, start + step))
        redelivery.delivered(some, start)
        redelivery.queue(some[::2])
        sizes.append([sys.getsizeof(each) for each in held])
    assert len(redelivery.counts) == count
    grown = [max(map(sub, after, before)) for before, after in pairwise(sizes)]
    assert max(grown) < 1 << 20


def test_a_run_is_not_cut_where_some_have_left():
    redelivery = Redelivery()
    redelivery.queue(range(1, 1001))
    redelivery.forget(range(3, 1001, 5))
    assert list(redelivery.next_run(500)) == [each for each in range(1, 501) if each % 5 != 3]
    redelivery.counts.number_all(seqs(11), 1)
    assert list(redelivery.next_run(500)) == [1, 2, 4, 5, 6, 7, 9, 10]
