"""One timer, set by many."""

from __future__ import annotations

from jetstream_server.base.clock import NEVER
from jetstream_server.jetstream.context import Scheduled
from jetstream_server.jetstream.streams.alarm import Alarm
from jetstream_server.structures.deadline_heap import DeadlineHeap


class Owner:
    def tick(self, now: int) -> None:
        raise AssertionError("who pops deadlines calls it")


def test_it_rings_at_the_earliest_time_that_it_was_set_to() -> None:
    deadlines: DeadlineHeap[Scheduled] = DeadlineHeap()
    owner = Owner()
    alarm = Alarm(deadlines, owner)
    alarm.set(None, 5)
    assert alarm.at == NEVER and deadlines.next_deadline() is None
    alarm.set(30, 5)
    alarm.set(40, 5)
    assert alarm.at == deadlines.next_deadline() == 30
    alarm.set(10, 20)  # not before 20
    assert alarm.at == deadlines.next_deadline() == 20
    assert deadlines.pop_due(20) == [owner]
    alarm.rang()
    alarm.set(30, 5)
    assert deadlines.next_deadline() == 30


def test_cancelled_it_does_not_ring_and_can_be_set_again() -> None:
    deadlines: DeadlineHeap[Scheduled] = DeadlineHeap()
    owner = Owner()
    alarm = Alarm(deadlines, owner)
    alarm.set(30, 0)
    alarm.cancel()
    assert alarm.at == NEVER and deadlines.pop_due(100) == []
    alarm.set(200, 0)
    assert deadlines.pop_due(200) == [owner]
