"""Orders above 80 euros, from the stream ORDERS to the stream LARGE_ORDERS."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SERVERS = os.environ["JETSTREAM_URL"]


@dp.temporary_view
def orders() -> DataFrame:
    source = SparkSession.active().readStream.format("jetstream")
    rows = source.options(servers=SERVERS, stream="ORDERS", startingOffsets="earliest").load()
    order = f.from_json(f.col("data").cast("string"), "id LONG, euros LONG")
    return rows.select(order.alias("order"), "subject").select("order.*", "subject")


dp.create_sink("large_orders", "jetstream", {"servers": SERVERS, "stream": "LARGE_ORDERS"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    rows = SparkSession.active().readStream.table("orders").where("euros > 80")
    return rows.select(
        f.regexp_replace("subject", "^orders", "large").alias("subject"),
        f.to_json(f.struct("id", "euros")).alias("data"),
    )
