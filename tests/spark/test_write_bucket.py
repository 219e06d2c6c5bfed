"""Writes into key-value buckets through Spark, on both servers, and what a read finds."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(300)]


def test_rows_become_keys_and_are_read_back(spark, jetstream) -> None:
    jetstream.create_stream(
        "KV_written", subjects=["$KV.written.>"], max_msgs_per_subject=1, allow_rollup_hdrs=True
    )
    options = {"servers": jetstream.url, "bucket": "written"}

    def write(rows: list, version: int) -> None:
        frame = spark.createDataFrame(rows, "key string, value string, operation string").coalesce(
            1
        )
        named = options | {"txnAppId": "t", "txnVersion": str(version)}
        frame.write.format("jetstream").mode("append").options(**named).save()

    write([(f"k.{n}", str(n), None) for n in range(100)], 1)
    later = [("k.1", "new", "put"), ("k.2", None, "delete"), ("k.3", None, "purge")]
    for _ in range(2):
        write([*later, ("made", "x", "create")], 2)
    found = spark.read.format("jetstream").options(**options).load()
    rows = {row.key: bytes(row.value).decode() for row in found.collect()}
    assert len(rows) == 99
    assert (rows["k.1"], rows["made"], rows["k.4"]) == ("new", "x", "4")
    assert not {"k.2", "k.3"} & set(rows)
    assert jetstream.control.stream_state("KV_written").next == 105
    with pytest.raises(Exception, match="wrong last sequence"):
        write([("made", "y", "create")], 3)
