"""Content ids: same rows, same ids, in any order and however they are cut into batches."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from jetstream_spark.sink.message_ids import MessageIds

ROWS = st.lists(st.binary(max_size=2), max_size=30)


def ids_of(rows: list[bytes], cuts: list[int], scope: str = "q:1", partition: int = 0) -> list:
    ids = MessageIds(scope, partition)
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    return [
        one
        for start, stop in pairwise(bounds)
        for one in ids.of_rows(b"s", b"", pa.array(rows[start:stop], pa.binary())).to_pylist()
    ]


@given(ROWS, st.randoms(), st.lists(st.integers(0, 100), max_size=4))
@settings(max_examples=80, deadline=None)
def test_ids_are_unique_and_do_not_depend_on_order_or_cuts(rows, random_source, cuts) -> None:
    shuffled = list(rows)
    random_source.shuffle(shuffled)
    once, again = ids_of(rows, []), ids_of(shuffled, cuts)
    assert len(set(once)) == len(rows)
    assert sorted(once) == sorted(again)


@given(ROWS, st.randoms())
@settings(max_examples=50, deadline=None)
def test_no_reordering_gives_a_row_the_id_of_a_different_row(rows, random_source) -> None:
    shuffled = list(rows)
    random_source.shuffle(shuffled)
    by_id = dict(zip(ids_of(rows, []), rows, strict=True))
    assert all(by_id[one] == row for one, row in zip(ids_of(shuffled, []), shuffled, strict=True))


def test_scope_and_partition_separate_ids_and_are_seen_in_the_tag() -> None:
    ids = MessageIds("q:1", 3)
    assert all(one.startswith(ids.tag) for one in ids_of([b"a", b"a"], [], partition=3))
    everything = [
        one
        for scope in ("q:1", "q:2", "q:11")
        for partition in (0, 1, 11)
        for one in ids_of([b"a", b"a", b"b"], [], scope, partition)
    ]
    assert len(set(everything)) == len(everything) == 27


def test_equal_rows_are_numbered() -> None:
    first, other, second, third = ids_of([b"a", b"b", b"a", b"a"], [2])
    assert second == first + b".1"
    assert third == first + b".2"
    assert b"." not in other


def test_subject_and_headers_are_content() -> None:
    data = pa.array([b"x"], pa.binary())
    combinations = [(b"s", b""), (b"t", b""), (b"s", b"A: 1\r\n")]
    ids = [MessageIds("q", 0).of_rows(*one, data).to_pylist()[0] for one in combinations]
    assert len(set(ids)) == 3


@given(ROWS, ROWS)
@settings(max_examples=80, deadline=None)
def test_fingerprints_are_equal_exactly_for_equal_sets_of_rows(one, other) -> None:
    def fingerprint(rows):
        ids = MessageIds("q", 0)
        ids.of_rows(b"s", b"", pa.array(rows, pa.binary()))
        return ids.fingerprint

    assert (fingerprint(one) == fingerprint(other)) == (Counter(one) == Counter(other))
    assert fingerprint(one + other) == fingerprint(other + one)
