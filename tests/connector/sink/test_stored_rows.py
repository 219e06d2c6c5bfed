"""Which rows are missing, by what the stream has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.stored_rows import places_not_in, sequences_of


def inquiry(history: int) -> Inquiry:
    config = {"max_msgs_per_subject": history}
    state = StreamState("S", "now", 1, 1, 0, 0, config)
    connection = SinkOptions.parse({"servers": "nats://h:1"}).connection
    return Inquiry(Control(None, connection), state, 120.0)


@pytest.mark.parametrize(("history", "missing"), [(-1, [0, 2, 4]), (1, [2, 4])])
def test_rows_that_a_later_one_replaced_are_not_missing(history: int, missing: list[int]) -> None:
    subjects = pa.array([b"a", b"a", b"b", b"c", b"c"], pa.binary())
    ids = pa.array([b"0", b"1", b"2", b"3", b"4"], pa.binary())
    rows = OutgoingRows(subjects, b"", ids, ids)
    numbers = np.arange(10, 15)
    found = places_not_in({b"1", b"3", b"99"}, rows, numbers, inquiry(history))
    assert found.tolist() == missing


def test_nothing_is_stored() -> None:
    ids = pa.array([b"0", b"1"], pa.binary())
    rows = OutgoingRows(b"a", b"", ids, ids)
    assert places_not_in(set(), rows, np.arange(2), inquiry(1)).tolist() == [0, 1]


@pytest.mark.parametrize("stored", [{}, {b"9": 4}, {b"1": 7, b"9": 4, b"2": 5}])
def test_where_rows_are_stored_and_that_others_are_not(stored: dict[bytes, int]) -> None:
    ids = pa.array([b"0", b"1", b"2", b"3"], pa.binary())
    found = sequences_of(stored, OutgoingRows(b"a", b"", ids, ids))
    assert found.tolist() == [0, stored.get(b"1", 0), stored.get(b"2", 0), 0]
