"""What a task of an observed query counts."""

from __future__ import annotations

from array import array

import pyarrow as pa
import pytest

from jetstream_spark.fetch.rows import MessageBlock
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.source import read_count
from jetstream_spark.source.read_count import ReadCount
from tests.connector.fetch.test_rows import block


@pytest.fixture
def told(monkeypatch) -> list[dict]:
    """What is reported."""
    reports: list[dict] = []
    monkeypatch.setattr(read_count, "report", reports.append)
    return reports


def batches(closed: list[bool], *counts: int):
    try:
        for count in counts:
            yield pa.record_batch([pa.array(range(count), pa.int64())], ["seq"])
    finally:
        closed.append(True)


def test_payloads_of_the_range_count_and_nothing_else():
    count = ReadCount()
    count.note_block(block((b"a", b"xyz"), (b"a.long.subject", b""), (b"b", b"1" * 70)))
    count.note_block(block((b"a", b"12"), (b"a", b"beyond the range"), count=1))
    assert count.data_bytes == 3 + 70 + 2


def test_headers_do_not_count():
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    frame = b"HMSG a 2 $JS.ACK.S.c.1.1.1.1.0 %d %d\r\n%b1234\r\n"
    chunk = frame % (len(headers), len(headers) + 4, headers)
    fields, numbers = array("i"), array("q")
    assert kernel.scan_deliveries(chunk, 0, len(chunk), b"2", fields, numbers) == len(chunk)
    count = ReadCount()
    count.note_block(MessageBlock(chunk, fields, numbers, 1))
    assert count.data_bytes == 4


def test_of_objects_their_contents_count_where_they_are_read():
    count = ReadCount()
    contents = pa.array([b"abc", None, b"", b"defg"], pa.binary())
    whole = pa.record_batch([contents, pa.array([9, 9, 9, 9])], ["bytes", "size"])
    assert count.noted_objects(whole.slice(1)) is not None
    assert count.noted_objects(whole.select(["size"])).schema.names == ["size"]
    assert count.data_bytes == 4


def test_it_is_reported_when_all_is_used(told):
    count, closed = ReadCount(), []
    count.data_bytes = 9
    rows = count.reported(batches(closed, 2, 0, 3))
    assert [batch.num_rows for batch in rows] == [2, 0, 3]
    assert (told, closed) == ([{"read_rows": 5, "bytes": 9}], [True])


def test_what_is_broken_off_is_not_reported(told):
    closed: list[bool] = []
    rows = ReadCount().reported(batches(closed, 2, 3))
    next(rows)
    rows.close()
    assert (told, closed) == ([], [True])
