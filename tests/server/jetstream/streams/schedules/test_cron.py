"""Cron patterns: what is one, and when it comes up."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
