"""Floors, expiry and redelivery without wire or files."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.consumers.progress import progress as progress_module
from jetstream_server.jetstream.consumers.progress.cursor import Cursor
from jetstream_server.jetstream.consumers.progress.progress import AckRules, Progress
from jetstream_server.store.memory import MemoryStore
from jetstream_server.structures.sequence_set import SequenceSet

from tests.traced_lines import lines_of

WAIT = 1000
SLACK = MILLISECOND


@pytest.fixture
def make():
    """A progress that has delivered `count` of ten messages, or of more, at time 0."""

    def make(count=5, **rules):
        store = MemoryStore()
        for number in range(max(count, 10)):
            store.append(b"a", b"", b"", number)
        defaults = {
            "tracks": True,
            "cumulative": False,
            "ack_wait_ns": WAIT,
            "backoff_ns": (),
            "max_deliver": -1,
            "max_ack_pending": -1,
        }
        progress = Progress(Cursor(store, [], 1), AckRules(**defaults | rules))
        if count:
            window = progress.cursor.window(count, 1 << 20)
            progress.deliver(window, len(window), 0)
        return progress

    return make


def ack(progress, *sequences):
    return list(progress.ack(array("Q", sequences)))


def floors(progress):
    return progress.floor_consumer_seq, progress.floor_stream_seq


def test_the_floor_waits_for_holes(make):
    progress = make()
    assert ack(progress, 2, 3) == [2, 3]
    assert floors(progress) == (0, 0)
    ack(progress, 1)
    assert floors(progress) == (3, 3)
    assert ack(progress, 2) == []
    ack(progress, 5, 4)
    assert floors(progress) == (5, 5)


def test_the_floor_follows_where_consumer_sequences_are_ahead_of_the_streams(make):
    progress = make(count=1)
    progress.redeliver(array("Q", [1]), 0)
    window = progress.cursor.window(3, 1 << 20)
    progress.deliver(window, len(window), 0)
    assert list(progress.pending) == [(1, 1), (2, 3), (3, 4), (4, 5)]
    ack(progress, 1)
    assert floors(progress) == (2, 1)
    ack(progress, 2)
    assert floors(progress) == (3, 2), (
        "3 is the next one's place, and was the consumer's number of 2"
    )


def test_what_is_given_up_holds_the_floor_until_nothing_is_pending(make):
    progress = make(max_deliver=1)
    progress.exhaust(1)
    ack(progress, 2, 3)
    assert floors(progress) == (0, 0)
    ack(progress, 4, 5)
    assert floors(progress) == (5, 5)


def test_a_late_ack_of_what_was_given_up_settles_it(make):
    progress = make(max_deliver=2)
    progress.redeliver(array("Q", [1]), 10)
    progress.exhaust(1)
    assert progress.num_redelivered == 1
    assert ack(progress, 1) == [1]
    assert progress.num_redelivered == 0
    assert floors(progress) == (0, 0)


def test_cumulative_acks_settle_everything_before(make):
    progress = make(cumulative=True)
    assert progress.last_pending(array("Q", [99])) == 0
    assert progress.last_pending(array("Q", [3, 99, 2])) == 3
    assert list(progress.ack_through(3)) == [1, 2, 3]
    assert floors(progress) == (3, 3)
    assert list(progress.ack_through(1)) == []
    assert progress.last_pending(array("Q", [3, 1])) == 0


def test_the_floor_follows_the_delivery_that_is_acknowledged(make):
    progress = make(cumulative=True)
    progress.expire(WAIT + SLACK)
    assert progress.redeliver(array("Q", [1]), 5000) == 2
    assert list(progress.ack_through(1, 6)) == [1]
    assert floors(progress) == (6, 1)
    assert list(progress.ack_through(2, 99)) == [2]
    assert floors(progress) == (6, 2), "not beyond what was delivered"


def test_without_tracking_the_floor_follows_delivery(make):
    progress = make(tracks=False)
    assert floors(progress) == (5, 5)
    assert progress.room > 1_000_000
    assert progress.next_deadline() is None


def test_room_is_what_max_ack_pending_leaves(make):
    progress = make(max_ack_pending=6)
    assert progress.room == 1
    ack(progress, 5)
    assert progress.room == 2


def test_expiry_queues_in_stream_order_once(make):
    progress = make()
    assert progress.next_deadline() == WAIT + SLACK
    assert progress.expire(WAIT + SLACK - 1) == []
    assert progress.expire(WAIT + SLACK) == [1, 2, 3, 4, 5]
    assert progress.expire(10 * SLACK) == []
    assert list(progress.redelivery.next_run(1)) == [1]
    assert progress.redeliver(array("Q", [1]), 5000) == 2
    assert progress.consumer_seq == 6
    assert progress.next_deadline() == 5000 + WAIT + SLACK


def test_backoff_grows_with_the_deliveries(make):
    progress = make(backoff_ns=(10, 20, 30))
    assert progress.next_deadline() == 10 + SLACK
    assert progress.expire(10 + SLACK) == [1, 2, 3, 4, 5]
    for deliveries, wait in ((2, 20), (3, 30), (4, 30)):
        assert progress.redeliver(array("Q", [1]), 0) == deliveries
        assert progress.redelivery.next_deadline() == wait + SLACK


def test_a_postponed_message_does_not_expire_with_its_run(make):
    progress = make()
    assert progress.postpone(2, 5 * SLACK)
    assert not progress.postpone(9, 5 * SLACK)
    assert progress.expire(WAIT + SLACK) == [1, 3, 4, 5]
    assert progress.expire(5 * SLACK) == [2]


def test_only_what_is_pending_can_be_refused(make):
    progress = make()
    assert progress.refuse(2)
    assert list(progress.redelivery.next_run(5)) == [2]
    assert not progress.refuse(9)
    assert list(progress.redelivery.next_run(5)) == [2]


def test_what_expires_twice_over_is_queued_once(make):
    progress = make()
    progress.postpone(2, 500)
    assert progress.expire(10 * SLACK) == [1, 2, 3, 4, 5]


def test_acknowledged_messages_are_not_delivered_again(make):
    progress = make()
    progress.expire(WAIT + SLACK)
    ack(progress, 1, 2)
    assert list(progress.redelivery.next_run(9)) == [3, 4, 5]


def test_removal_and_purge_move_the_floor(make):
    progress = make()
    assert list(progress.removed(SequenceSet.of((1, 2)))) == [1, 2]
    assert floors(progress) == (2, 2)
    progress.purged(9)
    assert floors(progress) == (5, 8)
    assert (len(progress.pending), progress.cursor.next_seq) == (0, 9)


def test_reset_starts_over(make):
    progress = make()
    progress.refuse(1)
    progress.reset(3)
    assert (progress.consumer_seq, progress.stream_seq, *floors(progress)) == (0, 2, 0, 2)
    assert not progress.redelivery.next_run(1)
    assert progress.next_deadline() is None


def test_what_was_out_once_and_given_up_is_done_with(make):
    progress = make(3, max_deliver=1)
    assert not progress.is_done_with(2)
    progress.exhaust(2)
    assert progress.is_done_with(2)
    assert not progress.is_done_with(9)


def test_starting_over_queues_everything_pending(make):
    progress = make(4)
    ack(progress, 2)
    progress.start_over()
    assert list(progress.redelivery.queued_sequences()) == [1, 3, 4]


def test_starting_over_with_very_many_takes_several_turns(make, monkeypatch):
    monkeypatch.setattr(progress_module, "EXPIRED_AT_ONCE", 4)
    progress = make(12)
    ack(progress, 2, 7)
    progress.start_over()
    assert list(progress.redelivery.queued_sequences()) == [1, 3, 4, 5]
    progress.redeliver(progress.redelivery.next_run(2), 1)
    ack(progress, 8)
    assert progress.next_deadline() == 0
    assert progress.expire(2) == [6, 9, 10, 11]
    assert progress.next_deadline() == 0
    assert progress.expire(2) == [12]
    assert progress.next_deadline() > 2
    assert list(progress.redelivery.queued_sequences()) == [4, 5, 6, 9, 10, 11, 12]


def test_a_purge_tells_what_was_pending(make):
    progress = make(3)
    ack(progress, 1)
    assert list(progress.purged(3)) == [2]
    assert list(progress.purged(3)) == []


def test_when_nothing_is_pending_any_more_nothing_is_looked_for(make, monkeypatch):
    """A purge of a million messages whose deliveries were put off took 55 ms, one by one."""
    progress = make(5)
    for sequence in (2, 4):
        progress.postpone(sequence, 9 * SECOND)
    redelivery = progress.redelivery
    assert redelivery.next_deadline() is not None

    def forget(sequences):
        raise AssertionError("each is looked for")

    with monkeypatch.context() as patched:
        patched.setattr(type(redelivery), "forget", forget)
        assert list(progress.removed(SequenceSet.joined([(1, 2000)]), by_purge=True)) == [
            1,
            2,
            3,
            4,
            5,
        ]
    assert redelivery.next_deadline() is None and not redelivery.counts and not redelivery.deadlines


def test_what_was_given_up_beyond_what_went_is_kept(make):
    progress = make(5, max_deliver=2)
    progress.redeliver(array("Q", [1, 2]), 10)
    progress.exhaust(1)
    assert list(progress.redelivery.given_up) == [1] and progress.num_redelivered == 2
    assert list(progress.removed(SequenceSet.joined([(2, 2000)]), by_purge=True)) == [2, 3, 4, 5]
    assert list(progress.redelivery.given_up) == [1] and progress.num_redelivered == 1


def test_of_very_many_only_some_expire_at_a_time(make, monkeypatch):
    """Of a million that nobody acknowledges, all would be queued in one turn."""
    monkeypatch.setattr(progress_module, "EXPIRED_AT_ONCE", 4)
    progress = make(12)  # in one run
    for start in (13, 16, 19):
        progress.pending.add_run(array("Q", range(start, start + 3)), start, 0)
    now = WAIT + SLACK
    ack(progress, 6)
    assert progress.expire(now) == [1, 2, 3, 4]
    ack(progress, 5, 9)
    assert progress.expire(now) == [7, 8, 10, 11]
    assert progress.next_deadline() <= now
    assert progress.expire(now) == [12, *range(13, 16)]
    assert progress.expire(now) == [16, 17, 18, 19]
    assert progress.expire(now) == [20, 21]
    assert progress.next_deadline() is None
    queued = [n for n in range(1, 22) if n not in (5, 6, 9)]
    assert list(progress.redelivery.queued_sequences()) == queued
    progress.redeliver(array("Q", queued[:5]), now)
    progress.redeliver(array("Q", queued[5:10]), now + 1)
    later = progress.next_deadline() + 1
    assert progress.expire(later) == queued[:4]
    assert progress.next_deadline() < later
    assert progress.expire(later) == queued[4:8]
    assert progress.next_deadline() == later
    assert progress.expire(later) == queued[8:10]


def test_what_goes_costs_nothing_for_all_that_stays(make):
    progress = make(4000)
    while progress.expire(WAIT + SLACK):
        pass
    while run := progress.redelivery.next_run(1000):
        progress.redeliver(run, 1)
    for sequence in range(2001, 4001):
        progress.exhaust(sequence)
    assert len(progress.redelivery.counts) == 4000
    for act in (
        lambda: progress.removed(SequenceSet.of((5,))),
        lambda: progress.removed(SequenceSet.of((2500,))),
    ):
        assert lines_of(act) < 150
    assert (5 in progress.redelivery.counts, 2500 in progress.redelivery.counts) == (False, False)
    assert list(progress.purged(2990)) == [each for each in range(1, 2001) if each != 5]
    assert list(progress.redelivery.counts) == list(range(2990, 4001))
