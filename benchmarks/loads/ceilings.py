"""Python data sources that do less than the connector: what is left is Spark's own cost.

`constant_arrow` yields the same Arrow batch again and again. `recv_only` fetches the messages with
a pull consumer and drops the bytes, counted but not parsed. Both have the connector's columns.
`count_only` is a sink that takes the Arrow batches and counts their rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from benchmarks.event_loop import EventLoop
from benchmarks.loads.pull import PullConsumer
from benchmarks.wire import STREAM, LoadError, Wire

SCHEMA = "subject STRING, data BINARY, stream STRING, seq BIGINT, timestamp TIMESTAMP"
BATCH_ROWS = 10_000


class RowRange(InputPartition):
    """Rows [start, stop)."""

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop


def constant_batch(rows: int, size: int) -> pa.RecordBatch:
    """Return rows as the connector makes them."""
    columns = {
        "subject": pa.array([f"{STREAM}.{i % 10}" for i in range(rows)], pa.string()),
        "data": pa.array([b"x" * size] * rows, pa.binary()),
        "stream": pa.array([STREAM] * rows, pa.string()),
        "seq": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([datetime.now(UTC)] * rows, pa.timestamp("us", tz="UTC")),
    }
    return pa.RecordBatch.from_pydict(columns)


class _RangeReader(DataSourceReader):
    """Splits `rows` rows into `partitions` ranges."""

    def __init__(self, options: dict[str, str]) -> None:
        self.rows = int(options["rows"])
        self.size = int(options["size"])
        self.port = int(options.get("port", "0"))
        self._partitions = int(options["partitions"])

    def partitions(self) -> list[InputPartition]:
        cuts = [self.rows * i // self._partitions for i in range(self._partitions + 1)]
        return [RowRange(start, stop) for start, stop in itertools.pairwise(cuts)]


class ConstantReader(_RangeReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        batch = constant_batch(BATCH_ROWS, self.size)
        left = partition.stop - partition.start
        while left > 0:
            yield batch.slice(0, min(left, BATCH_ROWS))
            left -= BATCH_ROWS


class _ReceivingReader(_RangeReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        wanted = partition.stop - partition.start
        name = f"R{partition.start}"
        consumer = PullConsumer(self.port, name, BATCH_ROWS, wanted, first_seq=partition.start + 1)
        loop = EventLoop([consumer.flow])
        consumer.start()
        loop.run(lambda: consumer.is_done)
        consumer.close()
        loop.close()
        with Wire(self.port) as wire:
            wire.subscribe_inbox()
            wire.delete_consumer(name)
        yield constant_batch(1, self.size).slice(0, 0)


class ConstantArrow(DataSource):
    @classmethod
    def name(cls) -> str:
        return "constant_arrow"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return ConstantReader(dict(self.options))


class RecvOnly(DataSource):
    @classmethod
    def name(cls) -> str:
        return "recv_only"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReceivingReader(dict(self.options))


@dataclass
class CountedPartition(WriterCommitMessage):
    """What one task was given."""

    rows: int


class _CountingWriter(DataSourceArrowWriter):
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CountedPartition:
        return CountedPartition(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        counted = sum(one.rows for one in messages if isinstance(one, CountedPartition))
        if counted != self.rows:
            raise LoadError(f"{self.rows} rows were written, {counted} arrived")


class CountOnly(DataSource):
    @classmethod
    def name(cls) -> str:
        return "count_only"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _CountingWriter(int(self.options["rows"]))
