"""What is measured: one query of each kind, which Spark runs from beginning to end.

Each query's result is counted; what did less than it should is an error and no figure.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jetstream_spark.command.bench_streams import BenchError, BenchStreams
from jetstream_spark.errors import ConnectorError
from jetstream_spark.spark_api import HAS_STREAM_ARROW_WRITER

WRITE, READ, READ_STREAM, COPY = "batch write", "batch read", "streaming read", "copy"


@dataclass(frozen=True, slots=True)
class Load:
    """How much each query has to do.

    Attributes:
        rows: messages of one query.
        size: bytes of a message's data.
        partitions: tasks of one query.
    """

    rows: int
    size: int
    partitions: int


class BenchRows:
    """The queries, in a session.

    Args:
        connection: options of the connection, as a job has them.
    """

    def __init__(self, session: Any, streams: BenchStreams, connection: Mapping[str, str]) -> None:
        self._session = session
        self._streams = streams
        self._connection = dict(connection)

    def measure(self, load: Load) -> Iterator[tuple[str, float]]:
        """Run each query once; yield its name, and the seconds that it took.

        Raises:
            BenchError: a query did not read or write each row once.
        """
        queries: list[tuple[str, Callable[[Load], None]]] = [
            (WRITE, self._write),
            (READ, self._read),
            (READ_STREAM, self._read_stream),
        ]
        if HAS_STREAM_ARROW_WRITER:
            queries.append((COPY, self._copy))
        for stream in (self._streams.source, self._streams.target):
            self._streams.clear(stream)
        for name, query in queries:
            started = time.perf_counter()
            try:
                query(load)
            except ConnectorError:
                raise
            except Exception as error:  # whatever Spark raises; it has many errors of its own
                said = _said(error)
                raise BenchError(f"{name} failed: {said}", remedy_of(said)) from None
            seconds = time.perf_counter() - started
            if name in (WRITE, COPY):
                self._check_stored(name, load)
            yield name, seconds

    def _check_stored(self, name: str, load: Load) -> None:
        stream = self._streams.source if name == WRITE else self._streams.target
        _check(name, self._streams.messages(stream), load)

    def _options(self, stream: str) -> dict[str, str]:
        return {**self._connection, "stream": stream}

    def _reading(self, reader: Any, load: Load) -> Any:
        count = str(load.partitions)
        options = self._options(self._streams.source) | {"startingOffsets": "earliest"}
        options |= {"minPartitions": count, "maxPartitions": count}
        options |= {"maxOffsetsPerPartition": str(load.rows)}
        return reader.format("jetstream").options(**options).load()

    def _write(self, load: Load) -> None:
        made = self._session.range(0, load.rows, 1, load.partitions)
        subject = self._streams.subject(self._streams.source)
        rows = made.selectExpr(
            f"'{subject}' AS subject", f"CAST(repeat('x', {load.size}) AS BINARY) AS data"
        )
        options = self._options(self._streams.source)
        options["ledgerBucket"] = self._streams.ledger_bucket
        rows.write.format("jetstream").options(**options).mode("append").save()

    def _read(self, load: Load) -> None:
        rows = self._reading(self._session.read, load)
        # All of a row is read, as by a query that needs it, and nothing but a count comes back.
        found = rows.selectExpr("count(seq)", "sum(length(data))", "count(subject)").first()
        assert found is not None
        _check(READ, int(found[0]), load)

    def _read_stream(self, load: Load) -> None:
        rows = self._reading(self._session.readStream, load)
        _check(READ_STREAM, _run(rows.writeStream.format("noop")), load)

    def _copy(self, load: Load) -> None:
        rows = self._reading(self._session.readStream, load)
        subject = self._streams.subject(self._streams.target)
        options = self._options(self._streams.target)
        options["ledgerBucket"] = self._streams.ledger_bucket
        writer = rows.selectExpr(f"'{subject}' AS subject", "data").writeStream
        _run(writer.format("jetstream").options(**options))


def _run(writer: Any) -> int:
    """Run a streaming query over what is there; return how many rows it read."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return sum(progress.numInputRows for progress in query.recentProgress)


def _said(error: Exception) -> str:
    """What the connector says in an error of Spark's; else how that begins."""
    text = str(error)
    found = re.search(r"\w+Error: (\[[A-Z_]+\] .*)", text)
    return found[1] if found else " ".join(text.strip().splitlines()[:3])[:500]


def remedy_of(said: str) -> str:
    """What to do when Spark ends a query of the measurement with an error."""
    if "failed to connect back" in said:  # no setting of Spark changes its ten seconds
        return (
            "Spark gives a Python process ten seconds to start, and this machine took longer: try "
            "again when it has less to do."
        )
    return "`jetstream-spark doctor` looks at the rest."


def _check(name: str, found: int, load: Load) -> None:
    if found != load.rows:
        raise BenchError(
            f"{name}: {found:,} of {load.rows:,} rows are there.",
            "Nobody else may use the streams of a measurement; give it another --name.",
        )
