"""The loop stays awake for clients that wait for each answer, and for nobody else."""

from __future__ import annotations

import pytest
from jetstream_server.net.busy_poll import (
    LONE_BYTES_MAX,
    STREAK_MIN,
    BusyPoll,
    has_core_to_spare,
)
from jetstream_server.net.intake import Intake

WAIT_NS = 100
TURN_NS = 10


class Loop:
    """A loop and a clock; looking at the sockets takes `pass_ns`."""

    def __init__(self) -> None:
        self.time = 0
        self.pass_ns = 7
        self.due = []

    def now(self):
        return self.time

    def call_soon(self, callback):
        self.due.append(callback)

    def run_until(self, time) -> None:
        """Let time pass; the loop sleeps when nothing is due."""
        while self.due and self.time < time:
            due, self.due = self.due, []
            for callback in due:
                callback()
            self.time += self.pass_ns
        self.time = max(time, self.time)

    @property
    def is_awake(self):
        return bool(self.due)


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def turn(loop):
    """Return what plays one turn: it begins, reads, and answers."""
    intake = Intake()
    polling = BusyPoll(loop, loop, intake, WAIT_NS)

    def turn(read_bytes, pause_ns):
        loop.run_until(loop.time + pause_ns)
        intake.read_bytes += read_bytes
        polling.turn_began(loop.time)
        loop.time += TURN_NS
        polling.answered()

    return turn


def test_it_begins_after_a_few_requests_each_soon_after_an_answer(loop, turn):
    for _ in range(STREAK_MIN - 1):
        turn(200, 50)
        assert not loop.is_awake
    turn(200, 50)
    assert loop.is_awake


def test_it_ends_when_no_request_comes(loop, turn):
    for _ in range(STREAK_MIN):
        turn(200, 50)
    answered = loop.time
    loop.run_until(answered + WAIT_NS - loop.pass_ns)
    assert loop.is_awake
    loop.run_until(answered + 2 * WAIT_NS)
    assert not loop.is_awake
    turn(200, 50)  # too late to count
    assert not loop.is_awake


def test_one_callback_is_enough(loop, turn):
    for _ in range(STREAK_MIN + 5):
        turn(200, 20)
    assert len(loop.due) == 1
    loop.run_until(loop.time + 80)
    assert loop.is_awake  # each answer begins the time anew


@pytest.mark.parametrize(
    ("read_bytes", "pause_ns"),
    [(LONE_BYTES_MAX + 1, 50), (0, 50), (200, WAIT_NS + 1)],
    ids=["much at once", "nothing, as when a timer fires", "with time between"],
)
def test_nobody_else_keeps_it_awake(loop, turn, read_bytes, pause_ns):
    for _ in range(3 * STREAK_MIN):
        turn(read_bytes, pause_ns)
        assert not loop.is_awake


@pytest.mark.parametrize(("cores", "expected"), [({0}, False), ({1, 3}, True)])
def test_a_client_needs_a_core_of_its_own(monkeypatch, cores, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: cores, raising=False)
    assert has_core_to_spare() is expected


@pytest.mark.parametrize(("cores", "expected"), [(1, False), (None, False), (8, True)])
def test_cores_where_nobody_is_bound_to_some(monkeypatch, cores, expected):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert has_core_to_spare() is expected
