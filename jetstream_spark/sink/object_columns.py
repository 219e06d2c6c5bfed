"""The columns of a write into an object store: `name`, `bytes`, and optionally `operation`,
`description`, `headers`.

    put, or null    the object gets this content, and whatever else the row says of it
    delete          the object is removed, if there is one

`take` gives the columns of the messages that describe objects: their subjects, and in place of
header lines what a row says besides its content, as JSON (`object_publisher.py` reads it).
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from jetstream_spark.errors import RowRefusedError, SchemaError
from jetstream_spark.object_info import info_subject
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.column_types import HEADERS, missing_columns, wrong_columns
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.sink_columns import SUBJECT_BYTES_MAX

_ALLOWED = {
    "name": ("string",),
    "bytes": ("binary", "string"),
    "operation": ("string",),
    "description": ("string",),
    "headers": (HEADERS,),
}
PUT, DELETE = "put", "delete"


class ObjectColumns:
    """Which columns a write into an object store has, and how to read them.

    Raises:
        SchemaError: the columns do not fit; every reason is listed.
    """

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._store = options.object_store
        self._bytes_max = options.max_object_bytes
        self._names = [field.name.lower() for field in schema.fields]
        _check(schema)

    def take(self, batch: pa.RecordBatch, first_row: int) -> OutgoingRows:
        """Return the columns of a batch whose first row is number `first_row` of the partition.

        Raises:
            RowRefusedError: a row cannot be written; the first such row is named.
        """
        columns = dict(zip(self._names, batch.columns, strict=True))
        contents = columns["bytes"].cast(pa.binary())
        names = columns["name"].to_pylist()
        none = pa.nulls(len(names), pa.string())
        operations = columns.get("operation", none).to_pylist()
        descriptions = columns.get("description", none).to_pylist()
        headers: list[Any] = columns.get("headers", none).to_pylist()
        sizes = pc.binary_length(contents).to_pylist()
        subjects, lines = [], []
        for at, name in enumerate(names):
            row = first_row + at
            operation = (operations[at] or PUT).strip().lower()
            subject = self._subject(row, name)
            self._check_row(row, name, operation, sizes[at])
            said = {"name": name, "operation": "delete" if operation == "del" else operation}
            if descriptions[at]:
                said["description"] = descriptions[at]
            if headers[at]:
                said["headers"] = _headers(row, name, headers[at])
            subjects.append(subject.encode())
            lines.append(json.dumps(said, ensure_ascii=False).encode())
        payloads = pc.fill_null(contents, b"")
        return OutgoingRows(
            pa.array(subjects, pa.binary()), pa.array(lines, pa.binary()), payloads, None
        )

    def _subject(self, row: int, name: str | None) -> str:
        if not name:
            raise RowRefusedError(row, "", f"its name is {name!r}")
        subject = info_subject(self._store, name)
        if len(subject) > SUBJECT_BYTES_MAX:
            raise RowRefusedError(row, "", f"its name has {len(name)} letters, which is too long")
        return subject

    def _check_row(self, row: int, name: str, operation: str, size: int | None) -> None:
        if operation not in (PUT, DELETE, "del"):
            raise RowRefusedError(
                row, name, f"its operation is {operation!r}, and must be one of {PUT}, {DELETE}"
            )
        if operation == PUT and size is None:
            raise RowRefusedError(row, name, "its bytes are null", "Filter such rows out.")
        if operation == PUT and size is not None and size > self._bytes_max:
            raise RowRefusedError(
                row,
                name,
                f"it has {size} bytes, and maxObjectSize is {self._bytes_max}",
                "Raise it as far as rows fit into the memory of an executor.",
            )


def _headers(row: int, name: str, entries: list[tuple[str, list[str] | None]]) -> dict[str, object]:
    found: dict[str, list[str]] = {}
    for key, values in entries:
        if not key or values is None or None in values:
            raise RowRefusedError(row, name, "its headers have a name or a value that is null")
        found[key] = values
    return dict(found)


def _check(schema: StructType) -> None:
    problems = missing_columns(schema, ("name", "bytes"), _ALLOWED)
    problems += wrong_columns(schema, _ALLOWED, "an object")
    if problems:
        raise SchemaError(
            "the DataFrame cannot be written into an object store: " + "; ".join(problems) + ".",
            "Shape it with select(), e.g. select('name', 'bytes').",
        )
