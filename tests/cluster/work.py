"""Work of every kind, without Spark, whose results are compared with what they must be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.blocking import Blocking, iterate, run, this_host
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.options.offsets import Tasks
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns
from jetstream_spark.sink.writer import write_partition
from jetstream_spark.source.partition import RangePartition, read_partition
from jetstream_spark.source.planner import plan_ranges
from jetstream_spark.source.stream_source import StreamSource

SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
# A cluster that has not answered for so long fails the work by a word that says what it waited for,
# before the test is ended without one.
PATIENCE = {"requestTimeout": "2s", "outageTimeout": "60s"}
READ = pa.schema({"seq": pa.int64(), "subject": pa.string(), "data": pa.binary()})


class Copy:
    """A streaming query from one stream to another without Spark, as Spark would call it."""

    def __init__(self, cluster: Any, source: str, sink: str, **options: str) -> None:
        named = {"servers": cluster.url, **PATIENCE} | options
        self._options = SourceOptions.parse(
            named | {"stream": source, "startingOffsets": "earliest", "pollInterval": "1us"}
        )
        self._source = Blocking(StreamSource(this_host(), self._options))
        self._sink = SinkOptions.parse(named | {"stream": sink, "subject": f"{sink}.all"})
        self._columns = SinkColumns(SCHEMA, self._sink)
        self._at = self._source.initial_offset()
        self._batch = 0

    def step(self) -> int:
        """One micro-batch; return its rows."""
        end = self._source.latest_offset(self._at)
        ranges = plan_ranges(self._at, end, Tasks(1_000_000, 1, 2))
        scope = Scope(ScopeKind.QUERY, "copy", self._batch)
        written = []
        for partition, sequences in enumerate(ranges):
            reading = read_partition(this_host(), self._options, READ, RangePartition(sequences))
            batches = (batch.select(["subject", "data"]) for batch in iterate(reading))
            written.append(write_partition(self._sink, self._columns, batches, scope, partition))
        if written:
            run(Sink(this_host(), self._sink, self._columns, lambda rows: rows).commit(written))
            self._source.commit(end)
            self._batch += 1
        self._at = end
        return sum(one.rows for one in written)


class Work:
    """Work of every kind, again and again, beside whatever befalls the cluster.

    Each piece raises what went wrong; `finish` lets all of them end once more and reports.
    """

    def __init__(self, *pieces: Callable[[], object]) -> None:
        self.rounds = [0] * len(pieces)
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(at, piece))
            for at, piece in enumerate(pieces)
        ]

    def _repeat(self, at: int, piece: Callable[[], object]) -> None:
        try:
            while not self._is_over.is_set():
                piece()
                self.rounds[at] += 1
            piece()
        except BaseException as failure:
            self.failures.append(failure)

    def __enter__(self) -> Work:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        for failure in self.failures:
            raise failure


class Reading:
    """Reads a whole stream that holds the numbers from 0 on, and compares."""

    def __init__(
        self, cluster: Any, stream: str, count: int, first: int = 1, **options: str
    ) -> None:
        named = {"servers": cluster.url, "stream": stream, **PATIENCE}
        self._options = SourceOptions.parse(named | options)
        created = cluster.info(stream)["created"]
        self._partition = RangePartition(SequenceRange(stream, created, first, count + 1))
        self._count = count

    def sequences(self) -> list[int]:
        """What there is to read."""
        reading = read_partition(this_host(), self._options, READ, self._partition)
        found: list[int] = pa.Table.from_batches(iterate(reading), READ)["seq"].to_pylist()
        return found

    def __call__(self) -> None:
        reading = read_partition(this_host(), self._options, READ, self._partition)
        rows = pa.Table.from_batches(iterate(reading), READ)
        assert rows["seq"].to_pylist() == list(range(1, self._count + 1))
        assert rows["data"].to_pylist() == [b"%d" % i for i in range(self._count)]


class Writing:
    """Writes batches of new numbers; `numbers` are all that were written."""

    def __init__(
        self,
        cluster: Any,
        stream: str,
        rows: int,
        first: int = 0,
        subject: str = "",
        url: str = "",
        **options: str,
    ) -> None:
        named = {"servers": url or cluster.url, "stream": stream, **PATIENCE}
        self._options = SinkOptions.parse(named | options)
        self._columns = SinkColumns(SCHEMA, self._options)
        self._subject = subject or f"{stream}.a"
        self._rows = rows
        self._first = first
        self._version = 0
        self.numbers: list[bytes] = []

    def __call__(self, beats: Iterable[None] = (None,)) -> None:
        """Write one batch: so many rows for each beat."""
        before = len(self.numbers)
        scope = Scope(ScopeKind.QUERY, f"writing{self._first}", self._version)
        rows = (self._rows_more() for _ in beats)
        written = write_partition(self._options, self._columns, rows, scope, 0)
        assert written.rows == len(self.numbers) - before
        sink = Sink(this_host(), self._options, self._columns, lambda rows: rows)
        run(sink.commit([written]))
        self._version += 1

    def _rows_more(self) -> pa.RecordBatch:
        start = self._first + len(self.numbers)
        data = [b"%d" % i for i in range(start, start + self._rows)]
        self.numbers += data
        return pa.record_batch([[self._subject] * self._rows, data], SCHEMA.names)


def everything_in(cluster: Any, stream: str) -> list[bytes]:
    """What a stream holds."""
    info = cluster.info(stream)
    options = SourceOptions.parse({"servers": cluster.url, "stream": stream})
    sequences = SequenceRange(stream, info["created"], 1, info["state"]["last_seq"] + 1)
    reading = read_partition(this_host(), options, READ, RangePartition(sequences))
    rows: list[bytes] = pa.Table.from_batches(iterate(reading), READ)["data"].to_pylist()
    return rows
