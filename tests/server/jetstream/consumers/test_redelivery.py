"""The queue, the deadlines and the counts of redelivery."""

from __future__ import annotations

from jetstream_server.jetstream.consumers.redelivery import Redelivery


def drain(redelivery):
    taken = []
    while sequence := redelivery.head():
        taken.append(sequence)
        redelivery.delivered(sequence, 1 << 60)
    return taken


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
    redelivery.schedule(1, 50)
    assert redelivery.head() == 2
    redelivery.queue([1])
    assert not redelivery.has_deadline(1)
    assert drain(redelivery) == [2, 1]


def test_deliveries_count_from_one():
    redelivery = Redelivery()
    assert redelivery.deliveries(5) == 1
    assert redelivery.delivered(5, 10) == 2
    assert redelivery.delivered(5, 20) == 3
    assert redelivery.deliveries(5) == 3
    redelivery.unqueue(5)
    assert redelivery.deliveries(5) == 3
    redelivery.forget([5])
    assert redelivery.deliveries(5) == 1


def test_deadlines_come_due_in_stream_order():
    redelivery = Redelivery()
    redelivery.schedule(9, 10)
    redelivery.schedule(2, 20)
    redelivery.schedule(5, 30)
    assert redelivery.next_deadline() == 10
    assert redelivery.pop_due(20) == [2, 9]
    assert redelivery.deadlines == {5: 30}
    redelivery.forget_range(0, 100)
    assert redelivery.next_deadline() is None


def test_forgetting_a_range_covers_queue_and_counts():
    redelivery = Redelivery()
    redelivery.delivered(3, 10)
    redelivery.queue([3, 4, 8])
    redelivery.forget_range(0, 5)
    assert drain(redelivery) == [8]
    assert list(redelivery.counts) == [8]


def test_emptying_a_long_queue_from_the_front_is_quick():
    redelivery = Redelivery()
    redelivery.queue(range(1, 50_001))
    assert drain(redelivery) == list(range(1, 50_001))
