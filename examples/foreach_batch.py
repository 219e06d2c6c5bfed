"""foreachBatch, exactly once: txnAppId and txnVersion name a write, a repeated one is skipped.

Spark's Python sinks take no outputMode("update"); this is the way to publish running totals.
"""

import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

CHECKPOINT = demo.WORK_FOLDER / "foreach_batch"


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("foreach_batch") as spark:
        shutil.rmtree(CHECKPOINT, ignore_errors=True)
        demo.fresh_stream(servers, "CLICKS", "clicks")
        demo.fresh_stream(servers, "TOTALS", "totals.>")

        clicks = spark.range(3000).select(f.expr("concat('page', id % 7)").alias("data"))
        sink = clicks.write.format("jetstream").mode("append")
        sink.options(servers=servers, stream="CLICKS", subject="clicks").save()

        def publish(totals: DataFrame, batch_id: int) -> None:
            for _ in range(2):  # as if the driver had crashed after the first write
                sink = totals.write.format("jetstream").mode("append")
                sink = sink.options(txnAppId="totals-example", txnVersion=batch_id)
                sink.options(servers=servers, stream="TOTALS").save()

        source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
        rows = source.options(servers=servers, stream="CLICKS", maxOffsetsPerTrigger=1000).load()
        totals = rows.groupBy(f.col("data").cast("string").alias("page")).count()
        messages = totals.select(
            f.concat(f.lit("totals."), "page").alias("subject"),
            f.col("count").cast("string").alias("data"),
        )
        query = messages.writeStream.foreachBatch(publish).outputMode("update")
        query = query.option("checkpointLocation", str(CHECKPOINT)).trigger(availableNow=True)
        query.start().awaitTermination()
        count = demo.message_count(servers, "TOTALS")
        print(f"3 batches of 7 pages, each written twice: {count} messages")


demo.run(main)
