"""Cutting a range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.fetch.ranges import SequenceRange


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 12))
def test_pieces_are_even_and_cover(start, length, pieces):
    whole = SequenceRange("S", "t", start, start + length)
    cuts = whole.cut(pieces)
    assert [seq for cut in cuts for seq in range(cut.start, cut.stop)] == list(
        range(start, start + length)
    )
    assert len(cuts) == min(pieces, length)
    assert max(map(len, cuts), default=0) - min(map(len, cuts), default=0) <= 1


def test_it_says_what_it_is():
    assert str(SequenceRange("S", "t", 1, 5)) == "[1, 5) of stream 'S'"
    assert len(SequenceRange("S", "t", 5, 1)) == 0
