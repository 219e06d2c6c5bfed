"""Offsets as the checkpoint keeps them; checkpoints of earlier versions must still load."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.errors import OffsetsError
from jetstream_spark.options.offsets import Offsets, StreamOffset, Tasks, parse_starting_point

streams = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.builds(StreamOffset, st.text(max_size=5), st.integers(0), st.none() | st.integers(0)),
)
tasks = st.builds(Tasks, st.integers(1), st.integers(1), st.integers(1))
subjects = st.lists(st.text(max_size=5), max_size=2).map(tuple)
offsets = st.builds(Offsets, streams, st.none() | tasks, st.none() | subjects, st.booleans())

# Written by version 1 of the format: must be readable for ever, byte for byte.
VERSION_1 = (
    '{"v": 1, "streams": {"A": {"created": "t1", "next": 7}, "B": {"created": "t2", "next": 1}}}'
)
WITH_TASKS = VERSION_1[:-1] + ', "tasks": {"offsetsMax": 1000, "min": 2, "max": 64}}'
WITH_SUBJECTS = WITH_TASKS[:-1] + ', "subjects": ["a.*", "b"]}'


@given(offsets)
def test_back_and_forth(value):
    text = json.dumps(value.to_json())
    assert Offsets.from_json(json.loads(text)) == value
    again = Offsets(
        dict(reversed(value.streams.items())), value.tasks, value.subjects, value.is_purged
    )
    assert json.dumps(again.to_json()) == text, "the order of keys must not depend on history"


def test_a_checkpoint_of_version_1():
    value = Offsets.from_json(json.loads(VERSION_1))
    assert value.streams == {"A": StreamOffset("t1", 7), "B": StreamOffset("t2", 1)}
    assert json.dumps(value.to_json()) == VERSION_1


def test_how_a_batch_is_cut():
    value = Offsets.from_json(json.loads(WITH_TASKS))
    assert value.tasks == Tasks(1000, 2, 64)
    assert json.dumps(value.to_json()) == WITH_TASKS
    value = Offsets.from_json(json.loads(WITH_SUBJECTS))
    assert (value.tasks, value.subjects) == (Tasks(1000, 2, 64), ("a.*", "b"))
    assert json.dumps(value.to_json()) == WITH_SUBJECTS
    assert parse_starting_point(WITH_SUBJECTS, ("A", "B")) == {"A": 7, "B": 1}


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "7", "null", '{"v": 1}', '{"v": 1, "streams": {"A": {}}}', '{"v": 2}']
    + [VERSION_1[:-1] + f', "tasks": {tasks}}}' for tasks in ("null", "{}", "[1, 1, 1]")]
    + [VERSION_1.replace("7", at) for at in ('"x"', "[]", "1e999", "NaN")]
    + [WITH_TASKS.replace("64", at) for at in ("0", '"x"', "1e999")]
    + [WITH_SUBJECTS.replace('["a.*", "b"]', at) for at in ("1", "null", '"a"', "[1]")],
)
def test_anything_else_is_refused_with_a_remedy(text):
    with pytest.raises(OffsetsError, match="checkpointLocation"):
        Offsets.from_json(json.loads(text))
