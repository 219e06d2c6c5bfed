"""Which filters mean what to the server, and which stay Spark's."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.pushed_filters import PushedFilters

MOMENT = datetime.datetime(2026, 11, 22, 10, 0, 0, 5, tzinfo=datetime.UTC)
MOMENT_NS = 1795341600_000005_000


def push(*filters, **options: str) -> tuple[PushedFilters, list]:
    pushed = PushedFilters()
    named = {"servers": "nats://h:1", "stream": "S"} | options
    return pushed, list(pushed.push(SourceOptions.parse(named), filters))


def test_sequences_become_a_range():
    pushed, rest = push(
        IsNotNull(("seq",)), GreaterThan(("seq",), 10), LessThanOrEqual(("seq",), 15)
    )
    assert (pushed.start, pushed.stop, rest) == (11, 16, [])
    pushed, rest = push(
        GreaterThanOrEqual(("seq",), 3), LessThan(("seq",), 9), EqualTo(("seq",), 5)
    )
    assert (pushed.start, pushed.stop, rest) == (5, 6, [])


def test_times_narrow_the_range_and_stay_with_spark():
    filters = [GreaterThan(("timestamp",), MOMENT), LessThanOrEqual(("timestamp",), MOMENT)]
    pushed, rest = push(*filters)
    assert (pushed.since_ns, pushed.until_ns) == (MOMENT_NS + 1000, MOMENT_NS + 1000)
    assert rest == filters
    pushed, _ = push(EqualTo(("timestamp",), MOMENT))
    assert (pushed.since_ns, pushed.until_ns) == (MOMENT_NS, MOMENT_NS + 1000)


def test_subjects_and_streams():
    pushed, rest = push(In(("subject",), ("a.b", "a.c")), EqualTo(("stream",), "S"))
    assert (pushed.subjects, pushed.streams, rest) == ({"a.b", "a.c"}, {"S"}, [])
    pushed, rest = push(StringStartsWith(("subject",), "a.b."))
    assert (pushed.subjects, rest) == ({"a.b.>"}, [])
    pushed, rest = push(In(("stream",), ("A", "B")), EqualTo(("stream",), "B"))
    assert (pushed.streams, rest) == ({"B"}, [])


@pytest.mark.parametrize(
    ("one", "options"),
    [
        (StringStartsWith(("subject",), "a.b"), {}),
        (StringStartsWith(("subject",), "a.*."), {}),
        (StringStartsWith(("subject",), "."), {}),
        (EqualTo(("subject",), "a.*"), {}),
        (EqualTo(("subject",), "a..b"), {}),
        (EqualTo(("subject",), "a b"), {}),
        (EqualTo(("subject",), "a.\ufffd"), {}),
        (In(("subject",), tuple(f"a.{n}" for n in range(65))), {}),
        (EqualTo(("subject",), "a.b"), {"subjects": "a.*"}),
        (In(("subject",), ("a.b", "a.c")), {"commitMode": "none"}),
        (In(("seq",), (1, 2)), {}),
        (Not(EqualTo(("seq",), 1)), {}),
        (EqualTo(("data",), b"x"), {}),
        (EqualTo(("headers", "x"), "y"), {}),
        (EqualTo(("timestamp",), MOMENT.replace(tzinfo=None)), {}),
    ],
)
def test_what_means_something_else_stays_with_spark(one, options):
    pushed, rest = push(one, **options)
    assert rest == [one] and pushed == PushedFilters()


def test_of_two_filters_on_the_subject_one_is_sparks():
    second = EqualTo(("subject",), "a.c")
    pushed, rest = push(StringStartsWith(("subject",), "a."), second)
    assert (pushed.subjects, rest) == ({"a.>"}, [second])
