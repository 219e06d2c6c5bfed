"""The rows of a key-value bucket: `key, value, operation, revision, timestamp`.

A revision is a message: its key is in the subject, its operation in a header that only deletes
have (ADR-8), or in the header of a marker that the server left when a limit took a key (ADR-43).
What a delete carries as payload means nothing, so `value` is null there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.fetch.rows import COLUMNS, MessageBlock, batch_of, column
from jetstream_spark.kernels import wire_to_arrow as kernel

BUCKET_COLUMNS = {
    "key": "STRING",
    "value": "BINARY",
    "operation": "STRING",
    "revision": "BIGINT",
    "timestamp": COLUMNS["timestamp"],
    "headers": COLUMNS["headers"],
}
PUT, DELETE, PURGE = "PUT", "DEL", "PURGE"

_DELETE_LINE = r"\r\n(?:KV-Operation: ?DEL|Nats-Marker-Reason: ?Remove) *\r\n"
_PURGE_LINE = r"\r\n(?:KV-Operation: ?PURGE|Nats-Marker-Reason: ?(?:MaxAge|Purge)) *\r\n"
# In a mirror the bucket's name is another one, so the prefix is cut off by its shape.
_PREFIX = r"^\$KV\.[^.]+\."


def bucket_batch(block: MessageBlock, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    """Build one record batch; `schema` is made of `BUCKET_COLUMNS`."""
    needs_operations = {"value", "operation"} & set(schema.names)
    operations = _operations(block) if needs_operations else None
    columns = []
    for field in schema:
        if field.name == "key":
            columns.append(_keys(column(block, stream, "subject", field.type)))
        elif field.name == "value":
            values = column(block, stream, "data", field.type)
            columns.append(
                values
                if operations is None
                else pc.if_else(pc.equal(operations, PUT), values, pa.scalar(None, pa.binary()))
            )
        elif field.name == "operation":
            columns.append(
                pa.repeat(pa.scalar(PUT), block.count) if operations is None else operations
            )
        elif field.name == "revision":
            columns.append(column(block, stream, "seq", field.type))
        else:
            columns.append(column(block, stream, field.name, field.type))
    return batch_of(columns, schema, block.count)


def _keys(subjects: pa.StringArray) -> pa.StringArray:
    if not len(subjects):
        return subjects
    first = subjects[0].as_py()
    prefix = ".".join(first.split(".", 2)[:2]) + "."
    if pc.all(pc.starts_with(subjects, prefix)).as_py():
        return pc.utf8_slice_codeunits(subjects, len(prefix))
    return pc.replace_substring_regex(subjects, _PREFIX, "")


def _operations(block: MessageBlock) -> pa.StringArray | None:
    """The operation of each revision; None when all are puts, as nearly always."""
    table = np.frombuffer(block.fields, dtype=np.intc).reshape(-1, kernel.STRIDE)[: block.count]
    starts, stops = table[:, kernel.HEADER_START], table[:, kernel.PAYLOAD_START]
    if bool((starts == stops).all()):
        return None
    headers = kernel.binary_column(
        block.chunk, block.fields, 0, block.count, kernel.HEADER_START, kernel.PAYLOAD_START
    )
    is_delete = pc.match_substring_regex(headers, _DELETE_LINE)
    is_purge = pc.match_substring_regex(headers, _PURGE_LINE)
    return pc.if_else(is_delete, DELETE, pc.if_else(is_purge, PURGE, PUT))
