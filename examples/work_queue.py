"""Fan-in: jobs from two work queues into one stream; a job leaves its queue once Spark has it."""

import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import functions as f  # noqa: E402

CHECKPOINT = demo.WORK_FOLDER / "work_queue"


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("work_queue") as spark:
        shutil.rmtree(CHECKPOINT, ignore_errors=True)
        for place in ("EU", "US"):
            demo.fresh_stream(
                servers,
                f"JOBS_{place}",
                f"jobs.{place.lower()}.>",
                retention="workqueue",
                allow_direct=True,
            )
        demo.fresh_stream(servers, "DONE", "done.>")
        for place in ("eu", "us"):
            jobs = spark.range(150).selectExpr(f"'jobs.{place}.resize' subject", "string(id) data")
            jobs.write.format("jetstream").options(servers=servers).mode("append").save()

        source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
        source = source.options(servers=servers, stream="JOBS_EU,JOBS_US", commitMode="purge")
        done = source.load().select(
            f.regexp_replace("subject", "^jobs", "done").alias("subject"),
            f.concat(f.lit("resized "), f.col("data").cast("string")).alias("data"),
        )
        sink = done.writeStream.format("jetstream").options(servers=servers, stream="DONE")
        sink = sink.option("checkpointLocation", str(CHECKPOINT)).trigger(availableNow=True)
        sink.start().awaitTermination()

        left = demo.message_count(servers, "JOBS_EU") + demo.message_count(servers, "JOBS_US")
        read = spark.read.format("jetstream").options(servers=servers, stream="DONE").load()
        read.groupBy("subject").count().orderBy("subject").show()
        print(f"{read.count()} jobs of two queues are done, {left} are left")


demo.run(main)
