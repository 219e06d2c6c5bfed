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
    idle = IdleMemory(loop, intake, lambda: done.append(len(looks)))
    for size in reads:
        intake.read_bytes += size
        loop.callback()
        looks.append(size)
    assert done == trims
    idle.stop()
    assert loop.handle.is_cancelled


def test_trimming_does_no_harm_wherever_it_runs() -> None:
    idle_memory.trim()
