"""Pictures in an object store: written from rows, listed without their bytes, watched, mended."""

import base64
import hashlib
import shutil

import _demo as demo

demo.require("pyspark", "pyarrow", "rich", "jetstream_spark")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

CHECKPOINT = demo.WORK_FOLDER / "object_store"
CATALOG = demo.WORK_FOLDER / "object_store_catalog"
CONTENTS = "name string, bytes binary, operation string"


def write(rows: DataFrame, store: dict[str, str]) -> None:
    rows.write.format("jetstream").options(**store).mode("append").save()


def watch(spark: SparkSession, store: dict[str, str]) -> DataFrame:
    """Take the changes that there are; return all that were ever taken."""
    changes = spark.readStream.format("jetstream").options(**store, startingOffsets="earliest")
    rows = changes.schema("name STRING, size BIGINT, operation STRING, revision BIGINT").load()
    sink = rows.writeStream.format("parquet").option("checkpointLocation", str(CHECKPOINT))
    sink.trigger(availableNow=True).start(str(CATALOG)).awaitTermination()
    return spark.read.parquet(str(CATALOG))


def main() -> None:
    with demo.jetstream() as servers, demo.spark_session("object_store") as spark:
        shutil.rmtree(CHECKPOINT, ignore_errors=True)
        shutil.rmtree(CATALOG, ignore_errors=True)
        demo.fresh_object_store(servers, "pictures")
        store = {"servers": servers, "objectStore": "pictures"}

        # Twelve pictures of up to 330,000 bytes, which are three chunks of the store.
        pictures = spark.range(12).select(
            f.format_string("album/%02d.png", "id").alias("name"),
            f.encode(f.expr("repeat(chr(65 + int(id)), int(id) * 30000)"), "UTF-8").alias("bytes"),
        )
        write(pictures, store)
        mended = [("album/03.png", b"a smaller one", "put"), ("album/07.png", None, "delete")]
        write(spark.createDataFrame(mended, CONTENTS), store)
        watch(spark, store).where("operation = 'DEL' OR size < 100").orderBy("name").show()

        # Who leaves `bytes` out of the schema has no content read.
        listed = spark.read.format("jetstream").options(**store).schema("name STRING, size BIGINT")
        names, size = listed.load().agg(f.count("name"), f.sum("size")).first()

        whole = spark.read.format("jetstream").options(**store).load()
        wrong = [
            row.name
            for row in whole.select("name", "digest", "bytes").collect()
            if row.digest
            != "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(row.bytes).digest()).decode()
        ]
        print(f"{names} pictures of {size} bytes, {len(wrong)} of them damaged")


demo.run(main)
