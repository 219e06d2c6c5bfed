"""The rows of an object store: what each object is, and its content where that is asked for.

The messages that describe objects are read like those of any stream, and each is parsed as JSON: an
object has many messages, so this is little work beside its chunks. Then contents are read one after
the other, and handed over in batches of about `BATCH_BYTES`.

    batch       each object that is there once, with the content that it has when it is read. The
                objects are dealt to the tasks by their names
    streaming   each change; the content is null if the object has been replaced or deleted since

Memory: what all objects of a task are (some hundred bytes each), and contents of `BATCH_BYTES` and
one more object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa

from jetstream_spark.client.operation import Host, Operation, Production, consumed, mapped
from jetstream_spark.fetch.fetch import Fetch
from jetstream_spark.fetch.kv_latest import LatestRows, LatestWay, unbounded
from jetstream_spark.fetch.kv_rows import PUT
from jetstream_spark.fetch.object_content import ObjectContents
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import COLUMNS, MessageBlock, batch_of, column
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.object_info import ObjectInfo, parse_info
from jetstream_spark.options.format_options import SourceOptions

OBJECT_COLUMNS = {
    "name": "STRING",
    "bytes": "BINARY",
    "digest": "STRING",
    "size": "BIGINT",
    "modified": COLUMNS["timestamp"],
    "operation": "STRING",
    "revision": "BIGINT",
    "description": "STRING",
    "link": "STRING",
    "headers": COLUMNS["headers"],
}
BATCH_BYTES = 16 << 20
DELETE = "DEL"

_LISTED = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("operation", pa.string()),
        ("revision", pa.int64()),
        ("modified_ns", pa.int64()),
    ]
)
_OF_CONTENT = {"bytes", "digest", "size"}


def listed_batch(block: MessageBlock, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    """The payloads of messages, not yet parsed; `schema` is `_LISTED`. A delete counts as a value
    here."""
    numbers = np.frombuffer(block.numbers, dtype=np.int64).reshape(-1, kernel.NUMBERS)
    columns = [
        column(block, stream, "subject", pa.string()),
        column(block, stream, "data", pa.binary()),
        pa.repeat(pa.scalar(PUT), block.count),
        column(block, stream, "seq", pa.int64()),
        pa.array(numbers[: block.count, kernel.TIMESTAMP].copy()),
    ]
    return batch_of(columns, schema, block.count)


def infos_of(listed: Iterable[pa.RecordBatch]) -> list[ObjectInfo]:
    """What the messages say of objects.

    Raises:
        ObjectDamagedError: one of them does not describe an object.
    """
    found = []
    for batch in listed:
        names = ("value", "key", "revision", "modified_ns")
        for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            found.append(parse_info(*row))
    return found


def latest_objects(
    host: Host,
    options: SourceOptions,
    schema: pa.Schema,
    sequences: SequenceRange,
    part: int,
    parts: int,
) -> Production[pa.RecordBatch]:
    """The objects that exist, out of those whose names belong to one of the parts.

    Raises:
        ObjectDamagedError, ObjectTooLargeError: of an object.
        ConnectorError: as `Fetch.blocks`.
    """
    fetch = Fetch(host, options, unbounded(sequences), LatestWay(host, options, sequences))
    rows = LatestRows(sequences.stream, sequences.stop, _LISTED, listed_batch)
    listed: list[pa.RecordBatch] = []
    yield from consumed(mapped(fetch.blocks(), rows.take), listed.append)
    infos = infos_of([*listed, *rows.rest()])
    mine = [info for info in infos if crc32(info.subject.encode()) % parts == part]
    yield from _Objects(host, options, schema, sequences.stream).batches(mine, is_latest=True)


def object_changes(
    host: Host, options: SourceOptions, schema: pa.Schema, stream: str, fetch: Fetch
) -> Production[pa.RecordBatch]:
    """Each change in a range.

    Raises: as `latest_objects`.
    """
    listed: list[pa.RecordBatch] = []
    yield from consumed(
        mapped(fetch.blocks(), lambda block: listed_batch(block, stream, _LISTED)), listed.append
    )
    objects = _Objects(host, options, schema, stream)
    yield from objects.batches(infos_of(listed), is_latest=False)


class _Objects:
    """Objects as rows of a schema."""

    def __init__(self, host: Host, options: SourceOptions, schema: pa.Schema, stream: str) -> None:
        self._contents = ObjectContents(host, options)
        self._schema = schema
        self._stream = stream
        self._has_bytes = "bytes" in schema.names
        self._follows_links = bool(_OF_CONTENT & set(schema.names))

    def batches(self, infos: list[ObjectInfo], *, is_latest: bool) -> Production[pa.RecordBatch]:
        """The rows, some at a time."""
        rows: list[tuple[ObjectInfo, bytes | None]] = []
        held = 0
        for info in infos:
            if is_latest and info.is_deleted:
                continue
            row = yield from self._row(info, is_latest)
            if row is None:
                continue
            rows.append(row)
            held += len(row[1] or b"")
            if held >= BATCH_BYTES:
                batch = self._batch(rows)
                rows, held, row = [], 0, None
                yield batch
        if rows:
            yield self._batch(rows)

    def _row(
        self, info: ObjectInfo, is_latest: bool
    ) -> Operation[tuple[ObjectInfo, bytes | None] | None]:
        """An object with its content; None when it is gone."""
        if info.is_deleted:
            return info, None
        if info.link:
            return (yield from self._linked(info))
        if not self._has_bytes:
            return info, None
        if is_latest:
            return (yield from self._contents.latest(self._stream, info))
        return info, (yield from self._contents.read(self._stream, info))

    def _linked(self, info: ObjectInfo) -> Operation[tuple[ObjectInfo, bytes | None]]:
        """A link gets size, digest and content of the object that it leads to, if there is one."""
        bare = replace(info, size=0, digest="")
        found = (yield from self._contents.target(info)) if self._follows_links else None
        if found is None:
            return bare, None
        stream, target = found
        content = None
        if self._has_bytes:
            latest = yield from self._contents.latest(stream, target)
            if latest is None:
                return bare, None
            target, content = latest
        return replace(info, size=target.size, digest=target.digest), content

    def _batch(self, rows: list[tuple[ObjectInfo, bytes | None]]) -> pa.RecordBatch:
        infos = [info for info, _ in rows]
        columns = []
        for one in self._schema:
            if one.name == "bytes":
                columns.append(pa.array([content for _, content in rows], pa.binary()))
            else:
                values = [_value(info, one.name) for info in infos]
                columns.append(_typed(values, one))
        return batch_of(columns, self._schema, len(rows))


def _value(info: ObjectInfo, name: str) -> object:
    match name:
        case "name":
            return info.name
        case "digest":
            return info.digest or None
        case "size":
            return info.size if info.has_content or info.digest else None
        case "modified":
            return info.modified_ns // 1000
        case "operation":
            return DELETE if info.is_deleted else PUT
        case "revision":
            return info.revision
        case "description":
            return info.description
        case "link":
            return info.link or None
    return list(info.headers.items()) or None


def _typed(values: list[object], one: pa.Field) -> pa.Array:
    if one.name == "modified":
        return pa.array(values, pa.int64()).cast(one.type)
    return pa.array(values, one.type)
