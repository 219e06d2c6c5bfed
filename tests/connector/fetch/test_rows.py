"""Schemas and record batches."""

from __future__ import annotations

import datetime
from array import array

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetstream_spark.errors import SchemaError
from jetstream_spark.fetch.rows import (
    COLUMNS,
    MessageBlock,
    arrow_schema,
    record_batch,
    schema_text,
)
from jetstream_spark.kernels import wire_to_arrow as kernel

TYPES: dict[str, DataType] = {
    "subject": StringType(),
    "data": BinaryType(),
    "stream": StringType(),
    "seq": LongType(),
    "timestamp": TimestampType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
}


def schema(*names: str, **others: DataType) -> StructType:
    kinds = {name: TYPES[name] for name in names} | others
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def block(*messages: tuple[bytes, bytes], count: int | None = None) -> MessageBlock:
    chunk = b"".join(
        b"MSG %b 2 $JS.ACK.S.c.1.%d.%d.%d.0 %d\r\n%b\r\n"
        % (subject, 10 + i, i + 1, 1_000_001_999 + i * 1000, len(data), data)
        for i, (subject, data) in enumerate(messages)
    )
    fields, numbers = array("i"), array("q")
    assert kernel.scan_deliveries(chunk, 0, len(chunk), b"2", fields, numbers) == len(chunk)
    return MessageBlock(chunk, fields, numbers, len(messages) if count is None else count)


def test_all_columns_have_the_types_that_spark_expects():
    wanted = schema(*TYPES)
    batch = record_batch(block((b"a.b", b"x"), (b"c", b"")), "S", arrow_schema(wanted))
    assert batch.schema.equals(to_arrow_schema(wanted, timezone="UTC"))
    batch.validate(full=True)
    first, second = batch.to_pylist()
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=datetime.UTC)
    assert first == {
        "subject": "a.b",
        "data": b"x",
        "stream": "S",
        "seq": 10,
        "timestamp": moment,
        "headers": [],
    }
    assert second["seq"] == 11 and second["data"] == b""


def test_a_subset_in_any_order_and_only_the_counted_rows():
    wanted = arrow_schema(schema("seq", "subject"))
    batch = record_batch(block((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), count=2), "S", wanted)
    assert batch.schema.names == ["seq", "subject"]
    assert batch.to_pylist() == [{"seq": 10, "subject": "a"}, {"seq": 11, "subject": "b"}]


def test_no_column_at_all_still_counts():
    assert record_batch(block((b"a", b"1"), (b"b", b"2")), "S", pa.schema([])).num_rows == 2


def test_a_subject_that_is_not_utf8():
    batch = record_batch(block((b"a.\xff", b"")), "S", arrow_schema(schema("subject")))
    assert batch.to_pylist() == [{"subject": "a.\ufffd"}]


def test_the_schema_as_text_is_that_of_the_columns():
    assert schema_text(False) == (
        "subject STRING, data BINARY, stream STRING, seq BIGINT, timestamp TIMESTAMP"
    )
    assert {name: kind.simpleString().upper() for name, kind in TYPES.items()} == COLUMNS


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (schema(body=BinaryType()), "'body' is no column"),
        (schema(seq=StringType()), "'seq' is BIGINT, not STRING"),
        (schema(headers=MapType(StringType(), StringType())), "not MAP<STRING,STRING>"),
        (StructType([StructField("seq", LongType())] * 2), "'seq' is there twice"),
    ],
)
def test_other_schemas_are_refused(wanted, expected):
    with pytest.raises(SchemaError, match=expected):
        arrow_schema(wanted)
