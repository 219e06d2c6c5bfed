"""Looks follow each other closely after rows, and ever more seldom when nothing comes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jetstream_spark.source.pace import LULL_MAX_S, SPARKS_PAUSE_S, Pace


def looks(pace: Pace, since: float, until: float) -> list[float]:
    """When Spark, which asks whenever it was answered, has the streams looked at.

    Nothing new is found.
    """
    now, found = since, [since]
    while now < until:
        if now - found[-1] >= pace.age_max_s:
            found.append(now)
        said_at = pace.nothing_new(found[-1], now)
        assert now <= said_at <= now + LULL_MAX_S
        now = said_at + SPARKS_PAUSE_S + 0.001
    return found


def test_an_idle_query_looks_once_in_its_interval():
    found = looks(Pace(0.1), 100, 120)
    assert 185 <= len([at for at in found if at >= 101]) <= 190


@pytest.mark.parametrize("interval_s", [0.1, 1, 10])
def test_a_row_waits_for_a_part_of_the_time_without_rows(interval_s):
    pace = Pace(interval_s)
    looks(pace, 0, 5)
    pace.note_rows()
    found = looks(pace, 5, 5 + 20 * interval_s)
    for before, after in pairwise(found):
        allowed = min(interval_s, max(interval_s / 10, (before - 5) / 4))
        assert allowed - 1e-9 <= after - before <= allowed + SPARKS_PAUSE_S + 0.003
    # So rows that stop cost a few looks more than none.
    assert len(found) < 40


def test_looks_right_after_each_other_are_spaced_as_well():
    pace = Pace(0.1)
    for at in range(100):
        pace.note_rows()
        assert pace.age_max_s == 0.01
        pace.nothing_new(at, at)
        assert pace.age_max_s == 0.01


def test_spark_that_comes_back_late_is_not_held_up():
    pace = Pace(0.1)
    for at in range(20):
        assert pace.nothing_new(at, at) == at


def test_nothing_is_held_back_for_long():
    pace = Pace(3600)
    pace.nothing_new(0, 0)
    assert pace.nothing_new(0, 0.01) == 0.01 + LULL_MAX_S
