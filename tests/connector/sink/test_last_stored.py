"""Which rows would come back over later ones of their subject."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from jetstream_spark.sink.last_stored import LastStored


def is_after(last: LastStored, subjects, rows: list[int]) -> list[bool]:
    return last.is_after(subjects, np.array(rows, np.int64)).tolist()


def test_the_last_row_of_each_subject_counts() -> None:
    last = LastStored()
    assert is_after(last, pa.array([b"a"]), [0]) == [False]
    last.note(pa.array([b"a", b"b", b"a"]), np.array([0, 1, 4]))
    last.note(pa.array([], pa.binary()), np.array([], np.int64))
    last.note(pa.array([b"b"]), np.array([3]))
    subjects = pa.array([b"a", b"a", b"a", b"b", b"b", b"c"])
    assert is_after(last, subjects, [3, 4, 5, 2, 3, 0]) == [True, False, False, True, False, False]


def test_one_subject_for_all() -> None:
    last = LastStored()
    last.note(b"a", np.array([2, 7]))
    assert is_after(last, b"a", [6, 7, 8]) == [True, False, False]
