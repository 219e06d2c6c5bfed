"""What queries report, kept as numbers that can be read at any time.

They come from Spark's progress (`StreamingQueryProgress`): a source of ours is recognised by its
offsets, and reports its lag and its losses in `latestOffset` (`source/stream_source.py`). The
numbers of the last hundred ended queries are kept, except `running`.

Counters count within this process: a query that is restarted counts what it passes over from 0
again, and its counter here goes on.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
            key = ("failures", query)
            self._values[key] = self._values.get(key, 0.0) + is_failure
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

    def note_progress(self, progress: Mapping[str, Any]) -> bool:
        """Note a progress as Spark writes it in JSON; tell whether it has a source of ours.

        The rows of a progress that is noted twice count once.
        """
        sources = [*_sources(progress.get("sources"))]
        if not sources:
            return False
        query_id = str(progress.get("id"))
        with self._lock:
            query = self._names.setdefault(query_id, str(progress.get("name") or query_id))
            self._values["running", (query,)] = 1.0
            self._note_batch(query, progress, sources)
            for _, report in sources:
                self._note_report(query, report)
            for source, _ in sources:
                for stream, at in _streams(source.get("endOffset")):
                    self._set("next_sequence", (query, stream), at.get("next"))
        return True

    def _note_batch(
        self,
        query: str,
        progress: Mapping[str, Any],
        sources: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    ) -> None:
        self._set("batch", (query,), progress.get("batchId"))
        milliseconds = (progress.get("durationMs") or {}).get("triggerExecution")
        if isinstance(milliseconds, int | float):
            self._set("batch_seconds", (query,), milliseconds / 1000)
        try:
            began = datetime.fromisoformat(str(progress.get("timestamp")))
            self._set("progress_timestamp_seconds", (query,), began.timestamp())
        except ValueError:
            pass
        moment = f"{progress.get('runId')} {progress.get('timestamp')}"
        rows = sum(_number(source.get("numInputRows")) for source, _ in sources)
        if self._newest.get(query) == moment:
            rows = 0.0  # it was noted before
        self._newest[query] = moment
        rates = [_number(source.get("processedRowsPerSecond")) for source, _ in sources]
        self._set("rows", (query,), self._values.get(("rows", (query,)), 0.0) + rows)
        self._set("rows_per_second", (query,), sum(rates))
        behind = (_number(report.get("estimatedTotalBytesBehindLatest")) for _, report in sources)
        self._set("lag_bytes", (query,), sum(behind))
        waiting = max(_number(report.get("waitingSeconds")) for _, report in sources)
        self._set("waiting_seconds", (query,), waiting)

    def _note_report(self, query: str, report: Mapping[str, Any]) -> None:
        for stream, told in _streams(report):
            labels = (query, stream)
            self._set("lag_sequences", labels, told.get("lag"))
            for name, word in (
                ("skipped_sequences", "skipped"),
                ("overtaken_sequences", "overtaken"),
            ):
                count = _number(told.get(word))
                before = self._counted.get((name, query, labels), 0.0)
                more = count - before if count >= before else count
                self._counted[name, query, labels] = count
                self._set(name, labels, self._values.get((name, labels), 0.0) + more)

    def _set(self, name: str, labels: Labels, value: object) -> None:
        if isinstance(value, int | float):
            self._values[name, labels] = float(value)


def _sources(told: object) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The sources of ours in a progress, with what each reported of its streams."""
    for source in told if isinstance(told, list) else ():
        if isinstance(source, dict) and _is_ours(_parsed(source.get("endOffset"))):
            report = _parsed(source.get("latestOffset"))
            yield source, report if isinstance(report, dict) else {}


def _streams(told: object) -> list[tuple[str, Mapping[str, Any]]]:
    parsed = _parsed(told)
    streams = parsed.get("streams") if isinstance(parsed, dict) else None
    found = streams.items() if isinstance(streams, dict) else ()
    return [(str(name), entry) for name, entry in found if isinstance(entry, dict)]


def _is_ours(offset: object) -> bool:
    return isinstance(offset, dict) and "v" in offset and isinstance(offset.get("streams"), dict)


def _parsed(told: object) -> object:
    """An offset, which Spark writes as JSON or as text of JSON."""
    if isinstance(told, str):
        try:
            return json.loads(told)
        except (ValueError, RecursionError):
            return None
    return told


def _number(value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return 0.0
