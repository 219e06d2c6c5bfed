"""When a schedule comes up, by what its headers say."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.schedules import schedule_timing
from jetstream_server.jetstream.streams.schedules.cron import parse_cron
from jetstream_server.jetstream.streams.schedules.schedule_timing import (
    TIMING_BYTES_MAX,
    parse_timing,
    timing_of,
)


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("@every 90s", 1.5, 91),
        ("@every 1.9s", 1.5, 2),
        ("@hourly", 1.5, 3600),
        ("0 0 0 * * *", 0, 86400),
        ("@weekly", 0, 3 * 86400),
    ],
)
def test_next(text: str, after: float, expected: int) -> None:
    timing = parse_timing(text, "")
    assert timing is not None
    assert timing.next_after(int(after * SECOND)) == expected * SECOND


@pytest.mark.parametrize(
    "text",
    ["", "@foo", "@DAILY", "@daily ", "@every 999ms", "@every", "@every  2s", "@at x", "@at"],
)
def test_no_schedule(text: str) -> None:
    assert parse_timing(text, "") is None


def test_what_is_very_long_is_no_schedule() -> None:
    """A pattern of 64 KB took 40 ms to read, each time that it came up."""
    rest = b" 0 0 1 1 *"
    longest = b"0," * (TIMING_BYTES_MAX // 2 - 5) + b"0"
    longest = longest[: TIMING_BYTES_MAX - len(rest)] + rest
    assert timing_of({names.SCHEDULE: longest}) is not None
    too_long = b" " * (TIMING_BYTES_MAX + 1 - len(longest)) + longest
    assert timing_of({names.SCHEDULE: too_long}) is None


def test_a_pattern_is_read_once_for_its_check_and_its_storing(monkeypatch: Any) -> None:
    reads = []
    monkeypatch.setattr(
        schedule_timing,
        "parse_cron",
        lambda text, zone: reads.append(text) or parse_cron(text, zone),
    )
    special = {names.SCHEDULE: b"1,2,3 4 5 6 7 *", names.SCHEDULE_TIME_ZONE: b"Europe/Berlin"}
    first, again = timing_of(special), timing_of(special)
    assert first == again
    assert first is not None
    assert len(reads) == 1
    assert timing_of(special | {names.SCHEDULE_TIME_ZONE: b"Asia/Tokyo"}) != first
