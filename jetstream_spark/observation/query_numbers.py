"""What queries report, kept as numbers that can be read at any time.

They come from Spark's progress (`StreamingQueryProgress`): a source of ours is recognised by its
offsets, and reports its lag and its losses in `latestOffset` (`source/stream_source.py`). Spark
has no place for the bytes that tasks read and write, and for what became of written rows; they
report these themselves (`task_reports.py`), and until one has, such a number is not there. The
numbers of the last hundred ended queries are kept, except `running`.

Counters count within this process: a query that is restarted counts what it passes over from 0
again, and its counter here goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jetstream_spark.observation.progress import QueryProgress, number, sources_of, streams_of
from jetstream_spark.observation.task_reports import UNREPORTED_BATCHES
from jetstream_spark.task_report import (
    DEAD_LETTERS,
    DUPLICATE_ROWS,
    READ_BYTES,
    SKIPPED_ROWS,
    WRITTEN_BYTES,
    WRITTEN_ROWS,
)

GAUGE, COUNTER = "gauge", "counter"
QUERY, STREAM = ("query",), ("query", "stream")


@dataclass(frozen=True, slots=True)
class Metric:
    """A kind of number.

    Attributes:
        name: without a suffix for counters.
        labels: the names of what tells numbers of this kind apart.
    """

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]


METRICS = {
    metric.name.removeprefix("jetstream_spark_"): metric
    for metric in (
        Metric("jetstream_spark_running", GAUGE, "1 while the query runs", QUERY),
        Metric("jetstream_spark_failures", COUNTER, "ends of the query by an error", QUERY),
        Metric("jetstream_spark_batch", GAUGE, "number of the newest micro-batch", QUERY),
        Metric("jetstream_spark_batch_seconds", GAUGE, "how long it took", QUERY),
        Metric("jetstream_spark_progress_timestamp_seconds", GAUGE, "when it began", QUERY),
        Metric("jetstream_spark_rows", COUNTER, "rows read from JetStream", QUERY),
        Metric("jetstream_spark_rows_per_second", GAUGE, "rows read a second", QUERY),
        Metric(f"jetstream_spark_{READ_BYTES}", COUNTER, "bytes of data of these rows", QUERY),
        Metric("jetstream_spark_next_sequence", GAUGE, "where the query stands", STREAM),
        Metric("jetstream_spark_lag_sequences", GAUGE, "sequences not read yet", STREAM),
        Metric("jetstream_spark_lag_bytes", GAUGE, "about how many bytes those have", QUERY),
        Metric(
            "jetstream_spark_skipped_sequences",
            COUNTER,
            "sequences passed over because they were gone (failOnDataLoss=false)",
            STREAM,
        ),
        Metric(
            "jetstream_spark_overtaken_sequences",
            COUNTER,
            "sequences removed while their batch ran; at most so many were missed",
            STREAM,
        ),
        Metric(
            "jetstream_spark_waiting_seconds",
            GAUGE,
            "how long the query has waited for its servers; 0 while they answer",
            QUERY,
        ),
        Metric(f"jetstream_spark_{WRITTEN_ROWS}", COUNTER, "rows written to JetStream", QUERY),
        Metric(
            f"jetstream_spark_{WRITTEN_BYTES}",
            COUNTER,
            "bytes of data of these rows, without the skipped ones",
            QUERY,
        ),
        Metric(
            f"jetstream_spark_{DUPLICATE_ROWS}",
            COUNTER,
            "written rows that the server had already, and did not store again",
            QUERY,
        ),
        Metric(
            f"jetstream_spark_{SKIPPED_ROWS}",
            COUNTER,
            "written rows that were not sent, because an earlier attempt had stored them",
            QUERY,
        ),
        Metric(
            f"jetstream_spark_{DEAD_LETTERS}",
            COUNTER,
            "written rows that the stream refused and the dead-letter subject took",
            QUERY,
        ),
        Metric(
            f"jetstream_spark_{UNREPORTED_BATCHES}",
            COUNTER,
            "micro-batches whose bytes or written rows are not known, and not counted",
            QUERY,
        ),
    )
}

Labels = tuple[str, ...]
# So many ended queries are remembered; each run of a query without a name has a new id.
ENDED_MAX = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """One number; `labels` are the values of those of its metric."""

    metric: Metric
    labels: Labels
    value: float


class QueryNumbers:
    """The numbers of all known queries; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, Labels], float] = {}
        self._names: dict[str, str] = {}
        self._counted: dict[tuple[str, str, Labels], float] = {}
        self._ended: dict[str, None] = {}
        self._newest: dict[str, str] = {}
        self._reporting: set[str] = set()  # ids of queries whose tasks have told of a batch

    def samples(self) -> list[Sample]:
        """Return all numbers, in the order of their metrics."""
        with self._lock:
            values = dict(self._values)
        order = list(METRICS)
        keys = sorted(values, key=lambda key: (order.index(key[0]), key[1]))
        return [Sample(METRICS[name], labels, values[name, labels]) for name, labels in keys]

    def note_start(self, query_id: str, name: str | None) -> None:
        """Note that a query began to run."""
        with self._lock:
            self._names[query_id] = name or query_id
            self._ended.pop(self._names[query_id], None)
            self._values["running", (self._names[query_id],)] = 1.0

    def note_end(self, query_id: str, *, is_failure: bool) -> None:
        """Note that a query ended."""
        with self._lock:
            query = (self._names.get(query_id, query_id),)
            self._values["running", query] = 0.0
            self._add("failures", query, is_failure)
            self._reporting.discard(query_id)
            # The next run counts what it passes over from 0.
            for counted in [one for one in self._counted if one[1] == query[0]]:
                del self._counted[counted]
            self._names.pop(query_id, None)
            self._ended.pop(query[0], None)
            self._ended[query[0]] = None
            if len(self._ended) > ENDED_MAX:
                self._forget(next(iter(self._ended)))

    def _forget(self, query: str) -> None:
        del self._ended[query]
        self._newest.pop(query, None)
        for key in [key for key in self._values if key[1][0] == query]:
            del self._values[key]

    def note_progress(self, progress: QueryProgress, told: Mapping[str, int] | None = None) -> bool:
        """Note a progress as Spark writes it in JSON; tell whether its query has a source or a sink
        of ours.

        The rows of a progress that is noted twice count once.

        Args:
            told: what tasks have told of its batch, once; a sink is only known by that.
        """
        sources = [*sources_of(progress)]
        query_id = str(progress.get("id"))
        with self._lock:
            if told:
                self._reporting.add(query_id)
            if not sources and query_id not in self._reporting:
                return False
            query = self._names.setdefault(query_id, str(progress.get("name") or query_id))
            self._values["running", (query,)] = 1.0
            self._note_batch(query, progress)
            for name, count in (told or {}).items():
                self._add(name, (query,), count)
            if sources:
                self._note_sources(query, progress, sources)
            for _, report in sources:
                self._note_report(query, report)
            for source, _ in sources:
                for stream, at in streams_of(source.get("endOffset")):
                    self._set("next_sequence", (query, stream), at.get("next"))
        return True

    def _note_batch(self, query: str, progress: QueryProgress) -> None:
        self._set("batch", (query,), progress.get("batchId"))
        milliseconds = (progress.get("durationMs") or {}).get("triggerExecution")
        if isinstance(milliseconds, int | float):
            self._set("batch_seconds", (query,), milliseconds / 1000)
        try:
            began = datetime.fromisoformat(str(progress.get("timestamp")))
            self._set("progress_timestamp_seconds", (query,), began.timestamp())
        except ValueError:
            pass

    def _note_sources(
        self,
        query: str,
        progress: QueryProgress,
        sources: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    ) -> None:
        moment = f"{progress.get('runId')} {progress.get('timestamp')}"
        rows = sum(number(source.get("numInputRows")) for source, _ in sources)
        if self._newest.get(query) == moment:
            rows = 0.0  # it was noted before
        self._newest[query] = moment
        rates = [number(source.get("processedRowsPerSecond")) for source, _ in sources]
        self._add("rows", (query,), rows)
        self._set("rows_per_second", (query,), sum(rates))
        behind = (number(report.get("estimatedTotalBytesBehindLatest")) for _, report in sources)
        self._set("lag_bytes", (query,), sum(behind))
        waiting = max(number(report.get("waitingSeconds")) for _, report in sources)
        self._set("waiting_seconds", (query,), waiting)

    def _note_report(self, query: str, report: Mapping[str, Any]) -> None:
        for stream, told in streams_of(report):
            labels = (query, stream)
            self._set("lag_sequences", labels, told.get("lag"))
            for name, word in (
                ("skipped_sequences", "skipped"),
                ("overtaken_sequences", "overtaken"),
            ):
                count = number(told.get(word))
                before = self._counted.get((name, query, labels), 0.0)
                more = count - before if count >= before else count
                self._counted[name, query, labels] = count
                self._add(name, labels, more)

    def _add(self, name: str, labels: Labels, more: float) -> None:
        self._values[name, labels] = self._values.get((name, labels), 0.0) + more

    def _set(self, name: str, labels: Labels, value: object) -> None:
        if isinstance(value, int | float):
            self._values[name, labels] = float(value)
