"""Columns of a write into an object store: what fits, and which row does not."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from jetstream_spark.errors import RowRefusedError, SchemaError
from jetstream_spark.object_info import info_subject
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from tests.connector.stores import ARROW, KINDS, put

BINARY = pa.binary()
OPTIONS = SinkOptions.parse({"servers": "nats://a:1", "objectStore": "files", "maxObjectSize": "4"})


def take(*rows: dict, kind=BINARY):
    schema = StructType()
    for name, one in KINDS.items():
        schema = schema.add(name, one)
    arrow = ARROW | {"bytes": kind}
    arrays = [pa.array([row.get(n) for row in rows], arrow.get(n, pa.string())) for n in KINDS]
    return columns_of_write(schema, OPTIONS).take(pa.record_batch(arrays, list(KINDS)), 10)


def test_rows_become_what_is_said_of_objects() -> None:
    more = {"operation": " DEL ", "description": "d", "headers": [("K", ["v", "w"])]}
    rows = take(put("a", b"1"), put("ö", None, **more))
    assert rows.subjects.to_pylist() == [info_subject("files", name).encode() for name in "aö"]
    assert rows.payloads.to_pylist() == [b"1", b""]
    said = [json.loads(line) for line in rows.lines.to_pylist()]
    assert said == [
        {"name": "a", "operation": "put"},
        {"name": "ö", "operation": "delete", "description": "d", "headers": {"K": ["v", "w"]}},
    ]
    assert take(put("a", "text"), kind=pa.string()).payloads.to_pylist() == [b"text"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (put(None), "its name is None"),
        (put(""), "its name is ''"),
        (put("n" * 4000), "its name has 4000 letters"),
        (put("a", None), "'a'.*its bytes are null"),
        (put("a", b"12345"), "'a'.*it has 5 bytes, and maxObjectSize is 4"),
        (put("a", operation="create"), "its operation is 'create', and must be one of put"),
        (put("a", headers=[("K", None)]), "its headers have"),
        (put("a", headers=[("K", [None])]), "its headers have"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(row, reason) -> None:
    with pytest.raises(RowRefusedError, match=rf"row 11 .*{reason}"):
        take(put("ok"), row)


def test_columns_that_do_not_fit_are_all_named() -> None:
    schema = StructType().add("bytes", LongType()).add("key", StringType())
    with pytest.raises(SchemaError) as caught:
        columns_of_write(schema, OPTIONS)
    text = str(caught.value)
    assert "no column 'name'" in text and "'bytes' is bigint" in text and "'key'" in text


def test_only_name_and_bytes_are_needed() -> None:
    schema = StructType().add("name", StringType()).add("bytes", BinaryType())
    batch = pa.record_batch([pa.array(["a"]), pa.array([b"1"])], ["name", "bytes"])
    assert len(columns_of_write(schema, OPTIONS).take(batch, 0)) == 1
