"""Object stores through Spark, on both servers: written, read, and watched."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(300)]


def test_rows_become_objects_and_are_read_and_watched(spark, jetstream, tmp_path) -> None:
    subjects = ["$O.files.C.>", "$O.files.M.>"]
    jetstream.create_stream("OBJ_files", subjects=subjects, allow_rollup_hdrs=True)
    store = {"servers": jetstream.url, "objectStore": "files"}

    def write(rows: list, version: int) -> None:
        frame = spark.createDataFrame(rows, "name string, bytes binary, operation string")
        named = store | {"txnAppId": "t", "txnVersion": str(version)}
        frame.write.format("jetstream").mode("append").options(**named).save()

    def watch() -> list:
        changes = spark.readStream.format("jetstream").options(**store, startingOffsets="earliest")
        sink = changes.load().writeStream.format("parquet")
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).sort("revision").collect()
        return [(row.name, row.operation, bytes(row.bytes or b"")) for row in rows]

    contents = {f"images/{n}": bytes([n]) * (n * 60_000) for n in range(5)}
    for _ in range(2):
        write([(name, content, None) for name, content in contents.items()], 1)
    assert sorted(watch()) == [(n, "PUT", c) for n, c in sorted(contents.items())]
    write([("images/0", b"new", "put"), ("images/1", None, "delete")], 2)
    assert sorted(watch()[5:]) == [("images/0", "PUT", b"new"), ("images/1", "DEL", b"")]
    found = spark.read.format("jetstream").options(**store, minPartitions="2").load()
    del contents["images/1"]
    assert {r.name: bytes(r.bytes) for r in found.collect()} == contents | {"images/0": b"new"}
    sizes = spark.read.format("jetstream").options(**store).schema("name STRING, size BIGINT")
    assert {row.size for row in sizes.load().collect()} == {3, 120_000, 180_000, 240_000}
