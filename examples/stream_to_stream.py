"""A streaming query from one stream to another: stopped, started again, nothing lost or doubled."""

import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

CHECKPOINT = demo.WORK_FOLDER / "stream_to_stream"


def readings(spark: SparkSession, start: int, stop: int) -> DataFrame:
    """Make temperatures of five sensors."""
    celsius = f.round(20 + 5 * f.sin(f.col("id") / 50), 2)
    return spark.range(start, stop, numPartitions=1).select(
        f.concat(f.lit("raw.sensor"), (f.col("id") % 5).cast("string")).alias("subject"),
        f.to_json(f.struct("id", celsius.alias("celsius"))).alias("data"),
    )


def convert(spark: SparkSession, servers: str) -> None:
    """Take what is new in RAW, write it as Fahrenheit into CLEAN; come back when all is done."""
    source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
    rows = source.options(servers=servers, stream="RAW").option("maxOffsetsPerTrigger", 400).load()
    reading = f.from_json(f.col("data").cast("string"), "id LONG, celsius DOUBLE")
    fahrenheit = f.round(reading["celsius"] * 9 / 5 + 32, 2).alias("fahrenheit")
    clean = rows.select(
        f.regexp_replace("subject", "^raw", "clean").alias("subject"),
        f.to_json(f.struct(reading["id"].alias("id"), fahrenheit)).alias("data"),
    )
    sink = clean.writeStream.format("jetstream").options(servers=servers, stream="CLEAN")
    sink = sink.option("checkpointLocation", str(CHECKPOINT)).trigger(availableNow=True)
    sink.start().awaitTermination()


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("stream_to_stream") as spark:
        shutil.rmtree(CHECKPOINT, ignore_errors=True)
        demo.fresh_stream(servers, "RAW", "raw.>")
        demo.fresh_stream(servers, "CLEAN", "clean.>")
        for start, stop in ((0, 1000), (1000, 1500)):
            sink = readings(spark, start, stop).write.format("jetstream").mode("append")
            sink.options(servers=servers, stream="RAW").save()
            convert(spark, servers)
            count = demo.message_count(servers, "CLEAN")
            print(f"RAW has {stop} readings, CLEAN has {count}")


demo.run(main)
