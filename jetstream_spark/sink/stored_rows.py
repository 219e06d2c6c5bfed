"""Which rows of a batch a stream has, and where."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.sink.batch_outcome import RowPlaces
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.last_stored import LastStored
from jetstream_spark.sink.outgoing_rows import OutgoingRows


def places_not_in(
    stored: Collection[bytes], rows: OutgoingRows, numbers: RowPlaces, inquiry: Inquiry | None
) -> RowPlaces:
    """The places of the rows that the stream does not have.

    Args:
        stored: the ids that it has.
        numbers: of the rows in their partition.
    """
    assert rows.ids is not None, "without ids nothing is looked up"
    known = pc.is_in(rows.ids, pa.array(list(stored), pa.binary()))
    is_stored = known.to_numpy(zero_copy_only=False)
    if inquiry is not None and inquiry.keeps_last:
        last, subjects = LastStored(), rows.subject_column()
        last.note(subjects.filter(known), numbers[is_stored])
        is_stored = is_stored | last.is_after(subjects, numbers)
    return np.flatnonzero(~is_stored)


def sequences_of(stored: Mapping[bytes, int], rows: OutgoingRows) -> RowPlaces:
    """The sequence of each row, 0 where its id is not among those that are stored."""
    sequences = np.array([*stored.values(), 0], dtype=np.int64)
    places = pc.index_in(rows.ids, value_set=pa.array(list(stored), pa.binary()))
    found: RowPlaces = sequences[pc.fill_null(places, -1).to_numpy()]
    return found
