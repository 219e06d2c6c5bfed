"""What a batch of a query holds."""

from __future__ import annotations

import pyarrow as pa

from jetstream_spark.client.blocking import iterate, this_host
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.options.offsets import Offsets, Tasks
from jetstream_spark.source.partition import RangePartition, read_partition
from jetstream_spark.source.planner import plan_ranges


def sequences_between(start: Offsets, end: Offsets, **options: str) -> list[int]:
    """Return the sequences of a batch, read as its tasks do."""
    schema = pa.schema({"seq": pa.int64()})
    found: list[int] = []
    for sequences in plan_ranges(start, end, Tasks(1000, 1, 8)):
        rows = read_partition(
            this_host(), SourceOptions.parse(options), schema, RangePartition(sequences)
        )
        for batch in iterate(rows):
            found += batch.column("seq").to_pylist()
    return found
