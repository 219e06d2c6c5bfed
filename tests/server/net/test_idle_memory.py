"""Memory goes back to the system after each busy time, and when much was freed in a quiet one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event, current_thread, main_thread

import pytest
from jetstream_server.net.allocator import HELD_BYTES
from jetstream_server.net.idle_memory import (
    BUSY_BYTES,
    GIVEN_BACK_AT_ONCE,
    HELD_AT_ONCE,
    LOOK_S,
    QUIET_LOOKS,
    WORTH_BYTES,
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

    def __init__(self) -> None:
        self.soon = []

    def call_later(self, delay, callback):
        assert delay == LOOK_S
        self.callback, self.handle = callback, Handle()
        return self.handle

    def look(self) -> None:
        self.callback()
        self.looks += 1

    def call_soon(self, callback, *arguments):
        self.soon.append((callback, arguments))

    call_soon_threadsafe = call_soon

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback, arguments in soon:
            callback(*arguments)


def at_once(work: Callable[[], None]) -> None:
    work()


class Allocator:
    """Notes at which looks it was trimmed, and how much was free and not held then."""

    def __init__(self, loop: Loop) -> None:
        self.trims: list[int] = []
        self.free = self.questions = 0
        self.keeps = 0
        self.given_back: list[int] = []
        self.held: set[int] = set()
        self.holdable = sys.maxsize
        self.holds: list[int] = []
        self._loop = loop

    def keep(self) -> None:
        self.keeps += 1

    def trim(self) -> None:
        self.trims.append(self._loop.looks)
        self.given_back.append(self.free // HELD_BYTES - len(self.held))

    def free_bytes(self) -> int:
        self.questions += 1
        return self.free

    def hold(self, count_max: int) -> list[int]:
        self.holds.append(count_max)
        begin = len(self.held)
        places = list(range(begin, min(begin + count_max, self.holdable)))
        self.held.update(places)
        return places

    def let_go(self, places: list[int]) -> None:
        assert 0 < len(places) <= GIVEN_BACK_AT_ONCE
        self.held.difference_update(places)


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


@pytest.mark.parametrize("holdable", [sys.maxsize, HELD_AT_ONCE, 100, 0])
def test_much_is_given_back_some_at_a_time(monkeypatch, holdable) -> None:
    monkeypatch.setattr("jetstream_server.net.idle_memory.PAUSE_S", 0)
    loop, intake, free = Loop(), Intake(), 2 * HELD_AT_ONCE + 300
    allocator = Allocator(loop)
    allocator.free, allocator.holdable = free * HELD_BYTES, holdable
    IdleMemory(loop, intake, lambda: False, allocator, at_once)
    intake.read_bytes = BUSY_BYTES
    for _ in range(4):  # it is not asked again meanwhile
        loop.look()
    assert not allocator.trims and allocator.questions == 1
    while loop.soon:
        loop.turn()
    held = min(free, holdable)
    begins = range(0, held + 1, HELD_AT_ONCE)
    assert allocator.holds == [min(HELD_AT_ONCE, free - begin) for begin in begins]
    # All that could not be held, and then the rest in portions.
    portions = [free - held + each for each in range(0, held, GIVEN_BACK_AT_ONCE)]
    assert allocator.given_back == [*portions, free] and not allocator.held


def test_what_is_a_little_is_given_back_at_once() -> None:
    loop, intake = Loop(), Intake()
    allocator = Allocator(loop)
    allocator.free = (GIVEN_BACK_AT_ONCE + 1) * HELD_BYTES - 1
    IdleMemory(loop, intake, lambda: False, allocator, at_once)
    intake.read_bytes = BUSY_BYTES
    for _ in range(2):
        loop.look()
    assert allocator.given_back == [GIVEN_BACK_AT_ONCE] and not loop.soon


@pytest.mark.parametrize("fails_in", ["free_bytes", "trim"])
def test_it_is_asked_again_after_an_error(fails_in) -> None:
    loop, intake = Loop(), Intake()
    allocator = Allocator(loop)

    def fail() -> None:
        raise OSError("planted")

    setattr(allocator, fails_in, fail)
    IdleMemory(loop, intake, lambda: False, allocator, at_once)
    intake.read_bytes = BUSY_BYTES
    loop.look()
    with pytest.raises(OSError, match="planted"):
        loop.look()
    delattr(allocator, fails_in)
    intake.read_bytes = 2 * BUSY_BYTES
    for _ in range(2):
        loop.look()
    assert len(allocator.trims) == 1
