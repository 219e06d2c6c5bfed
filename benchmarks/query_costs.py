"""What the connector's queries cost besides their rows: `python -m benchmarks.query_costs`.

idle        a streaming query with nothing to read: processor time and requests of the source
latency     a micro-batch of one row, beside one of a Python source that asks nobody
ids         a write with message ids and a ledger, beside one without
memory      a worker that reads or writes rows of 10 KiB, at its peak
fixed       many rows by a batch and by addBatch, beside a source that makes up Arrow batches
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from benchmarks.kafka.processes import cpu_s_of_tree, descendants_of
from benchmarks.kafka.sides import JetStream
from benchmarks.loads.ceilings import SCHEMA, ConstantReader
from benchmarks.loads.connector import spark_session
from benchmarks.process_usage import usage
from benchmarks.servers import OURS, Target, running
from benchmarks.wire import LoadError, Wire

IDLE_S = 20.0
PAUSE_S = 0.3
MESSAGES = 60
WARM_UP_MESSAGES = 10
IDS_ROWS, IDS_ROUNDS = 1_000_000, 5
LONG_ROW, LONG_ROWS = 10_240, 40_000
FIXED_ROWS, FIXED_ROUNDS = 10_000_000, 3
_SOURCE = "python_streaming_source_runner"
_WORKER = "pyspark.worker"


class _OneRowReader(DataSourceStreamReader):
    """A row whenever `PAUSE_S` have passed."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": int(time.time() / PAUSE_S)}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, int]:  # noqa: N802
        return self.initialOffset()

    def partitions(self, start: object, end: object) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"data": pa.array([b"x" * 128])})

    def commit(self, end: object) -> None:
        pass

    def stop(self) -> None:
        pass


class _ConstantStreamReader(DataSourceStreamReader):
    """The rows of `constant_arrow`, in one micro-batch."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, int]:  # noqa: N802
        return {"at": int(self._options["rows"])}

    def partitions(self, start: object, end: object) -> list[InputPartition]:
        return ConstantReader(self._options).partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return ConstantReader(self._options).read(partition)

    def commit(self, end: object) -> None:
        pass

    def stop(self) -> None:
        pass


class ConstantStream(DataSource):
    """`constant_arrow` as a streaming source."""

    @classmethod
    def name(cls) -> str:
        return "constant_stream"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return _ConstantStreamReader(dict(self.options))


class OneRow(DataSource):
    """A streaming source that asks nobody."""

    @classmethod
    def name(cls) -> str:
        return "one_row"

    def schema(self) -> str:
        return "data BINARY"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return _OneRowReader()


@contextlib.contextmanager
def started(frame: Any, trigger: dict[str, Any] | None = None) -> Iterator[Any]:
    """Run a streaming query to `noop`."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = (writer.trigger(**trigger) if trigger else writer).start()
        try:
            yield query
        finally:
            query.stop()


def stream_of(side: JetStream, place: str) -> Any:
    """A streaming read of everything, with the options' defaults."""
    options = side.source(place, is_one_task=False)
    return spark_session().readStream.format("jetstream").options(**options).load()


def idle(target: Target) -> Iterator[str]:
    """Processor time of the source's process and requests to the server, by the second."""
    side = JetStream(target.port)
    side.make("IDLE")
    side.publish("IDLE.a", b"x")
    with started(stream_of(side, "IDLE")) as query, Wire(target.port) as ears:
        while not any(one.numInputRows for one in query.recentProgress):
            time.sleep(0.1)
        time.sleep(5.0)
        [source] = [one for one in descendants_of(os.getpid()) if _SOURCE in one.command]
        ears.subscribe(b"$JS.API.>", 7)
        ears.ping()
        before, server, everything = (
            usage(source.pid),
            usage(target.pid),
            cpu_s_of_tree(os.getpid()),
        )
        requests = _requests_within(ears, IDLE_S)
        yield (
            f"the source's process {(usage(source.pid).cpu_s - before.cpu_s) / IDLE_S:.1%} of a "
            f"core, {requests / IDLE_S:.1f} requests/s, the server "
            f"{(usage(target.pid).cpu_s - server.cpu_s) / IDLE_S:.1%}, with Spark's JVM "
            f"{(cpu_s_of_tree(os.getpid()) - everything) / IDLE_S:.1%}"
        )


