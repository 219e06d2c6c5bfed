"""The driver of one copy: a process of its own, so that it can be killed.

python -m tests.chaos.driver URL CHECKPOINT SOURCE SINK
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

# Eighty batches, so that there is something left to strike at until the last blow.
ROWS_A_BATCH, ROWS_A_TASK = 2_500, 1_250


def main(url: str, checkpoint: str, source: str, sink: str) -> None:
    """Copy what is there, from where the checkpoint says."""
    spark = (
        SparkSession.builder.master("local[2,8]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    patience = {"servers": url, "requestTimeout": "3s", "connectTimeout": "3s"}
    rows = (
        spark.readStream.format("jetstream")
        .options(**patience)
        .option("stream", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .option("maxOffsetsPerPartition", ROWS_A_TASK)
        .load()
    )
    writing = (
        rows.select(f.lit(f"{sink}.a").alias("subject"), "data")
        .writeStream.format("jetstream")
        .options(**patience)
        .option("ackTimeout", "3s")
        .option("stream", sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    writing.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
