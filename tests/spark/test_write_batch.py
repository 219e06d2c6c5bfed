"""Batch writes through Spark into the genuine server."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(300)]


@pytest.fixture
def write(spark, genuine, control, request):
    name = "".join(letter for letter in request.node.name.title() if letter.isalnum())[:60]
    control.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})

    def save(frame, mode="append", **options):
        writer = frame.write.format("jetstream").mode(mode).option("servers", genuine.url)
        writer.options(**{"stream": name, **options}).save()

    save.stream = name  # type: ignore[attr-defined]
    save.count = lambda: control.stream_state(name).messages  # type: ignore[attr-defined]
    return save


def numbers(spark, count, stream):
    subject = f.concat(f.lit(f"{stream}."), (f.col("id") % 7).cast("string"))
    data = f.to_json(f.struct("id"))
    return spark.range(count, numPartitions=3).select(subject.alias("subject"), data.alias("data"))


def test_every_row_is_written(spark, write, control) -> None:
    write(numbers(spark, 25_000, write.stream))
    assert write.count() == 25_000
    kept = control.request("STREAM.NAMES", {"subject": "$KV.spark-jetstream-ledger.>"})["streams"]
    own = {"subjects_filter": f"$KV.*.job.*.{write.stream}.>"}  # a job that failed leaves its own
    info = control.request(f"STREAM.INFO.{kept[0]}", own)
    assert not info["state"].get("subjects")  # a finished job leaves nothing in the ledger


def test_a_transaction_is_written_once(spark, write) -> None:
    frame = numbers(spark, 1_000, write.stream)
    for version in (1, 1, 0, 2):
        write(frame, txnAppId="nightly load", txnVersion=version)
    assert write.count() == 2_000


def test_a_retried_task_writes_nothing_twice(spark, write, tmp_path) -> None:
    marker = tmp_path / "failed"

    def fail_once(batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == 2 and not marker.exists():
                marker.touch()
                raise RuntimeError("this task fails once")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        frame = numbers(spark, 6_000, write.stream)
        write(frame.mapInArrow(fail_once, frame.schema))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert marker.exists()
    assert write.count() == 6_000


@pytest.mark.parametrize(
    ("mode", "select", "options", "reasons"),
    [
        ("overwrite", ["subject", "data"], {}, ["overwrite", "purge the stream"]),
        (
            "append",
            ["subject as topic", "1 as data"],
            {},
            ["'topic', which a message has no place for", "'data' is int", "neither a column"],
        ),
        ("append", ["subject", "data"], {"dedupe": "column"}, ["needs the column 'msgId'"]),
        (
            "append",
            ["subject", "data"],
            {"maxInFlight": "none", "dedup": "auto"},
            ["maxInFlight", "did you mean 'dedupe'"],
        ),
    ],
)
def test_mistakes_are_explained_all_at_once(spark, write, mode, select, options, reasons) -> None:
    frame = numbers(spark, 10, "X").selectExpr(*select)
    with pytest.raises(Exception) as caught:
        write(frame, mode, **options)
    assert all(reason in str(caught.value) for reason in reasons)
    assert write.count() == 0


def test_a_refused_row_names_subject_and_row(spark, write) -> None:
    with pytest.raises(Exception, match=r"row \d of the partition to 'Test.*its data is null"):
        write(
            spark.range(10).selectExpr(f"'{write.stream}.a' subject", "if(id = 3, null, 'x') data")
        )
