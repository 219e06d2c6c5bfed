"""RFC 3339 as Go reads and writes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.wire import go_time

LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00Z",
        "2020-02-29T12:34:56.1Z",
        "2020-01-01T00:00:00.12+02:00",
        "2020-01-01T00:00:00-00:30",
        "9999-12-31T23:59:59Z",
    ],
)
def test_reading_and_writing_is_identity(text: str) -> None:
    assert go_time.format_time(go_time.parse_time(text)) == text


def test_the_zero_time() -> None:
    assert go_time.format_time(go_time.ZERO) == go_time.ZERO_TEXT
    assert go_time.parse_time(go_time.ZERO_TEXT) == go_time.ZERO


def test_a_zone_moves_the_instant() -> None:
    assert go_time.parse_time("1970-01-01T02:00:00+02:00") == 0


def test_an_hour_may_have_one_digit() -> None:
    assert go_time.parse_time("1970-01-01T2:00:00Z") == go_time.parse_time("1970-01-01T02:00:00Z")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("bad", f'parsing time "bad" as "{LAYOUT}": cannot parse "bad" as "2006"'),
        ("", f'parsing time "" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("2020-01-01", f'parsing time "2020-01-01" as "{LAYOUT}": cannot parse "" as "T"'),
        (
            "2020-01-01t00:00:00z",
            f'parsing time "2020-01-01t00:00:00z" as "{LAYOUT}": cannot parse "t00:00:00z" as "T"',
        ),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        (
            '2\u00e9"\\\n\x7f',
            'parsing time "2\\xc3\\xa9\\"\\\\\\x0a\x7f" as '
            f'"{LAYOUT}": cannot parse "2\\xc3\\xa9\\"\\\\\\x0a\x7f" as "2006"',
        ),
        (
            "2020-01-01T00:00:00+25:00",
            'parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range',
        ),
        (
            "2020-01-01T00:00:00+24:61",
            'parsing time "2020-01-01T00:00:00+24:61": time zone offset minute out of range',
        ),
        (
            "2020-01-01T00:00:00Zx",
            'parsing time "2020-01-01T00:00:00Zx": extra text: "x"',
        ),
        (
            "2020-01-01T00:00:00+1:00",
            f'parsing time "2020-01-01T00:00:00+1:00" as "{LAYOUT}": '
            'cannot parse "+1:00" as "Z07:00"',
        ),
    ],
)
def test_refusals(text: str, refusal: str) -> None:
    with pytest.raises(ValueError) as caught:
        go_time.parse_time(text)
    assert str(caught.value) == refusal


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999))
def test_agrees_with_datetime(seconds: int, nanoseconds: int) -> None:
    text = go_time.format_time(seconds * go_time.NANOSECONDS + nanoseconds)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert text[:19] == moment.strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
    assert go_time.parse_time(text) == seconds * go_time.NANOSECONDS + nanoseconds
