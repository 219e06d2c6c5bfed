"""When a schedule comes up, by what its headers say."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.streams.schedules.schedule_timing import parse_timing


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
