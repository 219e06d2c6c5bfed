"""Small things to read and to write, with what must come of them."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Operation, Production
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.sink import object_publisher
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink, WrittenPartition
from jetstream_spark.sink.sink_columns import SinkColumns
from jetstream_spark.source.partition import LatestPartition, RangePartition, read_partition
from tests.connector_sim.process import Process

# The password is what the world says that the file holds; see `Process.connect_fields`.
SERVERS = {"servers": "nats://sim:4222", "user": "ann", "password": "file:/run/secret"}
ROWS = pa.schema([("subject", pa.string()), ("data", pa.binary()), ("seq", pa.int64())])
OBJECTS = pa.schema([("revision", pa.int64()), ("bytes", pa.binary())])
KEYS = pa.schema([("key", pa.string()), ("value", pa.binary()), ("revision", pa.int64())])
OUT_COLUMNS = (
    StructType().add("subject", StringType()).add("data", BinaryType()).add("msgId", StringType())
)
OUT = pa.schema([("subject", pa.string()), ("data", pa.binary()), ("msgId", pa.string())])


def source_options(**named: str) -> SourceOptions:
    """Options of a read."""
    return SourceOptions.parse(SERVERS | named)


def sink_options(**named: str) -> SinkOptions:
    """Options of a write."""
    return SinkOptions.parse(SERVERS | named)


class Keeper:
    """Somebody who makes streams and looks into them, over connections that never break."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.control = Control(process, source_options(stream="any").connection, "keeper")

    def make(self, name: str, **config: Any) -> Operation[StreamState]:
        """Make a stream."""
        body = {"name": name, "subjects": [f"{name.lower()}.>"], "allow_direct": True} | config
        yield from self.control.request(f"STREAM.CREATE.{name}", body)
        return (yield from self.control.stream_state(name))

    def fill(self, subject: str, payloads: list[bytes]) -> Operation[None]:
        """Publish messages, each once."""
        for payload in payloads:
            headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % payload
            yield from self.control.request_message(subject, payload, headers)

    def payload(self, stream: str, sequence: int) -> Operation[bytes]:
        """The payload of one message."""
        body = {"seq": sequence}
        answer = yield from self.control.request(f"STREAM.MSG.GET.{stream}", body)
        return base64.b64decode(answer["message"].get("data", ""))

    def messages(self, stream: str) -> Operation[dict[int, bytes]]:
        """The payloads of everything that a stream holds, by sequence."""
        state = yield from self.control.stream_state(stream)
        found: dict[int, bytes] = {}
        at: int | None = state.first
        while at is not None and at < state.next:
            found[at] = yield from self.payload(stream, at)
            at = yield from self.control.next_sequence(stream, at + 1)
        return found


def read(
    process: Process, options: SourceOptions, sequences: SequenceRange
) -> Production[pa.RecordBatch]:
    """Read one range, or the current values of a bucket."""
    if options.bucket:
        return read_partition(process, options, KEYS, LatestPartition(sequences))
    schema = OBJECTS if options.object_store else ROWS
    return read_partition(process, options, schema, RangePartition(sequences))


def outgoing(options: SinkOptions, subject: str, payloads: list[bytes]) -> list[pa.RecordBatch]:
    """Rows to write, in batches of three."""
    columns = {
        "subject": [subject] * len(payloads),
        "data": payloads,
        "msgId": [payload.decode() for payload in payloads],
    }
    schema = OUT if options.dedupe == "column" else pa.schema(list(OUT)[:2])
    batch = pa.RecordBatch.from_pydict({n: columns[n] for n in schema.names}, schema)
    return [batch.slice(at, 3) for at in range(0, len(payloads), 3)]


def sink(process: Process, options: SinkOptions) -> Sink:
    """A write, as a process sees it."""
    has_ids = options.dedupe == "column"
    schema = OUT_COLUMNS if has_ids else StructType(OUT_COLUMNS.fields[:2])
    return Sink(process, options, SinkColumns(schema, options), list)


def scope(name: str, batch: int, kind: ScopeKind = ScopeKind.QUERY) -> Scope:
    """A micro-batch of a query, or a batch write."""
    return Scope(kind, name, batch)


def write(
    process: Process, options: SinkOptions, batches: Any, of: Scope, partition: int
) -> Operation[WrittenPartition]:
    """Write one partition."""
    return sink(process, options).write_partition(batches, of, partition)


def rows_of(batches: list[pa.RecordBatch]) -> Iterator[tuple[int, bytes | None]]:
    """The sequences and payloads of what was read, of messages or of changes of objects."""
    for batch in batches:
        number, content = ("seq", "data") if "seq" in batch.schema.names else ("revision", "bytes")
        yield from zip(
            batch.column(number).to_pylist(), batch.column(content).to_pylist(), strict=True
        )


@contextlib.contextmanager
def small_chunks() -> Iterator[None]:
    """Chunks of 100 bytes, so that an object has several and not many bytes."""
    with patch.object(object_publisher, "CHUNK_BYTES", 100):
        yield
