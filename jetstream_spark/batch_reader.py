"""Batch reads: `spark.read.format("jetstream")`.

The tail is looked up once, when the read is planned; what arrives later is not part of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetstream_spark.data_loss import find_loss
from jetstream_spark.errors import OptionsError
from jetstream_spark.offsets import Offsets
from jetstream_spark.options import EARLIEST, LATEST, SourceOptions
from jetstream_spark.partition import RangePartition, read_partition
from jetstream_spark.planner import plan_ranges
from jetstream_spark.rows import arrow_schema
from jetstream_spark.stream_watch import StreamWatch

_log = logging.getLogger("jetstream_spark")


class BatchReader(DataSourceReader):
    """Reads [start, end) of every stream."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        points = options.starting
        words = [points] if isinstance(points, str) else list((points or {}).values())
        if LATEST in words and options.starting_timestamp_ns is None:
            raise OptionsError(
                ["option 'startingOffsets' cannot be latest in a batch: it would read nothing"]
            )
        if options.commit_mode == "purge":
            raise OptionsError(["option 'commitMode' = 'purge' is for streaming queries only"])
        self.options = options
        self.schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        """Plan the read; an empty list when there is nothing to read."""
        watch = StreamWatch(self.options)
        start = watch.starting_offsets(EARLIEST)
        end = watch.ending_offsets(start)
        self._check_loss(watch, start)
        ranges = plan_ranges(
            start,
            end,
            self.options.max_offsets_per_partition,
            self.options.min_partitions,
            self.options.max_partitions,
        )
        return [RangePartition(sequences) for sequences in ranges]

    def _check_loss(self, watch: StreamWatch, start: Offsets) -> None:
        tails = watch.tails()
        for name, at in start.streams.items():
            loss = find_loss(name, at, tails[name])
            if loss is not None:
                if self.options.fail_on_data_loss:
                    raise loss
                _log.warning("reading on after data loss (failOnDataLoss=false): %s", loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range on an executor."""
        return read_partition(self.options, self.schema, partition)
