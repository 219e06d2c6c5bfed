"""Pauses double up to a bound, and the last reason is raised when the limit would be passed."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import BlockingHost
from jetstream_spark.client.patience import SPREAD_S, Patience, by_chance, spread
from jetstream_spark.errors import ConnectionLostError

CUT = ConnectionLostError("cut.")


class Clock(BlockingHost):
    time = 100.0
    drawn = "ffff"

    def now(self) -> float:
        return self.time

    def token(self, size_bytes: int) -> str:
        return self.drawn


def waits(patience: Patience, clock: Clock) -> list[float]:
    """How long each wait was, until it gave up."""
    found = []
    with pytest.raises(ConnectionLostError) as raised:
        while True:
            (pause,) = patience.wait(CUT)
            found.append(round(pause.until - clock.time, 3))
            clock.time = pause.until
    assert raised.value is CUT
    return found


def test_pauses_grow_until_the_limit():
    clock = Clock()
    assert waits(Patience(clock, 5.0), clock) == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert waits(Patience(clock, 9.0), clock) == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_no_patience_is_one_try():
    clock = Clock()
    assert waits(Patience(clock, 0.0), clock) == []


def test_progress_ends_the_outage():
    clock = Clock()
    patience = Patience(clock, 1.0)
    waits(patience, clock)
    patience.note_progress()
    assert waits(patience, clock) == [0.1, 0.2, 0.4]


def test_a_pause_is_cut_by_half_at_most():
    clock = Clock()
    clock.drawn = "0000"
    assert waits(Patience(clock, 0.6), clock) == [0.05, 0.1, 0.2]
    host = BlockingHost()
    drawn = [by_chance(host, 8.0) for _ in range(200)]
    assert all(4 <= pause <= 8 for pause in drawn) and max(drawn) - min(drawn) > 2


def test_those_who_are_cut_together_are_spread_over_all_of_the_time():
    host = BlockingHost()
    drawn = [spread(host) for _ in range(400)]
    assert min(drawn) < SPREAD_S / 10 and SPREAD_S * 0.9 < max(drawn) <= SPREAD_S
