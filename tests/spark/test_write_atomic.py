"""Writes in batches through Spark, into both servers."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(300)]


def rows(spark, stream: str, count: int, partitions: int = 3):
    data = f.to_json(f.struct("id"))
    frame = spark.range(count, numPartitions=partitions)
    return frame.select(f.lit(f"{stream}.a").alias("subject"), data.alias("data"))


def write(frame, jetstream, stream: str, **options) -> None:
    named = {"servers": jetstream.url, "stream": stream, "publishMode": "atomic"}
    frame.write.format("jetstream").mode("append").options(**named | options).save()


@pytest.mark.parametrize("unit", ["block", "partition"])
def test_an_atomic_write_is_whole_and_written_once(spark, jetstream, unit) -> None:
    stream = f"Atomic{unit.title()}"
    jetstream.create_stream(stream, allow_atomic=True)
    frame = rows(spark, stream, 2_400)
    for _ in range(2):
        write(frame, jetstream, stream, atomicUnit=unit, txnAppId="load", txnVersion=1)
    assert jetstream.control.stream_state(stream).messages == 2_400


def test_a_failed_atomic_partition_leaves_nothing(spark, jetstream) -> None:
    jetstream.create_stream("AtomicFailed", allow_atomic=True)

    def fail(batches):
        yield from batches
        raise RuntimeError("each task fails after its rows")

    frame = rows(spark, "AtomicFailed", 900, 1)
    with pytest.raises(Exception, match="each task fails"):
        write(frame.mapInArrow(fail, frame.schema), jetstream, "AtomicFailed",
              atomicUnit="partition")  # fmt: skip
    assert jetstream.control.stream_state("AtomicFailed").messages == 0


def test_a_stream_that_does_not_allow_it(spark, jetstream) -> None:
    jetstream.create_stream("AtomicNot")
    with pytest.raises(Exception, match="does not allow it"):
        write(rows(spark, "AtomicNot", 3), jetstream, "AtomicNot")
