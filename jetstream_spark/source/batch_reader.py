"""Batch reads: `spark.read.format("jetstream")`.

The tail is looked up once, when the read is planned; what arrives later is not part of it. A read
of a bucket gives the current values (`kv_latest.py`), or with `kvMode=history` every revision; a
read of an object store gives the objects that exist (`object_rows.py`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetstream_spark.client.blocking import iterate, run, this_host
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import OptionsError
from jetstream_spark.fetch.data_loss import find_loss
from jetstream_spark.fetch.rows import arrow_schema
from jetstream_spark.options.bucket_options import CHANGES, HISTORY
from jetstream_spark.options.format_options import EARLIEST, LATEST, SourceOptions
from jetstream_spark.options.offsets import Offsets, Tasks
from jetstream_spark.read_ahead import read_ahead
from jetstream_spark.source.partition import (
    LatestPartition,
    RangePartition,
    columns_of,
    read_partition,
)
from jetstream_spark.source.planner import plan_ranges
from jetstream_spark.source.pushed_filters import PushedFilters
from jetstream_spark.source.stream_watch import StreamWatch

_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"

# So many bytes of objects are worth a task of their own.
_PART_BYTES = 256 << 20

_log = logging.getLogger("jetstream_spark")


class BatchReader(DataSourceReader):
    """Reads [start, end) of every stream.

    Raises:
        OptionsError: the options ask for what a batch cannot do; all of it is listed.
        SchemaError: a column does not exist, has another type, or is there twice.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if problems := batch_problems(options):
            raise OptionsError(problems)
        self.options = options
        self.pushed = PushedFilters()
        self.schema = arrow_schema(schema, columns_of(options))

    def partitions(self) -> list[InputPartition]:
        """Plan the read; an empty list when there is nothing to read.

        Raises:
            OffsetsError, OptionsError: the options name positions that cannot be read.
            DataLossError: messages of the range are gone, and `failOnDataLoss` is true.
            ConnectorError: a stream is not there or cannot be read, or the servers do not answer.
        """
        return run(self._plan(this_host()))

    def _plan(self, host: Host) -> Operation[list[InputPartition]]:
        watch = StreamWatch(host, self.options)
        start = yield from watch.starting_offsets(EARLIEST)
        end = yield from watch.ending_offsets(start)
        if self.options.bucket and self.options.kv_mode != HISTORY:
            return self._current_values(start, end)
        if self.options.object_store:
            parts = yield from self._parts(watch)
            return self._current_values(start, end, parts)
        yield from self._check_loss(watch, start)
        start, end = yield from watch.narrowed(start, end, self.pushed)
        if self.pushed.subjects is not None and not self.pushed.subjects:
            return []
        subjects = None if self.pushed.subjects is None else tuple(sorted(self.pushed.subjects))
        ranges = plan_ranges(start, end, self.options.tasks)
        return [RangePartition(sequences, subjects) for sequences in ranges]

    def _parts(self, watch: StreamWatch) -> Operation[int]:
        """How many tasks the objects of a store are dealt to, by how much it holds."""
        least, most = self.options.min_partitions, self.options.max_partitions
        if "bytes" not in self.schema.names:
            return least
        held = sum(one.bytes for one in (yield from watch.states()).values() if one is not None)
        return max(least, min(most, 1 + held // _PART_BYTES))

    def _current_values(self, start: Offsets, end: Offsets, parts: int = 1) -> list[InputPartition]:
        options = self.options
        points = (options.starting, options.starting_timestamp_ns)
        if any(points) or options.ending or options.ending_timestamp_ns:
            what = "values of a bucket" if options.bucket else "objects of a store"
            where = "kvMode=history" if options.bucket else "streaming queries, which see changes"
            raise OptionsError(
                [
                    f"the current {what} are all read, wherever they stand; starting and ending "
                    f"points are for {where}"
                ]
            )
        ranges = plan_ranges(start, end, Tasks(sys.maxsize, 1, 1))
        return [
            LatestPartition(sequences, part, parts) for sequences in ranges for part in range(parts)
        ]

    def _check_loss(self, watch: StreamWatch, start: Offsets) -> Operation[None]:
        tails = yield from watch.tails()
        for name, at in start.streams.items():
            loss = find_loss(name, at, tails.get(name), self.options.expects_removals)
            if loss is not None:
                if self.options.fail_on_data_loss:
                    raise loss
                _log.warning("reading on after data loss (failOnDataLoss=false): %s", loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range on an executor."""
        batches = read_partition(this_host(), self.options, self.schema, partition)
        return read_ahead(iterate(batches))


def batch_problems(options: SourceOptions) -> list[str]:
    """What the options of a read ask for that a batch cannot do."""
    problems = []
    points = options.starting
    words = [points] if isinstance(points, str) else list((points or {}).values())
    if LATEST in words and options.starting_timestamp_ns is None:
        problems.append(
            "option 'startingOffsets' cannot be latest in a batch: it would read nothing"
        )
    if options.commit_mode in ("ack", "purge"):
        problems.append(
            f"option 'commitMode' = '{options.commit_mode}' is for streaming queries only"
        )
    if options.kv_mode == CHANGES:
        problems.append(
            "option 'kvMode' = 'changes' is for streaming queries only; history reads all "
            "revisions that the bucket keeps, latest the current values"
        )
    return problems


class FilteredReader(DataSourceReader):
    """A batch read that Spark may give its filters to.

    Only for the process that asks for it: wherever the setting is off, Spark refuses a reader that
    merely has `pushFilters` (docs/reference/spark.md#filters-and-columns).
    """

    def __init__(self, reader: BatchReader) -> None:
        self.reader = reader

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Take the filters that the servers can apply; return those that Spark has to."""
        if self.reader.options.bucket or self.reader.options.object_store:
            return filters
        return list(self.reader.pushed.push(self.reader.options, filters))

    def partitions(self) -> list[InputPartition]:
        """Plan the read."""
        return self.reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range on an executor."""
        return self.reader.read(partition)


def is_asked_for_filters() -> bool:
    """Whether Spark plans reads with filters in this process."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN in sys.modules or (spec is not None and spec.name == _PUSHDOWN)
