"""One task's work, as it travels from the driver to an executor, and its reading.

Spark starts a process for every streaming query, which imports this. So what only buckets need,
including `pyarrow.compute` (a fifth of all that the connector imports), is imported only for
buckets.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Host, Operation, Production, mapped
from jetstream_spark.errors import StreamNotFoundError
from jetstream_spark.fetch.direct_fetch import DirectWay
from jetstream_spark.fetch.fetch import Fetch, Way
from jetstream_spark.fetch.range_fetch import ConsumerWay
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import COLUMNS, MessageBlock, record_batch
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.read_count import ReadCount

_log = logging.getLogger("jetstream_spark")


class RangePartition(InputPartition):
    """The range of one task.

    Attributes:
        subjects: the patterns that Spark's filters amount to, or that the batch was planned with;
            None leaves that to the options.
    """

    def __init__(self, sequences: SequenceRange, subjects: tuple[str, ...] | None = None) -> None:
        super().__init__(sequences)
        self.range = sequences
        self.subjects = subjects


class LatestPartition(InputPartition):
    """A task that reads the current values of a bucket, which held this range at planning.

    Attributes:
        part, parts: a task reads those objects of an object store whose names belong to its part.
    """

    def __init__(self, sequences: SequenceRange, part: int = 0, parts: int = 1) -> None:
        super().__init__((sequences, part))
        self.range = sequences
        self.part = part
        self.parts = parts


def columns_of(options: SourceOptions) -> Mapping[str, str]:
    """The columns to choose from."""
    if options.bucket:
        from jetstream_spark.fetch.kv_rows import BUCKET_COLUMNS

        return BUCKET_COLUMNS
    if options.object_store:
        from jetstream_spark.fetch.object_rows import OBJECT_COLUMNS

        return OBJECT_COLUMNS
    return COLUMNS


def read_partition(
    host: Host,
    options: SourceOptions,
    schema: pa.Schema,
    partition: InputPartition,
    count: ReadCount | None = None,
) -> Production[pa.RecordBatch]:
    """Read one range; a partition that is not ours (Spark's stand-in for none) has no rows.

    Args:
        count: of what a streaming query reads, if anybody wants to know.

    Raises:
        DataLossError, ReadTimeoutError, ConnectorError: as `Fetch.blocks`.
    """
    if options.object_store:
        objects = _read_objects(host, options, schema, partition)
        yield from objects if count is None else mapped(objects, count.noted_objects)
    elif isinstance(partition, LatestPartition):
        from jetstream_spark.fetch.kv_latest import LatestRows, LatestWay, unbounded

        sequences = partition.range
        way = LatestWay(host, options, sequences)
        fetch = Fetch(host, options, unbounded(sequences), way)
        rows = LatestRows(sequences.stream, sequences.stop, schema)
        yield from mapped(fetch.blocks(), rows.take)
        yield from rows.rest()
        _warn_of_loss(fetch)
    elif isinstance(partition, RangePartition):
        stream = partition.range.stream
        if partition.subjects is not None:
            options = dataclasses.replace(options, subjects=partition.subjects)
        batch_of_block = _batch_maker(options)
        fetch = yield from open_fetch(host, options, partition.range)

        def made(block: MessageBlock) -> pa.RecordBatch:
            if count is not None:
                count.note_block(block)
            return batch_of_block(block, stream, schema)

        yield from mapped(fetch.blocks(), made)
        _warn_of_loss(fetch)


def _read_objects(
    host: Host, options: SourceOptions, schema: pa.Schema, partition: InputPartition
) -> Production[pa.RecordBatch]:
    from jetstream_spark.fetch.object_rows import latest_objects, object_changes

    if isinstance(partition, LatestPartition):
        part = partition.range, partition.part, partition.parts
        yield from latest_objects(host, options, schema, *part)
    elif isinstance(partition, RangePartition):
        fetch = yield from open_fetch(host, options, partition.range)
        yield from object_changes(host, options, schema, partition.range.stream, fetch)
        _warn_of_loss(fetch)


def _batch_maker(
    options: SourceOptions,
) -> Callable[[MessageBlock, str, pa.Schema], pa.RecordBatch]:
    if options.bucket:
        from jetstream_spark.fetch.kv_rows import bucket_batch

        return bucket_batch
    return record_batch


def _warn_of_loss(fetch: Fetch) -> None:
    if fetch.loss is not None:
        _log.warning("read on after data loss (failOnDataLoss=false): %s", fetch.loss)


def open_fetch(host: Host, options: SourceOptions, sequences: SequenceRange) -> Operation[Fetch]:
    """How to read: through a consumer, unless that would interfere with the stream's retention.

    Without `commitMode` the driver has made sure that the stream has limits retention; with
    `commitMode=ack` the query's own durable consumer keeps what a consumer of ours would release.
    """
    is_direct = options.fetch_mode == "direct"
    if options.fetch_mode == "auto" and options.commit_mode in ("none", "purge"):
        control = Control(host, options.connection, "reader")
        try:
            state = yield from control.stream_state(sequences.stream)
            is_direct = state.retention != "limits"
        except StreamNotFoundError:
            is_direct = True  # the way that disturbs nobody, should it be made again this moment
    way: Way = (DirectWay if is_direct else ConsumerWay)(host, options, sequences)
    return Fetch(host, options, sequences, way)
