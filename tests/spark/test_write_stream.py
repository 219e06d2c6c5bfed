"""Streaming writes through Spark: batch ids, restarts, re-run micro-batches."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import functions as f

from tests.forgotten_ids import until_forgotten

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(300)]


@pytest.fixture
def query(spark, genuine, control, tmp_path, request):
    """Start a query over the files of a folder, one file a micro-batch, into a fresh stream."""
    name = "".join(letter for letter in request.node.name.title() if letter.isalnum())[:60]
    body = {"name": name, "subjects": [f"{name}.>"], "duplicate_window": 100_000_000}
    control.request(f"STREAM.CREATE.{name}", body)
    folder = tmp_path / "in"
    folder.mkdir()
    times = itertools.count(1_700_000_000)

    def run(**options) -> None:
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        rows = lines.select(f.lit(f"{name}.a").alias("subject"), f.col("value").alias("data"))
        writer = rows.writeStream.format("jetstream").option("servers", genuine.url)
        writer = writer.options(**{"stream": name, **options}).trigger(availableNow=True)
        started = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        started.awaitTermination()

    def add(file: str, rows: list[str]) -> None:
        path = folder / file
        path.write_text("\n".join(rows) + "\n")
        os.utime(path, (next(times), next(times)))  # files are taken in the order of these

    run.add, run.checkpoint = add, tmp_path / "checkpoint"  # type: ignore[attr-defined]
    run.count = lambda: control.stream_state(name).messages  # type: ignore[attr-defined]
    run.stream = name  # type: ignore[attr-defined]
    run.forget = lambda: until_forgotten(control, name, f"{name}.a")  # type: ignore[attr-defined]
    return run


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Make Spark believe that it crashed after the sink's commit and before its own."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_batches_are_written_and_a_rerun_one_is_not(query) -> None:
    query.add("a", ["1", "2", "2"])
    query.add("b", ["3", "2"])
    query()
    assert query.count() == 5
    query.forget()
    forget_commit(query.checkpoint, 1)
    query()
    assert query.count() == 5
    query.add("c", ["4"])
    query()
    assert query.count() == 6


def test_a_batch_committed_by_no_driver_is_completed(query, control) -> None:
    query.add("a", [str(n) for n in range(100)])
    query()
    control.request(
        "STREAM.PURGE.KV_spark-jetstream-ledger", {"filter": f"$KV.*.query.*.{query.stream}"}
    )
    query.forget()
    forget_commit(query.checkpoint, 0)
    query()
    assert query.count() == 100


def test_a_checkpoint_rolled_back_is_fenced(query) -> None:
    query.add("a", ["1"])
    query()
    old = query.checkpoint.with_name("old")
    shutil.copytree(query.checkpoint, old)
    query.add("b", ["2"])
    query.add("c", ["3"])
    query()
    shutil.rmtree(query.checkpoint)
    old.rename(query.checkpoint)
    with pytest.raises(Exception, match="WRITER_FENCED"):
        query()
    assert query.count() == 3


def test_foreach_batch_with_a_transaction_is_written_once(spark, query, genuine, tmp_path) -> None:
    frame = spark.range(10).selectExpr(f"'{query.stream}.a' subject", "string(id) data")

    def write(_, batch_id: int) -> None:
        for _ in range(2):
            frame.write.format("jetstream").mode("append").options(
                servers=genuine.url, stream=query.stream, txnAppId="app", txnVersion=batch_id
            ).save()
            query.forget()

    query.add("a", ["x"])
    lines = spark.readStream.text(str(tmp_path / "in"))
    started = lines.writeStream.foreachBatch(write).trigger(availableNow=True)
    started.option("checkpointLocation", str(tmp_path / "other")).start().awaitTermination()
    assert query.count() == 10
