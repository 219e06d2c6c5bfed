"""Rows: the columns of the source, the schemas that may be asked for, and record batches.

A user may ask for any subset of the columns in any order. Spark offers Python sources no column
pruning, so this is the way to avoid building columns that nobody needs
(docs/reference/spark.md#filters-and-columns).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from jetstream_spark.errors import SchemaError
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.spark_api import utc_arrow_schema

COLUMNS = {
    "subject": "STRING",
    "data": "BINARY",
    "stream": "STRING",
    "seq": "BIGINT",
    "timestamp": "TIMESTAMP",
    "headers": "MAP<STRING,ARRAY<STRING>>",
}


@dataclass(slots=True)
class MessageBlock:
    """Delivered messages, still in the bytes they arrived in.

    Attributes:
        chunk: the received bytes; reused once the block has been turned into a record batch.
        fields, numbers: what `scan_deliveries` found.
        count: how many messages from the front belong to the range.
    """

    chunk: bytes | bytearray
    fields: array[int]
    numbers: array[int]
    count: int


def schema_text(include_headers: bool, columns: Mapping[str, str] = COLUMNS) -> str:
    """The schema of the source as DDL."""
    return ", ".join(
        f"{name} {kind}" for name, kind in columns.items() if name != "headers" or include_headers
    )


def arrow_schema(schema: StructType, columns: Mapping[str, str] = COLUMNS) -> pa.Schema:
    """The Arrow schema of the columns that Spark asks for.

    Raises:
        SchemaError: a column does not exist, has another type, or is there twice.
    """
    problems = []
    for place, field in enumerate(schema.fields):
        if field.name in schema.names[:place]:
            problems.append(f"'{field.name}' is there twice")
        expected = columns.get(field.name)
        found = field.dataType.simpleString().upper()
        if expected is None:
            problems.append(f"'{field.name}' is no column of the source")
        elif expected != found:
            problems.append(f"'{field.name}' is {expected}, not {found}")
    if problems:
        raise SchemaError(
            f"the schema is not one of the source: {'; '.join(problems)}.",
            f"Leave it out, or choose from {schema_text(True, columns)}.",
        )
    return utc_arrow_schema(schema)


def record_batch(block: MessageBlock, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    """Build one record batch; nothing of it refers to the block's memory."""
    columns = [column(block, stream, field.name, field.type) for field in schema]
    return batch_of(columns, schema, block.count)


def batch_of(columns: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Columns as a record batch; without columns it still counts rows, for `df.count()`."""
    if not columns:
        return pa.RecordBatch.from_struct_array(
            pa.StructArray.from_buffers(pa.struct([]), count, [None])
        )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def column(block: MessageBlock, stream: str, name: str, kind: pa.DataType) -> pa.Array:
    """One column of `COLUMNS`."""
    chunk, fields, count = block.chunk, block.fields, block.count
    if name == "data":
        return kernel.binary_column(
            chunk, fields, 0, count, kernel.PAYLOAD_START, kernel.PAYLOAD_STOP
        )
    if name == "subject":
        where = chunk, fields, 0, count, kernel.SUBJECT_START, kernel.SUBJECT_STOP
        text = kernel.ascii_column(*where)
        return text if text is not None else _text(kernel.binary_column(*where))
    if name == "headers":
        return kernel.header_column(chunk, fields, 0, count).cast(kind)
    if name == "stream":
        return pa.repeat(pa.scalar(stream, pa.string()), count)
    numbers = np.frombuffer(block.numbers, dtype=np.int64).reshape(-1, kernel.NUMBERS)[:count]
    if name == "seq":
        return pa.array(numbers[:, kernel.SEQUENCE].copy())
    return pa.array(numbers[:, kernel.TIMESTAMP] // 1000).cast(kind)


def _text(column: pa.BinaryArray) -> pa.StringArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        # NATS does not demand UTF-8 in subjects; Spark does.
        values = [value.decode("utf-8", "replace") for value in column.to_pylist()]
        return pa.array(values, pa.string())
