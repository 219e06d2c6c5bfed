"""Looks come ever more seldom; answers are held back until the next one, and never beyond it."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import BlockingHost
from jetstream_spark.client.operation import Pause
from jetstream_spark.errors import ConnectionFailedError
from jetstream_spark.source.outage import HOLD_MAX_S, DriverOutage

AWAY = ConnectionFailedError("no server could be reached.")


class Clock(BlockingHost):
    time = 100.0

    def now(self) -> float:
        return self.time

    def token(self, size_bytes: int) -> str:
        return "ffff"


def held_back(outage: DriverOutage, clock: Clock) -> float:
    """How long an answer waits."""
    before = clock.time
    for pause in outage.wait(before + HOLD_MAX_S):
        assert isinstance(pause, Pause)
        clock.time = max(clock.time, pause.until)
    return round(clock.time - before, 3)


def test_answers_wait_for_the_next_look_though_no_longer_than_they_may():
    clock = Clock()
    outage = DriverOutage(clock, 1000)
    waits = []
    for _ in range(6):
        outage.note(AWAY)
        while outage.is_pausing:
            waits.append(held_back(outage, clock))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 0.6, 1.0, 1.0]
    assert held_back(outage, clock) == 0  # it is time to look


def test_without_an_outage_nothing_waits():
    clock = Clock()
    outage = DriverOutage(clock, 1000)
    assert held_back(outage, clock) == 0 and outage.report() == {}
    for _ in range(5):
        outage.note(AWAY)
    assert outage.is_on and outage.is_pausing
    outage.end()
    assert not outage.is_on and not outage.is_pausing
    assert held_back(outage, clock) == 0 and outage.report() == {}
    outage.note(AWAY)
    assert held_back(outage, clock) == 0.1  # it begins with short pauses again


def test_it_says_since_when_and_why_and_ends_at_its_limit():
    clock = Clock()
    outage = DriverOutage(clock, 10)
    outage.note(AWAY)
    clock.time += 9.9
    outage.note(AWAY)
    assert outage.report() == {"waitingFor": AWAY.what, "waitingSeconds": 9}
    clock.time += 0.1
    with pytest.raises(ConnectionFailedError) as raised:
        outage.note(AWAY)
    assert raised.value is AWAY
