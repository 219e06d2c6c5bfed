"""Rates from counters: gaps, counters that begin anew, streams that are made anew."""

from __future__ import annotations

from datetime import UTC, datetime

from jetstream_console.asking.rates import GAP_S, WINDOW_S, RateSample, Samples, StreamRates
from jetstream_console.asking.streams import Streams, read_stream


def test_a_rate_is_the_rise_a_second():
    samples = Samples()
    assert samples.latest_rate("n") is None and samples.latest_s == 0
    for at_s, value in ((10, 100), (15, 150), (20, 140), (25, 140)):
        samples.add(RateSample(at_s, {"n": value}))
    assert samples.rates("n") == [(15, 10.0), (20, None), (25, 0.0)]
    assert samples.values("n") == [(10, 100), (15, 150), (20, 140), (25, 140)]
    assert samples.rates("other") == [(15, None), (20, None), (25, None)]
    assert (samples.latest_rate("n"), samples.latest_s) == (0.0, 25)


def test_where_nobody_looked_there_is_no_line():
    samples = Samples()
    samples.add(RateSample(10, {"n": 1}))
    samples.add(RateSample(10 + GAP_S + 5, {"n": 1000}))
    assert samples.rates("n") == [(15 + GAP_S, None)]
    assert samples.values("n") == [(10, 1), (11, None), (15 + GAP_S, 1000)]


def test_samples_are_kept_for_a_quarter_of_an_hour_and_one_a_second():
    samples = Samples()
    for step in range(3 * int(WINDOW_S) * 10):
        samples.add(RateSample(step / 10, {"n": step}))
    kept = samples.values("n")
    assert len(kept) == WINDOW_S + 1
    assert kept[-1][0] - kept[0][0] <= WINDOW_S
    samples.add(RateSample(0, {"n": 0}))
    assert samples.values("n") == kept


def _streams(**last: tuple[int, int]) -> Streams:
    rows = tuple(
        read_stream(
            {
                "config": {"name": name},
                "created": f"2026-01-{day:02}T00:00:00Z",
                "state": {"last_seq": sequence},
            }
        )
        for name, (day, sequence) in last.items()
    )
    return Streams(rows, len(rows), ())


def test_a_stream_takes_in_what_its_last_sequence_rose_by():
    assert read_stream({"created": "2026-01-02T00:00:00Z"}).created == datetime(
        2026, 1, 2, tzinfo=UTC
    )
    rates = StreamRates()
    rates.look(10, _streams(A=(1, 100), B=(1, 50)))
    assert (rates.of("A"), rates.taken_in) == (None, 0)
    rates.look(20, _streams(A=(1, 150), B=(2, 5), C=(3, 7)))
    assert (rates.of("A"), rates.of("B"), rates.of("C")) == (5.0, 0.5, None)
    assert rates.taken_in == 50 + 5 + 7
    rates.look(20, _streams(A=(1, 9999)))
    assert rates.of("A") == 5.0
    rates.look(30, _streams(A=(1, 150)))
    assert (rates.of("A"), rates.of("B")) == (0.0, None)
