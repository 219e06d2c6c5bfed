"""Work done a step at a time."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from jetstream_server.core.steps import InSteps, Stint, found_out, grouped, without_pauses


def counted(steps: int) -> InSteps[str]:
    for _ in range(steps):
        yield
    return f"{steps} steps"


def refused() -> InSteps[str]:
    yield
    raise LookupError("nothing there")


def test_steps_lead_to_a_result() -> None:
    steps = counted(2)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration, match="2 steps"):
        next(steps)
    assert without_pauses(counted(3)) == "3 steps"
    assert without_pauses(counted(0)) == "0 steps"


def test_a_result_waits_until_it_is_asked_for() -> None:
    assert without_pauses(found_out(counted(2), LookupError))() == "2 steps"
    answer = without_pauses(found_out(refused(), LookupError))
    for _ in range(2):
        with pytest.raises(LookupError, match="nothing there"):
            answer()


def test_what_nobody_foresaw_does_not_wait() -> None:
    with pytest.raises(LookupError):
        without_pauses(found_out(refused(), ValueError))


def test_a_step_ends_when_enough_is_done() -> None:
    stint = Stint(3)
    assert [stint.spend() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert [stint.spend(each) for each in (5, 2, 1)] == [True, False, True]


def test_very_small_steps_are_done_together() -> None:
    done: list[int] = []

    def small() -> Generator[int, None, str]:
        for units in (1, 1, 1, 5, 1):
            done.append(units)
            yield units
        return "done"

    steps, seen = grouped(small(), 3), []
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value == "done"
            break
        seen.append(len(done))
    assert seen == [3, 4] and len(done) == 5