def _requests_within(ears: Wire, seconds: float) -> int:
    count, ends = 0, time.monotonic() + seconds
    ears.sock.settimeout(0.2)
    while time.monotonic() < ends:
        with contextlib.suppress(TimeoutError):
            count += ears.sock.recv(1 << 20).count(b"MSG $JS.API.")
    return count


def latency(target: Target) -> Iterator[str]:
    """How long a micro-batch with one row takes, and one of a source that asks nobody."""
    side = JetStream(target.port)
    side.make("LATE")
    session = spark_session()
    session.dataSource.register(OneRow)
    medians = []
    for frame, publishes in (
        (session.readStream.format("one_row").load(), False),
        (stream_of(side, "LATE"), True),
    ):
        published_at = []
        with started(frame) as query:
            for _ in range(WARM_UP_MESSAGES + MESSAGES):
                time.sleep(PAUSE_S)
                if publishes:
                    published_at.append(time.time())
                    side.publish("LATE.a", b"x" * 128)
            time.sleep(1.0)
            batches = [p for p in query.recentProgress if p.numInputRows]
        taken = [p.durationMs for p in batches[WARM_UP_MESSAGES:]]
        medians.append(statistics.median(one["triggerExecution"] for one in taken))
        parts = {
            key: statistics.median(one.get(key, 0) for one in taken) for key in sorted(taken[-1])
        }
        yield ", ".join(f"{key} {value:.0f} ms" for key, value in parts.items())
    yield f"median {medians[1]:.0f} ms, a source that asks nobody {medians[0]:.0f} ms"
    waited = statistics.median(_waited_s(published_at, batches)[WARM_UP_MESSAGES:])
    yield f"from before a message is published until its micro-batch is over {waited * 1000:.0f} ms"


def _waited_s(published_at: Sequence[float], batches: Sequence[Any]) -> list[float]:
    """For each micro-batch, how long its newest row took to get through it."""
    waited, rows = [], 0
    for one in batches:
        rows += one.numInputRows
        began_at = datetime.fromisoformat(one.timestamp.replace("Z", "+00:00")).timestamp()
        ended_at = began_at + one.durationMs["triggerExecution"] / 1000
        waited.append(ended_at - published_at[rows - 1])
    return waited


def ids(target: Target) -> Iterator[str]:
    """The rate of writes with message ids and the ledger, divided by that of writes without."""
    side = JetStream(target.port)
    ratios = []
    for number in range(IDS_ROUNDS + 1):
        rates = []
        for kind, options in (("ids", {}), ("none", {"dedupe": "none"})):
            place = f"IDS{number}{kind}"
            side.make(place)
            rates.append(_written(side, place, IDS_ROWS, 128, options))
            side.drop(place)
        if number:
            ratios.append(rates[0] / rates[1])
            yield f"with ids and ledger {rates[0]:,.0f}/s, without {rates[1]:,.0f}/s"
    yield f"median ratio {statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]"


def _written(
    side: JetStream, place: str, rows: int, size: int, options: dict[str, str], tasks: int = 2
) -> float:
    made = spark_session().range(0, rows, 1, tasks)
    frame = made.selectExpr(f"CAST(repeat('x', {size}) AS BINARY) AS data")
    writer = frame.write.format("jetstream").options(**side.sink(place), **options)
    started_at = time.perf_counter()
    writer.mode("append").save()
    taken_s = time.perf_counter() - started_at
    if side.count(place) != rows:
        raise LoadError(f"{rows} rows were written, {side.count(place)} are stored")
    return rows / taken_s


