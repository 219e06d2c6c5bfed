"""What is ours in a progress."""

from __future__ import annotations

import json
import math

import pytest

from jetstream_spark.observation.progress import number, sources_of, streams_of

OURS = {"v": 1, "streams": {"A": {"next": 8}}}


@pytest.mark.parametrize(
    "sources", [None, {}, [], ["x", 1], [{}], [{"endOffset": {"t": 1}}], [{"endOffset": "["}]]
)
def test_others_sources_are_left_alone(sources):
    assert list(sources_of({"sources": sources})) == []


@pytest.mark.parametrize("write", [dict, json.dumps])
def test_ours_are_known_by_their_offsets(write):
    source = {"endOffset": write(OURS), "latestOffset": write(OURS | {"lag": 4})}
    other = {"endOffset": write({"streams": {"A": 1}}), "latestOffset": None}
    assert list(sources_of({"sources": [other, source]})) == [(source, OURS | {"lag": 4})]
    source["latestOffset"] = "x"
    assert list(sources_of({"sources": [source]})) == [(source, {})]
    assert streams_of(source["endOffset"]) == [("A", {"next": 8})]


def test_what_is_no_stream_is_left_out():
    assert streams_of({"streams": {"A": 7, "B": {}}}) == [("B", {})]
    assert streams_of(None) == streams_of("[" * 100_000) == []


def test_what_is_no_number_is_0():
    assert [number(one) for one in (3, 2.5, None, "7", math.nan, math.inf)] == [3, 2.5, 0, 0, 0, 0]
