"""The Spark connector: batch and streaming reads to `noop`, batch and streaming writes.

One Spark session serves all rows of a run, of every size and against both servers, as it would in
production; each kind of query runs once unmeasured, so that what the JVM compiles and the workers
import is not counted. Starting a session for each row would measure the first seconds of a JVM. The
JVM goes on compiling, so later rows are a little faster than earlier ones: the servers take turns
within a round, ratios are taken within a round, and the first round is as cold for both.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.loads.publish import fill, publish
from benchmarks.servers import ROOT, Target
from benchmarks.spark_environment import as_at_users
from benchmarks.wire import STREAM, LoadError, Wire

SIZES = (128, 1024, 10240)
PARTITIONS = (1, 2, 4)
_CORES = min(4, os.cpu_count() or 2)
_warm: set[str] = set()


@cache
def spark_session() -> Any:
    """Return the session of this process, started when first asked for."""
    from pyspark.sql import SparkSession

    from benchmarks.loads.ceilings import ConstantArrow, CountOnly, RecvOnly

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [str(ROOT), str(ROOT / "server"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with as_at_users():
        session = (
            SparkSession.builder.master(f"local[{_CORES}]")
            .appName("jetstream-benchmarks")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "2g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .config(
                "spark.sql.warehouse.dir",
                str(Path(tempfile.gettempdir()) / "jetstream-bench-warehouse"),
            )
            .getOrCreate()
        )
    # What goes wrong is in the error that a load raises; Spark would say it again, many times.
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(ConstantArrow)
    session.dataSource.register(RecvOnly)
    session.dataSource.register(CountOnly)
    return session


def _row_count(settings: Settings, size: int) -> int:
    """As many rows as asked for, fewer if they are long."""
    return min(settings.spark_rows, max(1_000, settings.spark_bytes_max // size))


def prepare(target: Target, settings: Settings, *, size: int) -> LoadResult:
    """Make and fill the stream, and start Spark."""
    spark_session()
    count = _row_count(settings, size)
    with Wire(target.port) as control:
        control.subscribe_inbox()
        control.create_stream()
    fill(target, count, size)
    return LoadResult({}, count)


def _timed(name: str, rows: int, query: Callable[[], None]) -> LoadResult:
    if name not in _warm:
        query()
        _warm.add(name)
    started = time.perf_counter()
    query()
    return LoadResult({"rate": rows / (time.perf_counter() - started)}, rows)


def _options(target: Target, partitions: int, rows: int) -> dict[str, str]:
    return {
        "servers": f"nats://127.0.0.1:{target.port}",
        "stream": STREAM,
        "startingOffsets": "earliest",
        "minPartitions": str(partitions),
        "maxPartitions": str(partitions),
        "maxOffsetsPerPartition": str(rows),
    }


def read_batch(target: Target, settings: Settings, *, size: int, partitions: int) -> LoadResult:
    """Read the whole stream once."""
    rows = _row_count(settings, size)
    reader = spark_session().read.format("jetstream").options(**_options(target, partitions, rows))

    def query() -> None:
        frame = reader.load()
        frame.write.format("noop").mode("overwrite").save()

    return _timed("read batch", rows, query)


def read_stream(target: Target, settings: Settings, *, size: int, partitions: int) -> LoadResult:
    """Read the whole stream in a streaming query that ends when it is there."""
    rows = _row_count(settings, size)
    reader = spark_session().readStream.format("jetstream")
    frame = reader.options(**_options(target, partitions, rows)).load()

    def query() -> None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
            running = writer.trigger(availableNow=True).start()
            running.awaitTermination()
            if (read := sum(p.numInputRows for p in running.recentProgress)) != rows:
                raise LoadError(f"{read} of {rows} rows were read")

    return _timed("read stream", rows, query)


def read_ceiling(
    target: Target, settings: Settings, *, name: str, size: int, partitions: int
) -> LoadResult:
    """Read with a source that does less (`ceilings.py`)."""
    rows = _row_count(settings, size)
    reader = spark_session().read.format(name)
    options = {"rows": rows, "size": size, "partitions": partitions, "port": target.port}
    frame = reader.options(**{key: str(value) for key, value in options.items()}).load()
    return _timed(name, rows, frame.write.format("noop").mode("overwrite").save)


def write_batch(target: Target, settings: Settings, *, size: int, partitions: int) -> LoadResult:
    """Write rows that Spark makes up."""
    rows = _row_count(settings, size)
    frame = _made_up(rows, size, partitions)
    return _into_sink(target, "write batch", rows, lambda: _sink(frame.write, target).save())


def write_ceiling(target: Target, settings: Settings, *, size: int, partitions: int) -> LoadResult:
    """Write the same rows into a sink that only counts them (`ceilings.py`)."""
    rows = _row_count(settings, size)
    writer = _made_up(rows, size, partitions).write.format("count_only").mode("append")
    return _timed("count_only", rows, writer.option("rows", rows).save)


def _made_up(rows: int, size: int, partitions: int) -> Any:
    made = spark_session().range(0, rows, 1, partitions)
    return made.selectExpr("'SINK.a' AS subject", f"CAST(repeat('x', {size}) AS BINARY) AS data")


def write_stream(target: Target, settings: Settings, *, size: int, partitions: int) -> LoadResult:
    """Write the rows of some Parquet files in one micro-batch."""
    rows = _row_count(settings, size)
    session = spark_session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        files = str(Path(folder) / "rows")
        _made_up(rows, size, partitions).write.parquet(files)
        frame = session.readStream.schema("subject STRING, data BINARY").parquet(files)

        def query() -> None:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
                writer = _sink(frame.writeStream, target).option("checkpointLocation", checkpoint)
                writer.trigger(availableNow=True).start().awaitTermination()

        return _into_sink(target, "write stream", rows, query)


def _sink(writer: Any, target: Target) -> Any:
    writer = writer.format("jetstream").option("servers", f"nats://127.0.0.1:{target.port}")
    return (
        writer.option("stream", "SINK").mode("append")
        if hasattr(writer, "mode")
        else (writer.option("stream", "SINK"))
    )


def _into_sink(target: Target, name: str, rows: int, query: Callable[[], None]) -> LoadResult:
    """Measure a write into a stream of its own, and count what is there then."""
    with Wire(target.port) as control:
        control.subscribe_inbox()
        body = {"name": "SINK", "subjects": ["SINK.>"], "storage": "file"}
        runs = 1 if name in _warm else 2
        control.api("STREAM.CREATE.SINK", body)
        result = _timed(name, rows, query)
        stored = control.api("STREAM.INFO.SINK")["state"]["messages"]
        control.api("STREAM.DELETE.SINK")
    if stored != runs * rows:
        raise LoadError(f"{runs * rows} rows were written, {stored} are stored")
    return result


def publish_without_spark(target: Target, settings: Settings, *, size: int) -> LoadResult:
    """What the sink is measured against: the plain load, five thousand messages in flight."""
    with Wire(target.port) as control:
        control.subscribe_inbox()
        control.delete_stream()
        result = publish(target, settings, size=size, window=5_000)
    prepare(target, settings, size=size)
    return result


def benches() -> list[Bench]:
    """Row 9."""
    found = []
    for size in SIZES:
        cases = []
        for partitions in PARTITIONS:
            for label, load in (
                ("read batch", read_batch),
                ("read stream", read_stream),
                ("write batch", write_batch),
                ("write stream", write_stream),
                ("ceiling: constant Arrow", partial(read_ceiling, name="constant_arrow")),
                ("ceiling: recv only", partial(read_ceiling, name="recv_only")),
                ("ceiling: count only", write_ceiling),
            ):
                ending = "partition" if partitions == 1 else "partitions"
                cases.append(
                    Case(
                        f"spark {label} {size} B, {partitions} {ending}",
                        partial(load, size=size, partitions=partitions),
                        has_null=False,
                    )
                )
        cases.append(
            Case(
                f"spark ceiling: publish without Spark {size} B",
                partial(publish_without_spark, size=size),
                has_null=False,
            )
        )
        found.append(
            Bench(f"spark-{size}", tuple(cases), partial(prepare, size=size), needs_spark=True)
        )
    return found
