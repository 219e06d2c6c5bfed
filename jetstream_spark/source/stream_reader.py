"""Streaming reads: `spark.readStream.format("jetstream")`, as Spark calls them.

One object lives in a process of its own on the driver and answers Spark's calls one after another.
A second one is pickled to the executors, so `read` may not need anything that the first one learns
(docs/reference/spark.md#processes). The answers themselves are decided in `stream_source.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from jetstream_spark import spark_api
from jetstream_spark.client import pool
from jetstream_spark.client.blocking import iterate, run, this_host
from jetstream_spark.errors import OptionsError
from jetstream_spark.fetch.data_loss import check_continuity
from jetstream_spark.fetch.rows import arrow_schema
from jetstream_spark.options.bucket_options import CHANGES
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.options.offsets import Offsets
from jetstream_spark.read_ahead import read_ahead
from jetstream_spark.source.partition import RangePartition, columns_of, read_partition
from jetstream_spark.source.planner import plan_ranges
from jetstream_spark.source.read_count import ReadCount
from jetstream_spark.source.stream_source import StreamSource
from jetstream_spark.source.termination import stop_on_sigterm
from jetstream_spark.task_report import is_observed


class StreamReader(DataSourceStreamReader, spark_api.SupportsTriggerAvailableNow):
    """The streaming source of one query.

    Raises:
        OptionsError: the options ask for what a streaming query, or this version of PySpark, cannot
            do; all of it is listed.
        SchemaError: a column does not exist, has another type, or is there twice.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if problems := stream_problems(options):
            raise OptionsError(problems)
        stop_on_sigterm()
        self.options = options
        self.schema = arrow_schema(schema, columns_of(options))
        self._source: StreamSource | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the executors: nothing that the driver's object has learned."""
        return self.__dict__ | {"_source": None}

    @property
    def source(self) -> StreamSource:
        """The answers, in the process on the driver that asks for them."""
        if self._source is None:
            self._source = StreamSource(this_host(), self.options)
        return self._source

    # --- offsets ------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without checkpoint begins; asked twice, answered the same."""
        return run(self.source.initial_offset()).to_json()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: spark_api.ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next batch ends.

        Raises:
            DataLossError: messages after `start` are gone, and `failOnDataLoss` is true.
        """
        at = None if start is None else Offsets.from_json(start)
        # The engine may ask for everything, whatever the options say.
        is_limited = not (isinstance(limit, spark_api.ReadAllAvailable) and self._has_limits())
        return run(self.source.latest_offset(at, is_limited)).to_json()

    def _has_limits(self) -> bool:
        return bool(_limits_given(self.options))

    def getDefaultReadLimit(self) -> spark_api.ReadLimit:  # noqa: N802
        """Tell Spark that there is a limit; which ones apply is decided in `latestOffset`."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return spark_api.ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return spark_api.ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return spark_api.ReadMinRows(options.min_offsets_per_trigger)
        return spark_api.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Freeze the tail: this run ends exactly there."""
        run(self.source.freeze())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The tail and the lag, for the query's progress; Spark only prints it."""
        return run(self.source.report())

    # --- batches ------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into tasks: a pure function of its arguments and the options."""
        first, final = Offsets.from_json(start), Offsets.from_json(end)
        if not spark_api.HAS_ADMISSION_CONTROL and self.options.fail_on_data_loss:
            check_continuity(first, final)  # before, nobody could say where the query stands
        ranges = plan_ranges(first, final, self.options.tasks)
        return [RangePartition(sequences, final.subjects) for sequences in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range on an executor."""
        count = ReadCount() if is_observed() else None
        batches = read_partition(this_host(), self.options, self.schema, partition, count)
        ahead = read_ahead(iterate(batches))
        return ahead if count is None else count.reported(ahead)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark will not ask for anything before `end` again."""
        run(self.source.commit(Offsets.from_json(end)))

    def stop(self) -> None:
        """Close the driver's connections; `stop_on_sigterm` makes sure that this is called."""
        pool.close_all(this_host())


_LIMITS = {
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "maxBytesPerTrigger": "max_bytes_per_trigger",
    "minOffsetsPerTrigger": "min_offsets_per_trigger",
}


def _limits_given(options: SourceOptions) -> list[str]:
    """The options that limit a batch, as far as the user gave them."""
    return [key for key, attribute in _LIMITS.items() if getattr(options, attribute) is not None]


def stream_problems(options: SourceOptions) -> list[str]:
    """What the options of a read ask for that a streaming query, or this version of PySpark, cannot
    do."""
    problems = []
    if options.ending is not None or options.ending_timestamp_ns is not None:
        problems.append("options 'endingOffsets' and 'endingTimestamp' are for batch reads only")
    if options.kv_mode not in (None, CHANGES):
        problems.append(
            f"option 'kvMode' = '{options.kv_mode}' is for batch reads only; a streaming query "
            "reads changes"
        )
    if not spark_api.HAS_ADMISSION_CONTROL:
        problems += [
            f"option '{key}' needs PySpark 4.2 or newer, which tells a source where it stands; "
            f"this is {spark_api.VERSION}: leave it out, or upgrade PySpark"
            for key in _limits_given(options) + (["streamPattern"] * bool(options.stream_pattern))
        ]
    return problems
