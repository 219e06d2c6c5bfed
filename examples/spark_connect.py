"""The same over Spark Connect: a thin client here, the connector where Spark runs.

SPARK_REMOTE=sc://host:15002 uses that server, which needs `pip install jetstream-spark` and a way
to the NATS server; without it one starts on this machine.
"""

import os
import sys
import tempfile

import _demo as demo

demo.require("pyspark", "pyarrow", "pandas", "grpc", "grpc_status", "rich", "jetstream_spark")

from pyspark.sql import SparkSession  # noqa: E402


def main() -> None:
    with demo.jetstream() as servers:
        demo.fresh_stream(servers, "ORDERS", "orders.>")
        demo.fresh_stream(servers, "COPIES", "copies.>")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        remote = os.environ.pop("SPARK_REMOTE", "local[2]")
        spark = SparkSession.builder.remote(remote).getOrCreate()

        orders = spark.range(1000).selectExpr(
            "concat('orders.', id % 3) subject", "string(id) data"
        )
        sink = orders.write.format("jetstream").mode("append")
        sink.options(servers=servers, stream="ORDERS").save()

        source = spark.readStream.format("jetstream").option("startingOffsets", "earliest")
        rows = source.options(servers=servers, stream="ORDERS").load()
        copies = rows.selectExpr("replace(subject, 'orders', 'copies') subject", "data")
        query = copies.writeStream.format("jetstream").options(servers=servers, stream="COPIES")
        query = query.option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True)
        query.start().awaitTermination()

        read = spark.read.format("jetstream").options(servers=servers, stream="COPIES").load()
        print(f"{read.count()} copies went there and back over Spark Connect")
        spark.stop()


demo.run(main)
