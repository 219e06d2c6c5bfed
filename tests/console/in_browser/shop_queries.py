"""Two streaming queries of a shop, in a process of their own: one goes on, one fails.

    python tests/console/in_browser/shop_queries.py nats://... FOLDER

It says `both are known` once the one has written all there is and the other has failed, and ends
when its input does.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession


def main(servers: str, folder: Path) -> None:
    """Run both."""
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }
    spark = (
        SparkSession.builder.master("local[2]").appName("shop").config(map=settings).getOrCreate()
    )
    connection = {"servers": servers, "user": "all", "password": "all"}
    reader = spark.readStream.format("jetstream").options(**connection)
    orders = reader.option("stream", "ORDERS").option("startingOffsets", "earliest").load()

    shipped = orders.selectExpr("'shipped.all' AS subject", "data").writeStream
    shipped = shipped.format("jetstream").options(**connection).option("stream", "SHIPPED")
    shipped = shipped.queryName("shipping").trigger(processingTime="1 second")
    shipping = shipped.option("checkpointLocation", str(folder / "checkpoints/shipping")).start()

    totals = orders.selectExpr("raise_error(concat('order ', seq, ' has no price')) AS total")
    totals = totals.writeStream.format("noop").queryName("totals")
    failing = totals.option("checkpointLocation", str(folder / "checkpoints/totals")).start()
    with contextlib.suppress(StreamingQueryException):
        failing.awaitTermination(100)
    while not any(row["numInputRows"] for row in shipping.recentProgress):
        time.sleep(0.1)
    print("both are known", flush=True)
    sys.stdin.read()
    shipping.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
