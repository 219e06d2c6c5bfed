"""Memory goes back to the system once after each busy time."""

from __future__ import annotations

import pytest
from jetstream_server.net import idle_memory
from jetstream_server.net.idle_memory import BUSY_BYTES, LOOK_S, IdleMemory
from jetstream_server.net.intake import Intake


class Handle:
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Keeps the one timer."""

    def call_later(self, delay, callback):
        assert delay == LOOK_S
        self.callback, self.handle = callback, Handle()
        return self.handle


@pytest.mark.parametrize(
    ("reads", "trims"),
    [
        ([0, 0, 0], []),
        ([BUSY_BYTES - 1, 0], []),
        ([BUSY_BYTES, BUSY_BYTES, 5, 0, 0], [2]),
        ([BUSY_BYTES, 0, 10, 2 * BUSY_BYTES, 1], [1, 4]),
    ],
)
def test_one_trim_after_each_busy_time(reads, trims) -> None:
    loop, intake, done = Loop(), Intake(), []
    looks: list[int] = []
    idle = IdleMemory(loop, intake, lambda: False, lambda: done.append(len(looks)))
    for size in reads:
        intake.read_bytes += size
        loop.callback()
        looks.append(size)
    assert done == trims
    idle.stop()
    assert loop.handle.is_cancelled


def test_what_streams_at_rest_let_go_of_is_given_back_at_the_next_look() -> None:
    loop, intake, done = Loop(), Intake(), []
    answers = [False, True, False, False]
    IdleMemory(loop, intake, lambda: answers.pop(0), lambda: done.append(4 - len(answers)))
    for _ in range(4):
        loop.callback()
    assert done == [2]


def test_trimming_does_no_harm_wherever_it_runs() -> None:
    idle_memory.trim()
