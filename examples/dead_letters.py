"""Rows that the server refuses become dead letters, with the reason; mended, they go back."""

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import Column, DataFrame  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402


def header(name: str) -> Column:
    return f.col("headers")[name][0]


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("dead_letters") as spark:
        demo.fresh_stream(servers, "NOTES", "notes.>", max_msg_size=300)
        demo.fresh_stream(servers, "DEAD", "dead.>")

        def write(rows: DataFrame) -> None:
            sink = rows.write.format("jetstream").mode("append")
            sink = sink.options(onError="deadLetter", deadLetterSubject="dead.notes")
            sink.options(servers=servers, stream="NOTES").save()

        def dead_letters() -> DataFrame:
            source = spark.read.format("jetstream").options(servers=servers, stream="DEAD")
            return source.option("includeHeaders", True).load()

        # NOTES takes 300 bytes a message with its headers; every tenth note is longer.
        length = f.when(f.col("id") % 10 == 0, f.lit(500)).otherwise(f.lit(40)).cast("int")
        write(
            spark.range(100).select(
                f.lit("notes.new").alias("subject"), f.rpad("id", length, ".").alias("data")
            )
        )
        print(f"{demo.message_count(servers, 'NOTES')} notes arrived, the others are dead letters:")
        found = dead_letters().select(
            header("Dead-Letter-Subject").alias("subject"),
            header("Dead-Letter-Reason").alias("reason"),
            "data",
        )
        found.groupBy("subject", "reason").count().show(truncate=False)

        write(found.select("subject", f.substring("data", 1, 100).alias("data")))
        count = demo.message_count(servers, "NOTES")
        print(f"after their way back there are {count} notes")


demo.run(main)
