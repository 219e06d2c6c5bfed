"""The columns of a write into a key-value bucket: `key`, `value`, and optionally `operation`,
`revision`, `ttl`, `headers`, `msgId`.

A revision of a key is a message with the subject `$KV.<bucket>.<key>`, and an operation is a header
of it (ADR-8). So a row is turned into one that `sink_columns` takes, and everything else about
writing it works as for streams.

    put, or null    the key gets the value
    create          the same, if the key has no revision, not even a delete
    update          the same, if the key's last revision is `revision`
    delete          the key gets a marker; with `revision` only if that is the last one
    purge           the same, and its earlier revisions are removed
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType

from jetstream_spark.errors import RowRefusedError, SchemaError
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.column_types import missing_columns, wrong_columns
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.sink_columns import SinkColumns

_ALLOWED = {
    "key": ("string",),
    "value": ("binary", "string"),
    "operation": ("string",),
    "revision": ("bigint", "int"),
}
_OF_MESSAGES = ("ttl", "headers", "msgId")  # sink_columns knows their types
_KEY = r"^[A-Za-z0-9_/=\\-]+(?:\.[A-Za-z0-9_/=\\-]+)*$"
_LINES = {
    "put": b"",
    "create": b"",
    "update": b"",
    "delete": b"KV-Operation: DEL\r\n",
    "purge": b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n",
}
_OWN_HEADERS = (b"KV-Operation", b"Nats-Rollup", b"Nats-Marker-Reason")


class BucketColumns:
    """Which columns a write into a bucket has, and how to read them.

    Raises:
        SchemaError: the columns do not fit; every reason is listed.
    """

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._prefix = f"$KV.{options.bucket}."
        self._names = [field.name.lower() for field in schema.fields]
        _check(schema)
        self._has_conditions = "operation" in self._names or "revision" in self._names
        value = schema.fields[self._names.index("value")].dataType
        inner = [StructField("subject", StringType()), StructField("data", value)]
        if self._has_conditions:
            inner.append(StructField("expectedLastSubjectSeq", LongType()))
        inner += [
            field for field in schema.fields if field.name.lower() in map(str.lower, _OF_MESSAGES)
        ]
        self._inner_names = [field.name for field in inner]
        plain = replace(options, bucket="", subject="")
        self._columns = SinkColumns(StructType(inner), plain, _OWN_HEADERS)

    def take(self, batch: pa.RecordBatch, first_row: int) -> OutgoingRows:
        """Return the columns of a batch whose first row is number `first_row` of the partition.

        Raises:
            RowRefusedError: a row cannot be written; the first such row is named.
        """
        columns = dict(zip(self._names, batch.columns, strict=True))
        keys = columns["key"]
        wrong = pc.fill_null(pc.invert(pc.match_substring_regex(keys, _KEY)), True)
        reason = (
            "its key is {!r}, and must be letters, digits and _ = / \\ - in tokens between dots"
        )
        self._refuse(wrong, keys, first_row, reason, keys)
        subjects = pc.binary_join_element_wise(self._prefix, keys, "")
        parts = {"subject": subjects, "data": columns["value"]}
        parts |= {name: columns[name.lower()] for name in self._inner_names[2:]
                  if name.lower() in columns}  # fmt: skip
        lines = None
        if self._has_conditions:
            operations = self._operations(columns, keys, first_row)
            parts["expectedLastSubjectSeq"] = self._expected(columns, operations, first_row)
            removes = pc.is_in(operations, pa.array(["delete", "purge"]))
            empty = pa.scalar("" if pa.types.is_string(parts["data"].type) else b"")
            parts["data"] = pc.if_else(removes, empty.cast(parts["data"].type), parts["data"])
            if pc.any(removes, min_count=0).as_py():
                places = pc.index_in(operations, pa.array(list(_LINES)))
                lines = pa.array(list(_LINES.values()), pa.binary()).take(places)
        arrays = [parts[name] for name in self._inner_names]
        rows = self._columns.take(pa.RecordBatch.from_arrays(arrays, self._inner_names), first_row)
        return rows if lines is None else rows.with_lines(b"", lines)

    def _operations(
        self, columns: dict[str, pa.Array], keys: pa.Array, first_row: int
    ) -> pa.StringArray:
        if "operation" not in columns:
            has_revision = pc.is_valid(columns["revision"])
            return pc.if_else(has_revision, "update", "put")
        given = pc.utf8_lower(pc.utf8_trim_whitespace(columns["operation"]))
        operations = pc.fill_null(pc.if_else(pc.equal(given, "del"), "delete", given), "put")
        unknown = pc.invert(pc.is_in(operations, pa.array(list(_LINES))))
        reason = f"its operation is {{!r}}, and must be one of {', '.join(_LINES)}"
        self._refuse(unknown, keys, first_row, reason, columns["operation"])
        return operations

    def _expected(
        self, columns: dict[str, pa.Array], operations: pa.StringArray, first_row: int
    ) -> pa.Int64Array:
        """The last revision that a key must have, 0 for none, null where it does not matter."""
        none = pa.nulls(len(operations), pa.int64())
        revisions = columns.get("revision", none).cast(pa.int64())
        keys = columns["key"]
        updates = pc.equal(operations, "update")
        lacks = pc.and_(updates, pc.is_null(revisions))
        self._refuse(lacks, keys, first_row, "its operation is update, and its revision is null")
        plain = pc.is_in(operations, pa.array(["put", "create"]))
        useless = pc.and_(plain, pc.is_valid(revisions))
        reason = "its operation is {!r}, which goes with no revision; update does"
        self._refuse(useless, keys, first_row, reason, operations)
        return pc.if_else(pc.equal(operations, "create"), 0, revisions)

    def _refuse(
        self,
        wrong: pa.BooleanArray,
        keys: pa.Array,
        first_row: int,
        reason: str,
        named: pa.Array | None = None,
    ) -> None:
        """Refuse the first row that is wrong, if there is one."""
        if not pc.any(wrong, min_count=0).as_py():
            return
        row = int(pc.index(wrong, True).as_py())
        value = None if named is None else named[row].as_py()
        subject = f"{self._prefix}{keys[row].as_py()}"
        raise RowRefusedError(first_row + row, subject, reason.format(value))


def _check(schema: StructType) -> None:
    problems = missing_columns(schema, ("key", "value"), _ALLOWED)
    problems += wrong_columns(schema, _ALLOWED, "a bucket", _OF_MESSAGES)
    if problems:
        raise SchemaError(
            "the DataFrame cannot be written into a bucket: " + "; ".join(problems) + ".",
            "Shape it with select(), e.g. select('key', 'value').",
        )
