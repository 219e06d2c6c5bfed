"""Pending messages in runs, against a dictionary."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from jetstream_server.jetstream.consumers.progress import ack_pending, pending_run
from jetstream_server.jetstream.consumers.progress.ack_pending import AckPending

from tests.traced_lines import lines_of


def words(*values):
    return array("Q", values)


@pytest.fixture
def pending():
    """Sequences 1-5 with consumer sequences 1-5, and 10, 20, 30 with 6-8."""
    pending = AckPending()
    pending.add_run(words(1, 2, 3, 4, 5), 1, 100)
    pending.add_run(words(10, 20, 30), 6, 200)
    return pending


def test_what_is_pending_and_under_which_consumer_sequence(pending):
    assert len(pending) == 8
    assert [pending.consumer_seq(sequence) for sequence in (1, 5, 6, 10, 15, 30)] == [
        1,
        5,
        0,
        6,
        0,
        8,
    ]
    assert (pending.sent_at(20), pending.sent_at(15)) == (200, 0)
    assert pending.first() == (1, 1)
    assert pending.first_above(5) == (10, 6)
    assert pending.first_above(30) is None


def test_a_run_with_one_hole_is_not_taken_for_one_without():
    pending = AckPending()
    pending.add_run(words(1, 2, 4, 5), 1, 100)
    assert [pending.consumer_seq(sequence) for sequence in range(1, 7)] == [1, 2, 0, 3, 4, 0]
    assert list(pending.ack_run(words(3, 4))) == [4]


def test_acks_in_any_order_drop_what_was_pending(pending):
    assert list(pending.ack_run(words(30, 4, 4, 99, 1, 2, 3))) == [1, 2, 3, 4, 30]
    assert list(pending) == [(5, 5), (10, 6), (20, 7)]


def test_a_stretch_with_a_hole_takes_what_is_left(pending):
    pending.ack_run(words(2))
    assert list(pending.ack_run(words(1, 2, 3))) == [1, 3]


def test_ranges(pending):
    assert list(pending.take_range(3, 11)) == [3, 4, 5, 10]
    assert list(pending.take_through(20)) == [1, 2, 20]
    assert list(pending) == [(30, 8)]
    assert list(pending.take_range(0, 1 << 63)) == [30]
    assert pending.runs == []


def test_messages_dealt_out_one_by_one_share_a_run():
    pending = AckPending()
    for number in range(1, 101):
        pending.add_run(words(number * 2), number, 7)
    assert len(pending.runs) == 1
    assert list(pending.ack_run(words(*range(2, 202, 2)))) == list(range(2, 202, 2))


def test_a_few_stuck_messages_do_not_keep_a_large_run():
    pending = AckPending()
    pending.add_run(array("Q", range(1, 1001)), 1, 7)
    pending.take_range(1, 1000)
    assert [len(run.sequences) for run in pending.runs] == [1]
    assert list(pending) == [(1000, 1000)]


@pytest.mark.parametrize("seed", range(60))
def test_it_behaves_like_a_dictionary(seed, monkeypatch):
    random = Random(seed)
    if seed % 2:
        monkeypatch.setattr(pending_run, "RUN_MAX", random.choice((2, 8, 20)))
        monkeypatch.setattr(ack_pending, "_SHORT_RUN", random.choice((1, 4)))
        monkeypatch.setattr(ack_pending, "_SPARSE_COUNT_MIN", random.choice((2, 4)))
        monkeypatch.setattr(ack_pending, "_SPARSE_PART", 2)
        monkeypatch.setattr(ack_pending, "_FEW_RUNS", random.choice((0, 2)))
        monkeypatch.setattr(ack_pending, "_FEW_OF_GIVEN", random.choice((1, 16)))
    pending, twin, sent, waiting = AckPending(), {}, {}, set()
    last = consumer_seq = now = 0
    for _ in range(150):
        now += random.choice((0, 0, 1, 5))
        if random.random() < 0.4:
            count = random.choice((1, 1, 3, 70))
            consumer_seq += random.choice((0, 0, 2))
            sequences = array("Q")
            for _ in range(count):
                last += random.choice((1, 1, 1, 4))
                sequences.append(last)
            pending.add_run(sequences, consumer_seq + 1, now)
            for sequence in sequences:
                consumer_seq += 1
                twin[sequence], sent[sequence] = consumer_seq, now
                waiting.add(sequence)
        elif random.random() < 0.4 and last:
            start = random.randrange(1, last + 1)
            acked = array("Q", range(start, start + random.choice((1, 30, 200))))
            if random.random() < 0.5:
                acked = array("Q", [each for each in acked if random.random() < 0.8])
            expected = [sequence for sequence in acked if twin.pop(sequence, None)]
            assert list(pending.ack_run(acked)) == expected
        elif random.random() < 0.3:
            before, count_max = now - random.randrange(8), random.choice((1, 3, 1000))
            due = []
            while (sent_at := pending.next_sent_at()) is not None and sent_at <= before:
                some = pending.expire(before, count_max)
                assert len(some) <= count_max
                due += some
            assert due == [each for each in twin if each in waiting and sent[each] <= before]
            waiting.difference_update(due)
        elif last:
            start = random.randrange(last + 2)
            stop = start + random.choice((12, 300))
            expected = [sequence for sequence in twin if start <= sequence < stop]
            assert list(pending.take_range(start, stop)) == expected
            for sequence in expected:
                del twin[sequence]
        probe = random.randrange(last + 2)
        above = [item for item in twin.items() if item[0] > probe]
        assert pending.first_above(probe) == (above[0] if above else None)
        assert list(pending) == list(twin.items())
        assert len(pending) == len(twin) == sum(run.count for run in pending.runs)
        assert pending._firsts == [run.sequences[0] for run in pending.runs]
        assert pending.consumer_seq(probe) == twin.get(probe, 0)
        assert pending.sent_at(probe) == (sent[probe] if probe in twin else 0)


def test_what_is_delivered_one_at_a_time_is_few_runs():
    """One ack for 200,000 of them took 18 s, and each save of their state 190 ms."""
    pending = AckPending()
    for number in range(1, 20_001):
        pending.add_run(words(number), number + number // 7, number * 1000)
    assert len(pending.runs) == 5
    assert lines_of(lambda: pending.take_through(19_000)) < 100
    assert (pending.sent_at(19_001), pending.consumer_seq(19_001)) == (19_001_000, 21_715)
    assert list(pending.expire(19_500_000, 300)) == [*range(19_001, 19_301)]
    assert list(pending.expire(19_500_000, 300)) == [*range(19_301, 19_501)]
    assert len(pending.runs) == 3 and pending.next_sent_at() == 19_501_000


def test_many_runs_that_end_together_do_not_move_each_other():
    pending = AckPending()
    for number in range(2000):
        pending.add_run(array("Q", range(100 * number, 100 * number + 100)), 100 * number + 1, 7)
    assert len(pending.runs) == 2000
    pending.take(array("Q", range(100 * 1990)))
    assert len(pending.runs) == 10
    assert [each for each, _ in pending] == [*range(100 * 1990, 100 * 2000)]


def test_runs_that_may_have_something_of_a_range(monkeypatch):
    monkeypatch.setattr(ack_pending, "_SHORT_RUN", 0)
    pending = AckPending()
    pending.add_run(words(1, 2, 3, 4, 5), 1, 100)
    pending.add_run(words(10, 20, 30), 6, 200)
    runs = pending.runs
    ranges = {(0, 1): [], (1, 2): [0], (6, 10): [0], (5, 11): [0, 1], (10, 99): [1], (40, 99): [1]}
    for (start, stop), found in ranges.items():
        assert pending.runs_within(start, stop) == [runs[each] for each in found]


def test_few_that_are_pending_are_found_among_many_that_are_gone():
    random = Random(11)
    for _ in range(200):
        pending, chosen = AckPending(), sorted(random.sample(range(500, 3000), 20))
        for at in range(0, 20, 5):
            pending.add_run(words(*chosen[at : at + 5]), at + 1, at)
        gone = words(*sorted(random.sample(range(1, 4000), random.choice([10, 400, 3000]))))
        taken = [each for each in chosen if each in set(gone)]
        assert list(pending.take(gone)) == taken
        assert [each for each, _ in pending] == [each for each in chosen if each not in set(taken)]
        assert len(pending) == 20 - len(taken)


@pytest.mark.parametrize("acked", [(), (1, 2, 7, 12), tuple(range(2, 20, 2))])
def test_what_comes_due_beyond_so_many_is_another_run(acked):
    pending = AckPending()
    pending.add_run(words(*range(1, 71)), 101, 7)
    pending.add_run(words(80), 171, 8)
    pending.ack_run(words(*acked))
    before = list(pending)
    left = [sequence for sequence, _ in before]
    assert list(pending.expire(7, 4)) == left[:4]
    assert list(pending) == before
    assert [run.expired for run in pending.runs] == [True, False]
    assert list(pending.expire(7, 100)) == left[4:-1]
    assert pending.next_sent_at() == 8
    assert [pending.consumer_seq(sequence) for sequence in left] == [each for _, each in before]
    assert list(pending.ack_run(words(*range(1, 81)))) == left and not pending.runs
