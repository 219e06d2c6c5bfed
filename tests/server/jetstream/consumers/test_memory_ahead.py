"""Memory that is found in steps."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.jetstream.consumers.memory_ahead import FOUND_AT_ONCE, memory_for
from jetstream_server.kernels import filters


def found(count: int) -> tuple[int, array[int] | None]:
    """Return in how many steps what was found."""
    finding, steps = memory_for(count), 0
    while True:
        try:
            next(finding)
        except StopIteration as end:
            return steps, end.value
        steps += 1


@pytest.mark.parametrize(
    ("count", "steps"),
    [(FOUND_AT_ONCE + 1, 3), (2 * FOUND_AT_ONCE, 3), (3 * FOUND_AT_ONCE - 1, 4)],
)
def test_all_of_it_is_written_to_in_steps(count: int, steps: int) -> None:
    taken, memory = found(count)
    assert taken == steps
    assert memory == array("Q", bytes(8 * count))


@pytest.mark.parametrize("count", [0, 1, FOUND_AT_ONCE])
def test_for_few_nothing_is_done(count: int) -> None:
    assert found(count) == (0, None)


def test_the_first_step_holds_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request does its first step before it waits for its turn, and a thousand may wait."""
    asked: list[int] = []
    monkeypatch.setattr(filters, "room", asked.append)
    next(memory_for(2 * FOUND_AT_ONCE))
    assert not asked
