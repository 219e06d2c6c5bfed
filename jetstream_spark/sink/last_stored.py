"""Rows that must not be sent again, because a later row of their subject is stored.

A stream that keeps only so many messages of a subject (a key-value bucket keeps one) has removed
what a later row replaced. When acks are lost, or when an attempt follows another one, such a row is
not found; if it were sent again it would replace the later row, and the subject would end up with
the older value. So a row that is not found counts as written when the stream has a later row of the
same subject: it came before that one on the same connection.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.kernels.arrow_to_wire import BytesColumn

Mask = npt.NDArray[np.bool_]


class LastStored:
    """The last row of each subject that a stream has, by its number in the partition."""

    def __init__(self) -> None:
        self._subjects = pa.array([], pa.binary())
        self._rows = pa.array([], pa.int64())

    def note(self, subjects: BytesColumn, rows: npt.NDArray[np.int64]) -> None:
        """Take stored rows into account."""
        found = pa.table(
            {
                "subject": pa.concat_arrays([self._subjects, _column(subjects, len(rows))]),
                "row": pa.concat_arrays([self._rows, pa.array(rows, pa.int64())]),
            }
        )
        last = found.group_by("subject").aggregate([("row", "max")])
        self._subjects = last["subject"].combine_chunks()
        self._rows = last["row_max"].combine_chunks()

    def is_after(self, subjects: BytesColumn, rows: npt.NDArray[np.int64]) -> Mask:
        """Whether a later row of its subject is stored, for each row."""
        places = pc.index_in(_column(subjects, len(rows)), value_set=self._subjects)
        last = pc.fill_null(self._rows.take(places), -1)
        is_later: Mask = last.to_numpy(zero_copy_only=False) > rows
        return is_later


def _column(subjects: BytesColumn, rows: int) -> pa.BinaryArray:
    if isinstance(subjects, bytes):
        return pa.array([subjects] * rows, pa.binary())
    return subjects
