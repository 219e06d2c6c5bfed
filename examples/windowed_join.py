"""Two streams joined in time: which orders were paid within ten minutes."""

import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import Column, DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

CHECKPOINT = demo.WORK_FOLDER / "windowed_join"
EVENT = "id LONG, at TIMESTAMP"


def publish(spark: SparkSession, servers: str, stream: str, at: Column, count: int) -> None:
    """Publish events, one for each id, that happened at a time."""
    events = spark.range(count).select(
        f.lit(f"{stream.lower()}.new").alias("subject"),
        f.to_json(f.struct("id", at.alias("at"))).alias("data"),
    )
    sink = events.coalesce(1).write.format("jetstream").mode("append")
    sink.options(servers=servers, stream=stream).save()


def events(spark: SparkSession, servers: str, stream: str, name: str) -> DataFrame:
    """Read the events of a stream; two minutes are how late one may come."""
    source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
    rows = source.options(servers=servers, stream=stream).load()
    event = f.from_json(f.col("data").cast("string"), EVENT)
    named = rows.select(event["id"].alias(f"{name}_id"), event["at"].alias(f"{name}_at"))
    return named.withWatermark(f"{name}_at", "2 minutes")


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("windowed_join") as spark:
        shutil.rmtree(CHECKPOINT, ignore_errors=True)
        for stream in ("ORDERS", "PAYMENTS"):
            demo.fresh_stream(servers, stream, f"{stream.lower()}.>")
        ordered = f.timestamp_seconds(1_790_000_000 + f.col("id") * 60)
        # Every third order is paid too late.
        delay = f.when(f.col("id") % 3 == 0, f.lit(900)).otherwise(f.lit(120))
        publish(spark, servers, "ORDERS", ordered, 90)
        publish(
            spark, servers, "PAYMENTS", f.timestamp_seconds(f.unix_seconds(ordered) + delay), 90
        )

        orders = events(spark, servers, "ORDERS", "order")
        payments = events(spark, servers, "PAYMENTS", "payment")
        in_time = f.expr(
            "order_id = payment_id AND payment_at >= order_at "
            "AND payment_at <= order_at + INTERVAL 10 MINUTES"
        )
        paid = orders.join(payments, in_time).select("order_id", "order_at", "payment_at")
        query = paid.writeStream.format("memory").queryName("paid").trigger(availableNow=True)
        query.option("checkpointLocation", str(CHECKPOINT)).start().awaitTermination()

        spark.table("paid").orderBy("order_id").show(3)
        print(f"{spark.table('paid').count()} of 90 orders were paid within ten minutes")


demo.run(main)
