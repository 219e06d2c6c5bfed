"""What is said is believed after two seconds of the same, without a longer gap."""

from __future__ import annotations

import pytest

from jetstream_spark.client.agreement import AGREED_S, Agreement
from jetstream_spark.client.blocking import BlockingHost


class Clock(BlockingHost):
    time, drawn = 100.0, "ffff"

    def now(self) -> float:
        return self.time

    def token(self, size_bytes: int) -> str:
        return self.drawn


def said(agreement: Agreement, clock: Clock) -> bool:
    """Say it once; whether it is to be asked again, after the pause."""
    waiting = agreement.wait()
    try:
        clock.time = next(waiting).until
        next(waiting)
    except StopIteration as ended:
        return bool(ended.value)
    raise AssertionError("two pauses")


@pytest.mark.parametrize("drawn", ["0000", "8000", "ffff"])
def test_the_same_is_believed_after_a_while(drawn):
    clock = Clock()
    clock.drawn = drawn
    agreement, began = Agreement(clock), clock.time
    times = 0
    while said(agreement, clock):
        times += 1
    assert AGREED_S <= clock.time - began < 2 * AGREED_S
    assert 5 <= times <= 8


def test_a_gap_begins_it_again():
    clock = Clock()
    agreement = Agreement(clock)
    assert said(agreement, clock)
    clock.time += 0.9 * AGREED_S
    assert said(agreement, clock), "said twice, but not for long enough"
    clock.time += 1.1 * AGREED_S
    assert said(agreement, clock), "nobody answered for too long"


def test_an_answer_that_was_on_its_way_for_long_is_as_old_as_its_question():
    clock = Clock()
    agreement, began = Agreement(clock), clock.time
    asked_at = began
    while True:
        clock.time += 0.4  # so long the answer takes
        heard_at = clock.time
        if not said(agreement, clock):
            break
        asked_at = clock.time
    assert asked_at >= began + 0.4 + AGREED_S and heard_at >= asked_at + 0.4
