"""Writes in fast batches through Spark, into both servers."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(300)]


def rows(spark, stream: str, count: int):
    frame = spark.range(count, numPartitions=3)
    return frame.select(f.lit(f"{stream}.a").alias("subject"), f.expr("string(id) data"))


def write(frame, jetstream, stream: str, **options) -> None:
    named = {"servers": jetstream.url, "stream": stream, "publishMode": "fast"}
    frame.write.format("jetstream").mode("append").options(**named | options).save()


def test_a_fast_write_is_written_once(spark, jetstream, tmp_path) -> None:
    """A batch write that runs twice, and a streaming copy of it."""
    for name in ("FastIn", "FastOut"):
        jetstream.create_stream(name, allow_batched=True)
    for _ in range(2):
        write(rows(spark, "FastIn", 30_000), jetstream, "FastIn", txnAppId="load", txnVersion=1)
    assert jetstream.control.stream_state("FastIn").messages == 30_000

    source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
    read = source.options(servers=jetstream.url, stream="FastIn").load()
    copies = read.selectExpr("'FastOut.a' subject", "data").writeStream.format("jetstream")
    copies = copies.options(servers=jetstream.url, stream="FastOut", publishMode="fast")
    copies = copies.option("checkpointLocation", str(tmp_path))
    copies.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.format("jetstream").options(servers=jetstream.url, stream="FastOut").load()
    assert found.select("data").distinct().count() == found.count() == 30_000


def test_a_stream_that_does_not_allow_it(spark, jetstream) -> None:
    jetstream.create_stream("FastNot")
    with pytest.raises(Exception, match="Set allow_batched"):
        write(rows(spark, "FastNot", 3), jetstream, "FastNot")
