"""Which rows lie behind an earlier row of their subject."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.sink import key_order
from jetstream_spark.sink.key_order import KeyOrder

rows = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.booleans()), max_size=6)


def take(order: KeyOrder, subjects, sequences: list[int]) -> list[tuple[int, int]]:
    column = subjects if isinstance(subjects, bytes) else pa.array(subjects, pa.binary())
    found = order.take(column, np.array(sequences, dtype=np.int64))
    return sorted(zip(found.places.tolist(), found.over.tolist(), strict=True))


def test_rows_in_order_lie_behind_none() -> None:
    order = KeyOrder()
    assert take(order, [b"a", b"b", b"a"], [1, 2, 7]) == []
    assert take(order, [b"b", b"a"], [8, 9]) == []


def test_a_duplicate_lies_behind_an_earlier_row_of_its_subject_and_no_other() -> None:
    order = KeyOrder()
    assert take(order, [b"a", b"b", b"c"], [11, 12, 13]) == []
    assert take(order, [b"a", b"d", b"b", b"a"], [4, 5, 6, 3]) == [(2, 12), (3, 11)]


def test_only_the_last_row_of_a_subject_counts() -> None:
    assert take(KeyOrder(), [b"a", b"a", b"a"], [9, 4, 10]) == []
    assert take(KeyOrder(), b"a", [9, 4, 5]) == [(2, 9)]


def test_rows_that_are_not_stored_do_not_count() -> None:
    order = KeyOrder()
    assert take(order, [b"a", b"a"], [0, 0]) == []
    assert take(order, [b"a", b"a", b"a"], [5, 3, 0]) == [(1, 5)]


def test_what_has_no_subject_is_not_stored() -> None:
    order = KeyOrder()
    assert take(order, [None, b"a", None], [0, 5, 0]) == []
    column = pa.array([b"x", None, b"a", b"b"], pa.binary()).slice(1)
    found = order.take(column, np.array([0, 4, 6]))
    assert (found.places.tolist(), found.over.tolist()) == ([1], [5])


def test_subjects_take_the_same_memory_whatever_their_length() -> None:
    order = KeyOrder()
    for first in range(0, 20_000, 2_000):
        subjects = [b"%d." % number * 20 for number in range(first, first + 2_000)]
        assert take(order, subjects, list(range(first + 1, first + 2_001))) == []
    assert take(order, subjects[:1], [1]) == [(0, 18_001)]
    assert order._subjects.nbytes + order._sequences.nbytes == 23 * 20_000


def test_a_row_that_is_stored_again_is_the_last_one() -> None:
    order = KeyOrder()
    assert take(order, [b"a", b"a"], [5, 3]) == [(1, 5)]
    order.note_again(pa.array([b"a"], pa.binary()), np.array([6]))
    assert take(order, b"a", [4]) == [(0, 6)]


@pytest.mark.parametrize("rows_max", [0, 1 << 20])
@given(blocks=st.lists(rows, max_size=5), shuffled=st.randoms())
def test_whatever_the_order(rows_max, blocks, shuffled) -> None:
    order, highest = KeyOrder(), dict[bytes, int]()
    numbers = list(range(1, 1 + sum(map(len, blocks))))
    if shuffled.random() < 0.7:
        shuffled.shuffle(numbers)
    before, key_order.ROWS_MAX = key_order.ROWS_MAX, rows_max
    try:
        for block in blocks:
            subjects = [subject for subject, _ in block]
            sequences = [numbers.pop(0) if is_stored else 0 for _, is_stored in block]
            last = dict[bytes, int]()
            for place, (subject, sequence) in enumerate(zip(subjects, sequences, strict=True)):
                if sequence:
                    last[subject] = place
                    highest[subject] = max(highest.get(subject, 0), sequence)
            behind = [
                (place, highest[subject])
                for subject, place in last.items()
                if sequences[place] < highest[subject]
            ]
            assert take(order, subjects, sequences) == sorted(behind)
    finally:
        key_order.ROWS_MAX = before
