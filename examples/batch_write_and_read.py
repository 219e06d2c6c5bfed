"""Write a DataFrame into a stream, read it back as a table, and look at one stretch of it."""

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import functions as f  # noqa: E402


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("batch") as spark:
        demo.fresh_stream(servers, "ORDERS", "orders.>")

        orders = spark.range(1, 1001).select(
            f.expr("concat('orders.', elt(1 + id % 3, 'de', 'fr', 'it'))").alias("subject"),
            f.to_json(f.struct("id", (f.col("id") % 90 + 10).alias("euros"))).alias("data"),
        )
        sink = orders.write.format("jetstream").mode("append")
        sink.options(servers=servers, stream="ORDERS").save()

        source = spark.read.format("jetstream").options(servers=servers, stream="ORDERS")
        table = source.load().withColumn("order", f.expr("string(data)"))
        euros = f.get_json_object("order", "$.euros").cast("long")
        table.groupBy("subject").agg(f.count("*").alias("orders"), f.sum(euros)).show()

        # Only Italy, only sequences 100 to 199; the server filters, nothing else travels.
        part = source.options(subjects="orders.it")
        part = part.option("startingOffsets", '{"ORDERS": 100}')
        part = part.option("endingOffsets", '{"ORDERS": 200}').load()
        print(f"{part.count()} orders from Italy between sequences 100 and 199")


demo.run(main)
