"""A table that follows a key-value bucket: every put, delete and purge, as they come.

Each micro-batch N writes the table again as version N, from version N-1 and the changes; so one
that runs twice writes the same twice, and readers take the newest version that is complete.
"""

import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

TABLE = demo.WORK_FOLDER / "prices"
CHECKPOINT = demo.WORK_FOLDER / "bucket_to_table"


def apply(changes: DataFrame, version: int) -> None:
    """Write the next version of the table."""
    last = changes.groupBy("key").agg(
        f.max_by(f.struct("operation", "value", "revision"), "revision").alias("to")
    )
    puts = last.where("to.operation = 'PUT'").select(
        "key", f.expr("decode(to.value, 'UTF-8')").alias("price"), "to.revision"
    )
    spark = changes.sparkSession
    kept = table(spark, version - 1).join(last, "key", "left_anti") if version else None
    rows = kept.unionByName(puts) if kept else puts
    rows.write.mode("overwrite").parquet(str(TABLE / str(version)))


def table(spark: SparkSession, version: int) -> DataFrame:
    return spark.read.parquet(str(TABLE / str(version)))


def follow(spark: SparkSession, servers: str) -> int:
    """Take all changes that there are; return the version of the table."""
    source = spark.readStream.format("jetstream").options(servers=servers, bucket="prices")
    changes = source.option("startingOffsets", "earliest").load()
    query = changes.writeStream.foreachBatch(apply).trigger(availableNow=True)
    query = query.option("checkpointLocation", str(CHECKPOINT)).start()
    query.awaitTermination()
    return query.lastProgress.batchId


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("bucket_to_table") as spark:
        shutil.rmtree(CHECKPOINT, ignore_errors=True)
        shutil.rmtree(TABLE, ignore_errors=True)
        demo.fresh_bucket(servers, "prices")
        for fruit, price in (("apple", "1.20"), ("pear", "1.90"), ("plum", "3.50")):
            demo.put(servers, "prices", fruit, price)
        follow(spark, servers)

        demo.put(servers, "prices", "apple", "1.40")
        demo.put(servers, "prices", "fig", "0.80")
        demo.delete_key(servers, "prices", "pear")
        version = follow(spark, servers)

        table(spark, version).orderBy("key").show()
        read = spark.read.format("jetstream").options(servers=servers, bucket="prices").load()
        bucket = read.selectExpr("key", "decode(value, 'UTF-8') price", "revision")
        differing = bucket.exceptAll(table(spark, version)).count()
        print(
            f"version {version} of the table has {table(spark, version).count()} prices, ", end=""
        )
        print("those of the bucket" if not differing else f"{differing} of them wrong")


demo.run(main)
