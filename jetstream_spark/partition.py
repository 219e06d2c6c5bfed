"""One task's work, as it travels from the driver to an executor, and its reading."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from jetstream_spark.client.control import Control
from jetstream_spark.direct_fetch import DirectFetch
from jetstream_spark.errors import StreamNotFoundError
from jetstream_spark.fetch import Fetch
from jetstream_spark.kv_latest import LatestFetch, latest_batches
from jetstream_spark.kv_rows import BUCKET_COLUMNS, bucket_batch
from jetstream_spark.options import SourceOptions
from jetstream_spark.range_fetch import RangeFetch
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import COLUMNS, record_batch

_log = logging.getLogger("jetstream_spark")


class RangePartition(InputPartition):
    """The range of one task."""

    def __init__(self, sequences: SequenceRange) -> None:
        super().__init__(sequences)
        self.range = sequences


class LatestPartition(InputPartition):
    """The task that reads the current values of a bucket, which held this range at planning."""

    def __init__(self, sequences: SequenceRange) -> None:
        super().__init__(sequences)
        self.range = sequences


def columns_of(options: SourceOptions) -> Mapping[str, str]:
    """The columns that there are to choose from."""
    return BUCKET_COLUMNS if options.bucket else COLUMNS


def read_partition(
    options: SourceOptions, schema: pa.Schema, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Read one range; a partition that is not ours (Spark's stand-in for none) has no rows.

    Raises:
        DataLossError, ReadTimeoutError, ConnectorError: as `RangeFetch.blocks`.
    """
    if isinstance(partition, LatestPartition):
        latest = LatestFetch(options, partition.range)
        yield from latest_batches(latest, partition.range.stop, schema)
        _warn_of_loss(latest)
    elif isinstance(partition, RangePartition):
        batch_of_block = bucket_batch if options.bucket else record_batch
        fetch = _fetch(options, partition.range)
        for block in fetch.blocks():
            yield batch_of_block(block, partition.range.stream, schema)
        _warn_of_loss(fetch)


def _warn_of_loss(fetch: Fetch) -> None:
    if fetch.loss is not None:
        _log.warning("read on after data loss (failOnDataLoss=false): %s", fetch.loss)


def _fetch(options: SourceOptions, sequences: SequenceRange) -> Fetch:
    """How to read: a consumer, unless that would interfere with the stream's retention.

    Without `commitMode` the driver has made sure that the retention is by limits; with
    `commitMode=ack` the query's own durable keeps what a consumer of ours would let go.
    """
    if options.fetch_mode == "direct":
        return DirectFetch(options, sequences)
    if options.fetch_mode == "auto" and options.commit_mode in ("none", "purge"):
        with contextlib.suppress(StreamNotFoundError):
            state = Control(options.connection, "reader").stream_state(sequences.stream)
            if state.retention != "limits":
                return DirectFetch(options, sequences)
    return RangeFetch(options, sequences)
