"""A streaming copy from R3 to R3 through Spark while all servers are restarted in turn."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.genuine, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
RUN = 5_000


@pytest.fixture
def cluster(start_genuine):
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module("tests.cluster.cluster").Cluster(start_genuine)


@pytest.fixture
def everything_in(cluster):
    work = importlib.import_module("tests.cluster.work")
    return lambda name: sorted(map(int, work.everything_in(cluster, name)))


def test_a_copy_under_rolling_restarts(spark, cluster, everything_in, tmp_path):
    for name in ("FROM", "TO"):
        cluster.create(name)
    cluster.publish("FROM", RUN)
    options = {"servers": cluster.url, "requestTimeout": "3s"}
    rows = spark.readStream.format("jetstream").options(**options, stream="FROM")
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2_000).load()
    writing = rows.select(f.lit("TO.a").alias("subject"), "data").writeStream.format("jetstream")
    writing = writing.options(**options, stream="TO")
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 300
        while cluster.info("TO")["state"]["messages"] < count and query.isActive:
            assert time.monotonic() < deadline, query.lastProgress
            time.sleep(0.2)

    try:
        wait_for(1)  # the first look of a query waits for no outage
        for at in range(3):
            cluster.restart(at)
            cluster.rest("FROM", "TO")
            cluster.publish("FROM", RUN)
        wait_for(4 * RUN)
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert everything_in("TO") == everything_in("FROM") == sorted(4 * list(range(RUN)))
