"""One task's work, as it travels from the driver to an executor, and its reading."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from jetstream_spark.client.control import Control
from jetstream_spark.direct_fetch import DirectFetch
from jetstream_spark.errors import StreamNotFoundError
from jetstream_spark.options import SourceOptions
from jetstream_spark.range_fetch import RangeFetch
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import record_batch

_log = logging.getLogger("jetstream_spark")


class RangePartition(InputPartition):
    """The range of one task."""

    def __init__(self, sequences: SequenceRange) -> None:
        super().__init__(sequences)
        self.range = sequences


def read_partition(
    options: SourceOptions, schema: pa.Schema, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Read one range; a partition that is not ours (Spark's stand-in for none) has no rows.

    Raises:
        DataLossError, ReadTimeoutError, ConnectorError: as `RangeFetch.blocks`.
    """
    if not isinstance(partition, RangePartition):
        return
    fetch = _fetch(options, partition.range)
    for block in fetch.blocks():
        yield record_batch(block, partition.range.stream, schema)
    if fetch.loss is not None:
        _log.warning("read on after data loss (failOnDataLoss=false): %s", fetch.loss)


def _fetch(options: SourceOptions, sequences: SequenceRange) -> RangeFetch | DirectFetch:
    """How to read: a consumer, unless that would interfere with the stream's retention.

    Without `commitMode` the driver has made sure that the retention is by limits.
    """
    if options.commit_mode is not None:
        with contextlib.suppress(StreamNotFoundError):
            state = Control(options.connection, "reader").stream_state(sequences.stream)
            if state.retention != "limits":
                return DirectFetch(options, sequences)
    return RangeFetch(options, sequences)
