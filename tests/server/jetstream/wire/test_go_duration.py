"""Durations in Go's notation."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.wire.go_duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (200_000_000, "200ms"),
        (1_000_000_000, "1s"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (-1_500_000, "-1.5ms"),
    ],
)
def test_formatting_and_back(nanoseconds, text):
    assert format_duration(nanoseconds) == text
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("0.2s", 200_000_000),
        (".5s", 500_000_000),
        ("+1h30m", 5_400_000_000_000),
        ("1us", 1_000),
        ("1.000000001s", 1_000_000_001),
    ],
)
def test_other_spellings(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1d", "--1s", "1s ", ".s", "9" * 70 + "s"])
def test_what_is_no_duration(text):
    assert parse_duration(text) is None


def test_what_is_too_long_for_a_duration():
    assert parse_duration("99999999999h") is None
