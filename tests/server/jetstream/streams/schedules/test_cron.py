"""Cron patterns: what is one, and when it comes up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.jetstream.streams.schedules import cron as cron_module
from jetstream_server.jetstream.streams.schedules.cron import Cron, parse_cron

BERLIN = ZoneInfo("Europe/Berlin")


def seconds(text: str, zone: object = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())  # type: ignore[arg-type]


def following(pattern: str, after: str, zone: ZoneInfo | None = None) -> str | None:
    cron = parse_cron(pattern, zone or UTC)
    assert cron is not None
    found = cron.next_after(seconds(after, zone or UTC))
    return None if found is None else datetime.fromtimestamp(found, zone or UTC).isoformat()


@pytest.mark.parametrize(
    ("pattern", "after", "expected"),
    [
        ("* * * * * *", "2026-11-21T15:00:00", "2026-11-21T15:00:01+00:00"),
        ("0 0 0 1 1 *", "2026-11-21T15:00:00", "2027-01-01T00:00:00+00:00"),
        ("0 0 0 29 FEB ?", "2026-11-21T15:00:00", "2028-02-29T00:00:00+00:00"),
        ("30 */20 9-17/4 * * mon-fri", "2026-11-21T15:00:00", "2026-11-23T09:00:30+00:00"),
        ("5/25 0 0 1 1 *", "2027-01-01T00:00:05", "2027-01-01T00:00:30+00:00"),
        ("0 0 0 13 * fri", "2026-11-21T15:00:00", "2026-11-27T00:00:00+00:00"),  # either day
        ("0 0 0 */2 * fri", "2026-11-21T15:00:00", "2026-11-23T00:00:00+00:00"),  # a step restricts
        ("0 0 0 * * fri", "2026-11-21T15:00:00", "2026-11-27T00:00:00+00:00"),
        ("0 0 0 31 4 *", "2026-11-21T15:00:00", None),
        (", 0 0 1 1 *", "2026-11-21T15:00:00", None),
    ],
)
def test_next(pattern: str, after: str, expected: str | None) -> None:
    assert following(pattern, after) == expected


def test_clocks_that_change() -> None:
    # 02:30 does not exist on 29 March 2026, and exists twice on 25 October.
    assert following("0 30 2 * * *", "2026-03-28T12:00", BERLIN) == "2026-03-30T02:30:00+02:00"
    once = seconds("2026-10-25T00:30:00")
    cron = parse_cron("0 30 2 * * *", BERLIN)
    assert cron is not None
    assert cron.next_after(once - 1) == once
    assert cron.next_after(once) == once + 3600
    assert following("0 0 0 * * *", "2026-10-25T00:00:00", BERLIN) == "2026-10-26T00:00:00+01:00"


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "* * * * *", "* * * * * * *", "60 * * * * *", "* * 24 * * *", "* * * 0 * *"),
        *("* * * * 13 *", "* * * * * 7", "* * * L * *", "*/0 * * * * *", "1-5/0 * * * * *"),
        *("1/2/3 * * * * *", "1-2-3 * * * * *", "10-5 * * * * *", "-1 * * * * *", "a * * * * *"),
        *("* * * * january *", "jan * * * * *", "* * * * * sat-sun", "٣ * * * * *", "*/ * * * * *"),
    ],
)
def test_no_patterns(pattern: str) -> None:
    assert parse_cron(pattern, UTC) is None


@settings(max_examples=50)
@given(
    after=st.integers(1_500_000_000, 2_000_000_000),
    second=st.integers(0, 59),
    minute=st.integers(0, 59),
    hour=st.integers(0, 23),
)
def test_once_a_day(after: int, second: int, minute: int, hour: int) -> None:
    cron = parse_cron(f"{second} {minute} {hour} * * *", UTC)
    assert cron is not None
    found = cron.next_after(after)
    assert found is not None
    assert after < found <= after + 86_400
    assert found % 86_400 == hour * 3600 + minute * 60 + second


@pytest.mark.parametrize("place", range(6))
def test_a_field_of_commas_never_comes_up_and_is_not_looked_for_long(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """The seconds of five years were tried one after the other, for minutes."""
    fields = ["0", "0", "0", "*", "*", "*"]
    fields[place] = ","
    cron, looks = parse_cron(" ".join(fields), UTC), []
    assert cron is not None
    local = Cron._local

    def look(self: Cron, second: int) -> datetime:
        looks.append(second)
        assert len(looks) < 3000
        return local(self, second)

    monkeypatch.setattr(Cron, "_local", look)
    assert cron.next_after(1_700_000_000) is None


def test_days_that_do_not_come_up_are_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that never comes up took 5 ms to refuse."""
    looks = []
    local = Cron._local

    def look(self: Cron, second: int) -> datetime:
        looks.append(second)
        return local(self, second)

    monkeypatch.setattr(Cron, "_local", look)
    assert following("59 0 0 31 2,4,6,9,11 *", "2026-11-21T15:00:00") is None
    assert following("59 0 0 , * *", "2026-11-21T15:00:00") is None
    assert following("59 0 0 29 2 *", "2026-11-21T15:00:00") == "2028-02-29T00:00:59+00:00"
    assert len(looks) <= 9


@settings(max_examples=50)
@given(
    days=st.sets(st.integers(1, 31), min_size=1, max_size=3),
    months=st.sets(st.integers(1, 12), min_size=1, max_size=3),
    week_days=st.sets(st.integers(0, 6), max_size=3),
    after=st.integers(1_500_000_000, 2_000_000_000),
)
def test_days_are_those_of_the_calendar(
    days: set[int], months: set[int], week_days: set[int], after: int
) -> None:
    fields = [",".join(map(str, values)) or "*" for values in (days, months, week_days)]
    cron = parse_cron(f"0 0 0 {' '.join(fields)}", UTC)
    assert cron is not None
    day = datetime.fromtimestamp(after, UTC).replace(hour=0, minute=0, second=0)
    last_year = day.year + 5
    while True:
        day += timedelta(days=1)
        if day.year > last_year:
            expected = None
            break
        in_week = day.isoweekday() % 7 in week_days
        if day.month in months and (day.day in days or in_week):
            expected = int(day.timestamp())
            break
    assert cron.next_after(after) == expected


def test_a_value_that_is_said_often_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = cron_module._parse_range
    monkeypatch.setattr(
        cron_module, "_parse_range", lambda text, field: reads.append(text) or read(text, field)
    )
    assert parse_cron("*,7," * 30_000 + " * * * * *", UTC) is not None
    assert len(reads) == 7
