"""Messages of a bucket as rows, whatever their headers look like."""

from __future__ import annotations

from array import array

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from jetstream_spark.fetch.kv_rows import BUCKET_COLUMNS, bucket_batch
from jetstream_spark.fetch.rows import MessageBlock, arrow_schema
from jetstream_spark.kernels import wire_to_arrow as kernel

SCHEMA = arrow_schema(
    StructType(
        [
            StructField("key", StringType()),
            StructField("value", BinaryType()),
            StructField("operation", StringType()),
            StructField("revision", LongType()),
        ]
    ),
    BUCKET_COLUMNS,
)


def block(*messages: tuple[bytes, bytes, bytes]) -> MessageBlock:
    """Subject, header lines, payload."""
    chunk = b""
    for i, (subject, lines, data) in enumerate(messages):
        headers = b"NATS/1.0\r\n" + lines + b"\r\n" if lines else b""
        reply = b"$JS.ACK.S.c.1.%d.%d.%d.0" % (10 + i, i + 1, 1_000_001_999)
        total = len(headers) + len(data)
        if headers:
            head = b"HMSG %b 2 %b %d %d" % (subject, reply, len(headers), total)
        else:
            head = b"MSG %b 2 %b %d" % (subject, reply, total)
        chunk += head + b"\r\n" + headers + data + b"\r\n"
    fields, numbers = array("i"), array("q")
    assert kernel.scan_deliveries(chunk, 0, len(chunk), b"2", fields, numbers) == len(chunk)
    return MessageBlock(chunk, fields, numbers, len(messages))


def rows(*messages: tuple[bytes, bytes, bytes], schema: pa.Schema = SCHEMA) -> list[tuple]:
    batch = bucket_batch(block(*messages), "KV_b", schema)
    batch.validate(full=True)
    assert batch.schema.equals(schema)
    return [tuple(row.values()) for row in batch.to_pylist()]


def test_puts_without_headers():
    assert rows((b"$KV.b.a", b"", b"1"), (b"$KV.b.c.d", b"", b"")) == [
        ("a", b"1", "PUT", 10),
        ("c.d", b"", "PUT", 11),
    ]


@pytest.mark.parametrize(
    ("lines", "operation"),
    [
        (b"KV-Operation: DEL\r\n", "DEL"),
        (b"KV-Operation:DEL\r\n", "DEL"),
        (b"Nats-Msg-Id: x\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n", "PURGE"),
        (b"Nats-Marker-Reason: MaxAge\r\nNats-TTL: 1h\r\n", "PURGE"),
        (b"Nats-Marker-Reason: Remove\r\n", "DEL"),
        (b"Trace: KV-Operation: DEL\r\n", "PUT"),
        (b"KV-Operation: DELETED\r\n", "PUT"),
    ],
)
def test_operations(lines, operation):
    found = rows((b"$KV.b.a", lines, b"left"), (b"$KV.b.b", b"", b"2"))
    assert found[0] == ("a", b"left" if operation == "PUT" else None, operation, 10)
    assert found[1] == ("b", b"2", "PUT", 11)


def test_a_mirror_has_the_keys_of_its_origin():
    names = [row[0] for row in rows((b"$KV.b.a", b"", b""), (b"$KV.origin.x.y", b"", b""))]
    assert names == ["a", "x.y"]


def test_some_columns_only():
    assert rows((b"$KV.b.a", b"KV-Operation: DEL\r\n", b""), schema=pa.schema([SCHEMA[3]])) == [
        (10,)
    ]
    empty = bucket_batch(block((b"$KV.b.a", b"", b"")), "KV_b", pa.schema([]))
    assert empty.num_rows == 1
