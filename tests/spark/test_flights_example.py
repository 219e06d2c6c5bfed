"""The arithmetic of the flights example finds what it is there to find."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("_flights")


@pytest.fixture
def flights(spark):
    at = f.timestamp_seconds(1_356_998_400 + f.col("id") * 900)
    carrier = f.concat(f.lit("C"), (f.col("id") % 3).cast("string"))
    return spark.range(200).select(
        at.alias("time_hour"), carrier.alias("carrier"), f.expr("int(id % 50)").alias("dep_delay")
    )


def test_a_right_answer_is_accepted(example, flights) -> None:
    example.check(flights, 201, 201, example.delays_per_carrier_and_hour(flights))


@pytest.mark.parametrize(
    ("read", "wrong", "reason"),
    [
        (200, lambda delays: delays, "201 messages were published and 200 read back"),
        (201, lambda delays: delays.where("carrier <> 'C0'"), "200 flights were read and 133"),
        (201, lambda delays: delays.unionAll(delays.limit(1)), "200 flights were read and 20"),
        (201, lambda delays: delays.replace("C0", "C9"), "rows of the delays differ"),
        (201, lambda delays: delays.withColumn("delay", f.col("delay") + 1), "delays differ"),
    ],
)
def test_a_wrong_answer_is_not(example, flights, read, wrong, reason) -> None:
    delays = wrong(example.delays_per_carrier_and_hour(flights))
    with pytest.raises(Exception, match=reason):
        example.check(flights, 201, read, delays)
