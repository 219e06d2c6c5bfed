"""The queries of the comparison, both sides in turn, in one Spark session.

Runs with the interpreter that has the PySpark of Kafka's connector, and is told by `__main__` where
everything is: one JSON object as the only argument. Each measurement is a line of JSON on stdout.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from benchmarks.kafka.processes import cpu_s_of_tree
from benchmarks.kafka.sides import JetStream, Kafka, Side
from benchmarks.process_usage import usage
from benchmarks.wire import LoadError

SIZES = {128: "128 B", 1024: "1 KiB"}
LATENCY_PAUSE_S = (0.15, 0.35)
LATENCY_WARM = 10

Query = Callable[[Side], dict[str, float]]


def session(connector: list[str]) -> Any:
    """The session that both sides share, with Spark's own settings but for what is not measured."""
    from pyspark.sql import SparkSession

    built = (
        SparkSession.builder.master("local[2]")
        .appName("comparison")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraClassPath", os.pathsep.join(connector))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("OFF")
    from jetstream_spark.data_source import JetStreamDataSource
    from jetstream_spark.kernels.wire_to_arrow import TWIN

    assert TWIN == "compiled", "the connector's kernels are not compiled"
    built.dataSource.register(JetStreamDataSource)
    return built


class Comparison:
    """Every row of the table, as queries over one side."""

    def __init__(self, spark: Any, sides: list[Side], pids: dict[str, int]) -> None:
        self._spark = spark
        self._sides = sides
        self._pids = pids
        self._made = 0

    def rows(self, rows_of_size: dict[int, int], messages: int) -> Iterator[tuple[str, Query]]:
        """Name and query of every row; what is read is stored first."""
        for size, rows in rows_of_size.items():
            self._made += 1
            word, source = SIZES[size], f"READ{self._made}"
            for side in self._sides:
                side.make(source)
                self._write(side, source, rows, size, None)
            for tasks in (None, 1, 8):
                name = f"batch write {word}, {_tasks_word(tasks)}"
                yield name, self._written(rows, size, tasks)
            for is_one in (False, True):
                ending = f"{word}, {_tasks_word(1 if is_one else None)}"
                yield f"batch read {ending}", self._read(source, rows, is_one)
                yield f"streaming read {ending}", self._streamed(source, rows, is_one)
                yield f"streaming copy {ending}", self._copied(source, rows, is_one)
            for side in self._sides:
                side.drop(source)
        yield "micro-batch latency", self._latency(messages)

    def measure(self, name: str, query: Query, side: Side) -> dict[str, Any]:
        """Run a query once; what it says of itself, and the processor time that it took."""
        pid = self._pids[side.name]
        before, server_before = cpu_s_of_tree(os.getpid()), usage(pid).cpu_s
        figures = query(side)
        server = usage(pid)
        return {
            "row": name,
            "side": side.name,
            **figures,
            "spark_cpu_s": cpu_s_of_tree(os.getpid()) - before,
            "server_cpu_s": server.cpu_s - server_before,
            "server_mib": server.resident_bytes / 2**20,
        }

    # --- batches ------------------------------------------------------------------------------

    def _written(self, rows: int, size: int, tasks: int | None) -> Query:
        def query(side: Side) -> dict[str, float]:
            with self._place(side) as place:
                return {"rate": self._write(side, place, rows, size, tasks)}

        return query

    def _write(self, side: Side, place: str, rows: int, size: int, tasks: int | None) -> float:
        made = self._spark.range(0, rows, 1, tasks)
        frame = made.selectExpr(f"CAST(repeat('x', {size}) AS BINARY) AS {side.payload}")
        started = time.perf_counter()
        frame.write.format(side.format).options(**side.sink(place)).mode("append").save()
        taken_s = time.perf_counter() - started
        _check(side, place, rows)
        return rows / taken_s

    def _read(self, place: str, rows: int, is_one_task: bool) -> Query:
        def query(side: Side) -> dict[str, float]:
            options = side.source(place, is_one_task=is_one_task)
            started = time.perf_counter()
            frame = self._spark.read.format(side.format).options(**options).load()
            frame.write.format("noop").mode("overwrite").save()
            return {"rate": rows / (time.perf_counter() - started)}

        return query

    # --- streams ------------------------------------------------------------------------------

    def _streamed(self, place: str, rows: int, is_one_task: bool) -> Query:
        def query(side: Side) -> dict[str, float]:
            frame = self._stream(side, place, is_one_task)
            return _run_to_the_end(frame.writeStream.format("noop"), rows)

        return query

    def _copied(self, source: str, rows: int, is_one_task: bool) -> Query:
        def query(side: Side) -> dict[str, float]:
            with self._place(side) as place:
                frame = self._stream(side, source, is_one_task).select(side.payload)
                sink = frame.writeStream.format(side.format).options(**side.sink(place))
                figures = _run_to_the_end(sink, rows)
                _check(side, place, rows)
                return figures

        return query

    def _stream(self, side: Side, place: str, is_one_task: bool) -> Any:
        options = side.source(place, is_one_task=is_one_task)
        return self._spark.readStream.format(side.format).options(**options).load()

    # --- latency ------------------------------------------------------------------------------

    def _latency(self, messages: int) -> Query:
        """From when a message was stored to the end of the micro-batch that had it."""

        def query(side: Side) -> dict[str, float]:
            with self._place(side) as place, tempfile.TemporaryDirectory() as folder:
                frame = self._stream(side, place, is_one_task=False)
                writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
                running = writer.start()
                stored_at = []
                try:
                    time.sleep(3.0)
                    for _ in range(LATENCY_WARM + messages):
                        time.sleep(random.uniform(*LATENCY_PAUSE_S))
                        side.publish(place, b"x" * 128)
                        stored_at.append(time.time())
                    time.sleep(3.0)
                finally:
                    running.stop()
                waits = list(_waits_ms(side, place, stored_at, running.recentProgress))
            waits = sorted(waits[LATENCY_WARM:])
            if len(waits) != messages:
                raise LoadError(f"{len(waits)} of {messages} messages arrived")
            p99 = waits[min(len(waits) - 1, int(0.99 * len(waits)))]
            return {"p50_ms": statistics.median(waits), "p99_ms": p99}

        return query

    def _place(self, side: Side) -> _Place:
        # A name is never used again: a broker deletes topics in the background.
        self._made += 1
        return _Place(side, f"PLACE{self._made}")


class _Place:
    """A stream or topic for one query."""

    def __init__(self, side: Side, name: str) -> None:
        self._side = side
        self._name = name

    def __enter__(self) -> str:
        self._side.make(self._name)
        return self._name

    def __exit__(self, *_: object) -> None:
        self._side.drop(self._name)


def _tasks_word(tasks: int | None) -> str:
    return "default" if tasks is None else f"{tasks} task{'s' * (tasks > 1)}"


def _check(side: Side, place: str, rows: int) -> None:
    if (stored := side.count(place)) != rows:
        raise LoadError(f"{rows} rows were written, {side.name} has {stored}")


def _run_to_the_end(writer: Any, rows: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        started = time.perf_counter()
        running = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        running.awaitTermination()
        taken_s = time.perf_counter() - started
        progress = running.recentProgress
    if (read := sum(one.numInputRows for one in progress)) != rows:
        raise LoadError(f"{read} of {rows} rows were read")
    batches_s = sum(one.durationMs.get("addBatch", 0) for one in progress) / 1000
    return {
        "rate": rows / taken_s,
        "add_batch_rate": rows / batches_s,
        "fixed_s": taken_s - batches_s,
    }


def _waits_ms(
    side: Side, place: str, stored_at: list[float], progress: list[Any]
) -> Iterator[float]:
    """How long each message waited, by the progress of the query."""
    at = 0
    for one in progress:
        [source] = one.sources
        end = source.endOffset
        reached = side.position(json.loads(end) if isinstance(end, str) else end, place)
        started = datetime.fromisoformat(one.timestamp.replace("Z", "+00:00")).timestamp()
        ended = started + one.durationMs["triggerExecution"] / 1000
        while at < min(reached, len(stored_at)):
            yield 1000 * (ended - stored_at[at])
            at += 1


def main(argument: str) -> None:
    """Warm up, then run every row that is asked for, in rounds."""
    asked = json.loads(argument)
    spark = session(asked["connector"])
    sides: list[Side] = [JetStream(asked["ports"]["ours"])]
    if "Kafka" in asked["ports"]:
        sides.append(Kafka(spark, asked["ports"]["Kafka"]))
    comparison = Comparison(spark, sides, asked["pids"])
    rows_of_size = {int(size): rows for size, rows in asked["rows"].items()}
    warm_up = {size: min(rows, asked["warm_up_rows"]) for size, rows in rows_of_size.items()}

    def is_wanted(name: str) -> bool:
        return not asked["wanted"] or any(word in name for word in asked["wanted"])

    for name, query in comparison.rows(warm_up, messages=5):
        for side in sides if is_wanted(name) else ():
            query(side)
    for name, query in comparison.rows(rows_of_size, asked["messages"]):
        for number in range(asked["rounds"] if is_wanted(name) else 0):
            for side in sides if number % 2 == 0 else sides[::-1]:
                print(json.dumps(comparison.measure(name, query, side)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
