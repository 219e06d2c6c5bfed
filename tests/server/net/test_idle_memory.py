"""Memory goes back to the system after each busy time, and when much was freed in a quiet one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, current_thread, main_thread

import pytest
from jetstream_server.net import idle_memory
from jetstream_server.net.idle_memory import (
    BUSY_BYTES,
    LOOK_S,
    QUIET_LOOKS,
    WORTH_BYTES,
    GlibcAllocator,
    IdleMemory,
)
from jetstream_server.net.intake import Intake


class Handle:
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Keeps the one timer, and counts the looks."""

    looks = 0

    def call_later(self, delay, callback):
        assert delay == LOOK_S
        self.callback, self.handle = callback, Handle()
        return self.handle

    def look(self) -> None:
        self.callback()
        self.looks += 1


def at_once(work: Callable[[], None]) -> None:
    work()


class Allocator:
    """Notes at which looks it was trimmed."""

    def __init__(self, loop: Loop) -> None:
        self.trims: list[int] = []
        self.free = self.questions = 0
        self.keeps = 0
        self._loop = loop

    def keep(self) -> None:
        self.keeps += 1

    def trim(self) -> None:
        self.trims.append(self._loop.looks)

    def free_bytes(self) -> int:
        self.questions += 1
        return self.free


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
    loop, intake = Loop(), Intake()
    allocator = Allocator(loop)
    idle = IdleMemory(loop, intake, lambda: False, allocator, at_once)
    for size in reads:
        intake.read_bytes += size
        loop.look()
    assert allocator.trims == trims
    idle.stop()
    assert loop.handle.is_cancelled


def test_what_streams_at_rest_let_go_of_is_given_back_at_the_next_look() -> None:
    loop, answers = Loop(), [False, True, False, False]
    allocator = Allocator(loop)
    IdleMemory(loop, Intake(), lambda: answers.pop(0), allocator, at_once)
    for _ in range(4):
        loop.look()
    assert allocator.trims == [2]


def test_what_is_freed_long_after_the_busy_time_is_given_back_too() -> None:
    loop, intake = Loop(), Intake()
    allocator = Allocator(loop)
    IdleMemory(loop, intake, lambda: False, allocator, at_once)
    intake.read_bytes = BUSY_BYTES
    for _ in range(2):
        loop.look()
    assert allocator.trims == [1]
    # Free bytes as they are when the allocator is asked, and whether that is worth a trim.
    for free, is_worth in (
        (WORTH_BYTES - 1, False),
        (WORTH_BYTES, True),
        (2 * WORTH_BYTES - 1, False),  # of these, as many as it is worth were given back
        (5, False),
        (WORTH_BYTES + 5, True),  # the others had been used in between
    ):
        allocator.free, trims = free, len(allocator.trims)
        for _ in range(QUIET_LOOKS):
            loop.look()
        assert len(allocator.trims) - trims == is_worth


def test_a_server_that_was_never_busy_asks_nothing() -> None:
    loop = Loop()
    allocator = Allocator(loop)
    IdleMemory(loop, Intake(), lambda: False, allocator, at_once)
    for _ in range(5 * QUIET_LOOKS):
        loop.look()
    assert (allocator.questions, allocator.trims, allocator.keeps) == (0, [], 1)


def test_nothing_is_given_back_in_the_middle_of_something(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            asked.append((option, value))
            return 1

    monkeypatch.setattr(idle_memory, "_c_library", Library)
    GlibcAllocator().keep()
    assert asked == [(-3, 32 << 20), (-1, -1)]
    monkeypatch.setattr(idle_memory, "_c_library", object)  # another one
    GlibcAllocator().keep()


def test_nothing_is_asked_while_a_thread_is_at_it() -> None:
    loop, intake, given = Loop(), Intake(), []
    allocator = Allocator(loop)
    IdleMemory(loop, intake, lambda: False, allocator, given.append)
    for size in (BUSY_BYTES, 0, BUSY_BYTES, 0, 0):
        intake.read_bytes += size
        loop.look()
    assert (len(given), allocator.trims) == (1, [])
    given.pop()()
    assert allocator.trims == [5]
    loop.look()
    given.pop()()
    assert allocator.trims == [5, 6]


def test_a_thread_gives_memory_back() -> None:
    trimmed, loop, intake = Event(), Loop(), Intake()
    allocator = Allocator(loop)
    allocator.trim = lambda: trimmed.set() if current_thread() is not main_thread() else None
    IdleMemory(loop, intake, lambda: False, allocator)
    intake.read_bytes = BUSY_BYTES
    loop.look()
    loop.look()
    assert trimmed.wait(60)


def test_the_library_does_no_harm_wherever_it_is() -> None:
    allocator = GlibcAllocator()
    kept = [bytes(5000) for _ in range(4000)]
    before = allocator.free_bytes()
    kept = kept[::4]
    freed = allocator.free_bytes() - before
    assert freed > 10_000_000 or before == 0 == allocator.free_bytes()
    allocator.trim()
