"""Numbers as they are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from jetstream_console.showing.quantities import count, kept_for, limit, rate, size, span_ns, when


def test_numbers_and_sizes():
    assert (count(1234567), count(0), count(None)) == ("1 234 567", "0", "–")
    assert [size(n) for n in (0, 1023, 1024, 1536, 5 << 30, 2**70, None)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
        "1024.0 EiB",
        "–",
    ]
    assert [limit(n) for n in (-1, 0, 2048)] == ["no limit", "0 B", "2.0 KiB"]
    assert [rate(n, "messages") for n in (None, 0, 0.25, 1234)] == [
        "–",
        "0 messages/s",
        "0.2 messages/s",
        "1 234 messages/s",
    ]


def test_moments_are_in_utc():
    there = datetime(2026, 11, 23, 1, 2, 3, 456789, timezone(timedelta(hours=2)))
    assert when(there) == "2026-11-22 23:02:03.456"
    assert when(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01 00:00:00.000"
    assert when(None) == "–"


def test_spans_have_two_units():
    assert [span_ns(int(s * 1e9)) for s in (0, 0.25, 1.5, 65, 3700, 90_000, -1)] == [
        "0 ms",
        "250 ms",
        "1.5 s",
        "1 m 5 s",
        "1 h 1 m",
        "1 d 1 h",
        "never",
    ]


def test_what_never_goes_is_kept_for_good():
    assert (kept_for(0), kept_for(90 * 10**9)) == ("no limit", "1 m 30 s")
