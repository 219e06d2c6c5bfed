"""The clock never goes back, and starts at the time of day."""

from __future__ import annotations

import time

from jetstream_server.base.clock import SECOND, SystemClock, earliest


def test_it_tells_the_time_of_day():
    assert abs(SystemClock().now() - time.time_ns()) < SECOND


def test_it_never_goes_back_when_the_wall_clock_does(monkeypatch):
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now() >= before


def test_the_earliest_of_several_deadlines() -> None:
    assert earliest(3, None, 2, 4) == 2
    assert earliest(0, 1) == 0
    assert earliest(None, None) is None
    assert earliest() is None
