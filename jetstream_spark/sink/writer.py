"""Writes as Spark calls them: `df.write` and `df.writeStream` with `format("jetstream")`.

What a write does is in `sink.py`; its identity is decided here. Its scope is one of these:

    streaming query     query id and batch id, from the task's context
    txnAppId/txnVersion the user's own, for foreachBatch and for batch writes that are run again
    batch write         a job id made here: protects against retried tasks, not a second run

What else a task may know about its query: docs/reference/spark.md#what-a-writer-knows.

A batch write inside foreachBatch counts as the last of these, although its tasks can see the
query's batch id: one batch may hold several writes, and nothing tells their rows apart.

Writers are pickled into tasks, so they hold options and columns, never connections.
"""

from __future__ import annotations

import logging
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from typing import IO

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetstream_spark import task_report
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.errors import ConnectorError, LedgerError
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.read_ahead import read_ahead
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Columns, Sink, WrittenPartition
from jetstream_spark.spark_api import DataSourceStreamArrowWriter

_log = logging.getLogger("jetstream_spark")


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a streaming query."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = columns_of_write(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Write the rows of one task."""
        return write_partition(self.options, self.columns, iterator, self._scope(), _partition())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Mark the micro-batch as written."""
        run(_sink(self.options, self.columns).commit(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave everything as it is: the micro-batch will be run again, and the ledger knows how
        far it came."""

    def _scope(self) -> Scope:
        if (named := _named_scope(self.options)) is not None:
            return named
        task = TaskContext.get()
        query = task.getLocalProperty("sql.streaming.queryId") if task else None
        batch = task.getLocalProperty("streaming.sql.batchId") if task else None
        if not query or batch is None:
            raise LedgerError(
                "Spark did not tell the task its query id and batch id.",
                "Set txnAppId and txnVersion, or report the Spark version you use.",
            )
        return Scope(ScopeKind.QUERY, query, int(batch))


class JetStreamWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = columns_of_write(schema, options)
        # One writer is made for the job and pickled into every task and attempt.
        self._scope = _named_scope(options) or Scope(ScopeKind.JOB, uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Write the rows of one task."""
        return write_partition(self.options, self.columns, iterator, self._scope, _partition())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Mark the write as done."""
        run(_sink(self.options, self.columns).commit(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forget the job: a second run is another one. Rows stored so far stay in the stream."""
        ledger = _sink(self.options, self.columns).ledger(self._scope)
        if self._scope.kind is ScopeKind.JOB and ledger is not None:
            try:
                run(ledger.forget())
            except ConnectorError as error:  # Spark reports why the job failed; this matters less
                _log.warning("the ledger entries of a failed write stay behind: %s", error)


def write_partition(
    options: SinkOptions,
    columns: Columns,
    batches: Iterable[pa.RecordBatch],
    scope: Scope,
    partition: int,
) -> WrittenPartition:
    """Write one partition in this process; return when every row is acknowledged."""
    with tempfile.TemporaryFile(prefix="jetstream-spark-") as file:
        sink = Sink(this_host(), options, columns, lambda rows: _Spooled(rows, file))
        written = run(sink.write_partition(read_ahead(batches), scope, partition))
    task_report.report(
        {
            task_report.WRITTEN_ROWS: written.rows,
            task_report.WRITTEN_BYTES: written.data_bytes,
            task_report.DUPLICATE_ROWS: written.duplicates,
            task_report.SKIPPED_ROWS: written.skipped,
            task_report.DEAD_LETTERS: written.dead_letters,
        }
    )
    return written


def _sink(options: SinkOptions, columns: Columns) -> Sink:
    """The write as the driver sees it, without rows."""
    return Sink(this_host(), options, columns, lambda rows: rows)


def _named_scope(options: SinkOptions) -> Scope | None:
    """The scope that the user named, None when there is none."""
    app_id, version = options.txn_app_id, options.txn_version
    return Scope(ScopeKind.TRANSACTION, app_id, version) if version is not None else None


class _Spooled:
    """Batches that can be read again, from a file."""

    def __init__(self, batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> None:
        self._file = file
        self._is_empty = True
        writer = None
        for batch in batches:
            if writer is None:
                writer = pa.ipc.new_stream(file, batch.schema)
                self._is_empty = False
            writer.write_batch(batch)
        if writer is not None:
            writer.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if not self._is_empty:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)


def _partition() -> int:
    task = TaskContext.get()
    return int(task.partitionId()) if task else 0
