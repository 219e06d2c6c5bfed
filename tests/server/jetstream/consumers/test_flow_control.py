"""The window of a push consumer with flow control."""

from __future__ import annotations

from random import Random

from jetstream_server.base.nuid import Nuid
from jetstream_server.jetstream.consumers.flow_control import WINDOW_BYTES_MAX, FlowControl

HALF = 1024 * 1024


def make():
    return FlowControl("S", "C", Nuid(Random(1)))


def test_it_asks_when_half_the_window_is_passed():
    flow = make()
    assert not flow.sent(HALF)
    assert flow.sent(1)
    assert flow.asked.startswith(b"$JS.FC.S.C.")
    assert not flow.sent(10)


def test_it_stalls_when_the_window_is_passed():
    flow = make()
    flow.sent(2 * HALF)
    assert not flow.is_stalled
    flow.sent(1)
    assert flow.is_stalled
    assert flow.allowed([1]) == 0


def test_the_answer_credits_and_doubles():
    flow = make()
    flow.sent(HALF + 1)
    flow.sent(HALF)
    assert not flow.answered(b"$JS.FC.S.C.other")
    assert flow.answered(flow.asked)
    assert not flow.answered(b"")
    assert not flow.asked
    assert flow.allowed([HALF] * 9) == 2
    for _ in range(10):
        flow.sent(WINDOW_BYTES_MAX)
        flow.answered(flow.asked)
    flow.sent(WINDOW_BYTES_MAX + 1)
    assert flow.is_stalled


def test_a_batch_ends_where_something_is_to_be_decided():
    flow = make()
    assert flow.allowed([HALF // 2] * 9) == 3
    flow.sent(3 * (HALF // 2))
    assert flow.asked
    assert flow.allowed([HALF // 2] * 9) == 2
    assert flow.allowed([1]) == 1


def test_it_starts_over_with_a_new_client():
    flow = make()
    flow.sent(3 * HALF)
    flow.reset()
    assert not flow.is_stalled
    assert not flow.asked


def test_there_is_room_up_to_the_next_decision():
    flow = make()
    assert flow.has_room(HALF)
    assert not flow.has_room(HALF + 1), "then the client is asked"
    assert flow.sent(HALF + 1)
    assert flow.has_room(HALF - 1)
    assert not flow.has_room(HALF), "then delivery stops"
