"""Offsets as the checkpoint keeps them; checkpoints of earlier versions must still load."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.errors import OffsetsError
from jetstream_spark.options.offsets import Offsets, StreamOffset

offsets = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.builds(StreamOffset, st.text(max_size=5), st.integers(0), st.none() | st.integers(0)),
).map(Offsets)

# Written by version 1 of the format: must be readable for ever, byte for byte.
VERSION_1 = (
    '{"v": 1, "streams": {"A": {"created": "t1", "next": 7}, "B": {"created": "t2", "next": 1}}}'
)


@given(offsets)
def test_back_and_forth(value):
    text = json.dumps(value.to_json())
    assert Offsets.from_json(json.loads(text)) == value
    again = Offsets(dict(reversed(value.streams.items())))
    assert json.dumps(again.to_json()) == text, "the order of keys must not depend on history"


def test_a_checkpoint_of_version_1():
    value = Offsets.from_json(json.loads(VERSION_1))
    assert value.streams == {"A": StreamOffset("t1", 7), "B": StreamOffset("t2", 1)}
    assert json.dumps(value.to_json()) == VERSION_1


@pytest.mark.parametrize(
    "text", ["{}", "[]", "7", "null", '{"v": 1}', '{"v": 1, "streams": {"A": {}}}', '{"v": 2}']
)
def test_anything_else_is_refused_with_a_remedy(text):
    with pytest.raises(OffsetsError, match="checkpointLocation"):
        Offsets.from_json(json.loads(text))