def memory(target: Target) -> Iterator[str]:
    """The resident memory of the largest worker at its peak, in tasks of rows of 10 KiB."""
    side = JetStream(target.port)
    side.make("LONG")
    side.make("WARM")
    _written(side, "WARM", 1_000, 128, {})
    idle_mib = max(_workers_mib())
    with _watched() as writing:
        _written(side, "LONG", LONG_ROWS, LONG_ROW, {})
    with _watched() as reading:
        frame = (
            spark_session()
            .read.format("jetstream")
            .options(**side.source("LONG", is_one_task=False), minPartitions="2")
        )
        frame.load().write.format("noop").mode("overwrite").save()
    yield (
        f"a worker has {idle_mib:.0f} MiB after a few short rows, {max(writing):.0f} MiB while it "
        f"writes {LONG_ROWS:,} rows of 10 KiB with another one, {max(reading):.0f} MiB while it "
        f"reads them"
    )


@contextlib.contextmanager
def _watched() -> Iterator[list[float]]:
    peaks: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            peaks.append(max(_workers_mib(), default=0.0))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        is_over.set()
        thread.join()


def _workers_mib() -> list[float]:
    found = []
    for one in descendants_of(os.getpid()):
        if one.command.rstrip().endswith(_WORKER):
            with contextlib.suppress(OSError):
                found.append(usage(one.pid).resident_bytes / 2**20)
    return found


def fixed(target: Target, rows: int = FIXED_ROWS) -> Iterator[str]:
    """Many rows beside a source that makes up its Arrow batches: by batch, and by `addBatch`."""
    session = spark_session()
    session.dataSource.register(ConstantStream)
    side = JetStream(target.port)
    side.make("MANY")
    _written(side, "MANY", rows, 128, {})
    options = side.source("MANY", is_one_task=False)
    made_up = {"rows": str(rows), "size": "128", "partitions": str(max(2, rows // 1_000_000))}
    read = session.read.format("jetstream").options(**options)
    constant = session.read.format("constant_arrow").options(**made_up)
    streams = {
        "ours": stream_of(side, "MANY"),
        "constant": session.readStream.format("constant_stream").options(**made_up).load(),
    }
    found: dict[str, list[float]] = {}

    def note(name: str, figure: float) -> None:
        found.setdefault(name, []).append(figure)

    for _ in range(1 + FIXED_ROUNDS):
        for name, reader in (("ours", read), ("constant", constant)):
            spark, server = cpu_s_of_tree(os.getpid()), usage(target.pid).cpu_s
            started_at = time.perf_counter()
            reader.load().write.format("noop").mode("overwrite").save()
            note(f"batch read, {name}, rows/s", rows / (time.perf_counter() - started_at))
            spark_s = cpu_s_of_tree(os.getpid()) - spark
            note(f"batch read, {name}, processor time of Spark, us a row", spark_s / rows * 1e6)
            server_s = usage(target.pid).cpu_s - server
            note(f"batch read, {name}, of the server, us a row", server_s / rows * 1e6)
        for name, frame in streams.items():
            rate, rest_s = _streamed(frame, rows)
            note(f"addBatch, {name}, rows/s", rate)
            note(f"besides addBatch, {name}, s", rest_s)
    for name, (_, *figures) in found.items():  # the first round warms up
        low, high = min(figures), max(figures)
        yield f"{name}: {statistics.median(figures):,.2f} [{low:,.2f} .. {high:,.2f}]"


def _streamed(frame: Any, rows: int) -> tuple[float, float]:
    started_at = time.perf_counter()
    with started(frame, {"availableNow": True}) as query:
        query.awaitTermination()
        taken_s = time.perf_counter() - started_at
        if (read := sum(p.numInputRows for p in query.recentProgress)) != rows:
            raise LoadError(f"{read} of {rows} rows were read")
        batches_s = sum(p.durationMs.get("addBatch", 0) for p in query.recentProgress) / 1000
    return rows / batches_s, taken_s - batches_s


COSTS: dict[str, Callable[[Target], Iterator[str]]] = {
    "idle": idle,
    "latency": latency,
    "ids": ids,
    "memory": memory,
    "fixed": fixed,
}


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for, each beside a server of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query_costs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COSTS)}; or all")
    parser.add_argument(
        "--rows", type=int, default=FIXED_ROWS, help="of fixed (default 10 million)"
    )
    options = parser.parse_args(arguments)
    costs = COSTS | {"fixed": partial(fixed, rows=options.rows)}
    for name in options.names or list(costs):
        with running(OURS) as target:
            for line in costs[name](target):
                print(f"{name}: {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
