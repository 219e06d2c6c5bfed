"""What a turn unwraps, of all clients together."""

from __future__ import annotations

import sys

import pytest
from jetstream_server.net.unwrapping import (
    RECORD_BYTES_MAX,
    STEPS_MIN,
    STEPS_OF_SHARE_MIN,
    Unwrapping,
)


def test_all_clients_share_a_turn_and_each_has_a_little_of_it() -> None:
    unwrapping = Unwrapping(100)
    assert unwrapping.allowance == 100
    unwrapping.spend(90)
    assert unwrapping.allowance == 10
    unwrapping.spend(8)
    assert unwrapping.allowance == STEPS_MIN
    unwrapping.spend(1000)
    assert unwrapping.allowance == STEPS_MIN
    unwrapping.begin()
    assert unwrapping.allowance == 100


def test_who_has_no_turns_has_no_bound() -> None:
    unwrapping = Unwrapping()
    unwrapping.spend(1 << 40)
    assert unwrapping.allowance > sys.maxsize // 2
    assert len(unwrapping.plain) == RECORD_BYTES_MAX


class Holding:
    """A connection whose layer holds so many steps."""

    def __init__(self, unwrapping: Unwrapping, steps: int) -> None:
        self._unwrapping = unwrapping
        self.steps = steps

    def unwrap(self) -> None:
        taken = min(self.steps, self._unwrapping.allowance)
        self.steps -= taken
        self._unwrapping.spend(taken)
        if self.steps:
            self._unwrapping.put_off(self)


def test_those_that_wait_go_on_in_their_order_with_a_share_each() -> None:
    woken: list[None] = []
    unwrapping = Unwrapping(3 * STEPS_OF_SHARE_MIN, lambda: woken.append(None))
    those = [Holding(unwrapping, STEPS_OF_SHARE_MIN + 1) for _ in range(5)]
    for one in those:
        unwrapping.put_off(one)
    assert woken
    woken.clear()
    unwrapping.turned()
    assert [one.steps for one in those] == [1] * 3 + [STEPS_OF_SHARE_MIN + 1] * 2
    assert woken, "the rest is for another turn"
    assert unwrapping.allowance == STEPS_MIN, "whoever comes new has a little"
    unwrapping.turned()
    assert [one.steps for one in those] == [0] * 3 + [1] * 2
    unwrapping.turned()
    assert not any(one.steps for one in those)
    woken.clear()
    unwrapping.turned()
    assert not woken


def test_few_that_wait_share_all_there_is_and_who_is_gone_has_none() -> None:
    unwrapping = Unwrapping(1000)
    gone, stays, other = (Holding(unwrapping, 5000) for _ in range(3))
    for one in (gone, stays, other):
        unwrapping.put_off(one)
    unwrapping.forget(gone)
    unwrapping.turned()
    assert (gone.steps, stays.steps, other.steps) == (5000, 4500, 4500)


def test_whoever_fails_keeps_nobody_from_going_on() -> None:
    unwrapping = Unwrapping(1000)
    fails, other = Holding(unwrapping, 1), Holding(unwrapping, 1)
    fails.unwrap = lambda: 1 / 0  # type: ignore[assignment]
    unwrapping.put_off(fails)
    unwrapping.put_off(other)
    with pytest.raises(ZeroDivisionError):
        unwrapping.turned()
    unwrapping.turned()
    assert not other.steps


def test_a_turn_has_something_to_do_if_its_time_was_taken() -> None:
    unwrapping = Unwrapping(100, lambda: None)
    assert not unwrapping.is_used
    unwrapping.spend(1)
    assert unwrapping.is_used
    unwrapping.turned()
    assert not unwrapping.is_used
