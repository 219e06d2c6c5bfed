"""What tasks have reported of micro-batches that are not done yet (`task_report.py`).

Reports come while a batch runs, and are of use when its progress says that it is done: only then
they are counted, so a batch that fails counts once, when it is run again. Rows that the first run
had stored are among the skipped rows or the duplicates of the second.

They are counted only if they are complete, by the rows that Spark itself has counted. They are not
where Spark stopped a task early, because nobody wanted the rest of its rows (`limit`), or where the
query or its DataFrame was made before the observation began; such a batch is an unreported one. A
write in `foreachBatch` has nothing to be compared with.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from jetstream_spark.observation.progress import QueryProgress, number, sources_of
from jetstream_spark.task_report import READ_BYTES, READ_ROWS, WRITTEN_ROWS, Report

UNREPORTED_BATCHES = "unreported_batches"
# So many batches are remembered whose progress does not come.
BATCHES_MAX = 1000

_log = logging.getLogger("jetstream_spark")


class TaskReports:
    """The reports of all queries; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By query id and batch id; None where a report said that nobody knows.
        self._held: dict[tuple[str, int], dict[str, int | None]] = {}
        self._runs: dict[str, str] = {}  # the newest of each query
        self._writing: set[str] = set()  # queries that are known to have a sink of ours

    def add(self, reports: list[Report]) -> None:
        """Keep the reports of a task, whatever they are: nothing may be raised where they come
        in."""
        try:
            with self._lock:
                for query, batch, counts in reports:
                    self._add(query, batch, counts)
        except Exception:
            _log.exception("a report of a task is not one")

    def _add(self, query: str, batch: int, counts: Mapping[str, int | None]) -> None:
        held = self._held.setdefault((query, batch), {})
        for name, count in counts.items():
            before = held.get(name, 0)
            held[name] = None if before is None or count is None else before + count
        if len(self._held) > BATCHES_MAX:
            del self._held[next(iter(self._held))]

    def begin(self, query: str, run: str) -> None:
        """A query begins to run: the batch that failed last time is run again from its start."""
        with self._lock:
            self._runs[query] = run
            self._forget(query)

    def end(self, query: str, run: str) -> None:
        """A run ended, maybe after the next one began."""
        with self._lock:
            if self._runs.get(query) == run:
                del self._runs[query]
                self._forget(query)

    def _forget(self, query: str) -> None:
        for key in [key for key in self._held if key[0] == query]:
            del self._held[key]
        self._writing.discard(query)

    def take(self, progress: QueryProgress) -> dict[str, int]:
        """What the tasks of a batch that is done have read and written, once.

        Empty when no batch was done, or when there is nothing of ours in the query.
        """
        query, batch = str(progress.get("id")), progress.get("batchId")
        if "addBatch" not in (progress.get("durationMs") or {}) or not isinstance(batch, int):
            return {}
        with self._lock:
            held = self._held.pop((query, batch), {})
            for key in [key for key in self._held if key[0] == query and key[1] < batch]:
                del self._held[key]
            if WRITTEN_ROWS in held and _rows_written(progress) is not None:
                self._writing.add(query)
            has_sink = query in self._writing
        sources = [source for source, _ in sources_of(progress)]
        rows = _rows_written(progress) if has_sink else None
        is_written = rows is None or held.get(WRITTEN_ROWS, 0) == rows
        is_read = held.pop(READ_ROWS, 0) == sum(number(one.get("numInputRows")) for one in sources)
        if not is_read:
            held.pop(READ_BYTES, None)
        if not is_written:
            held = {name: count for name, count in held.items() if name == READ_BYTES}
        if not sources and is_written and not held:
            return {}
        told = {name: count for name, count in held.items() if count is not None}
        return told | {UNREPORTED_BATCHES: int(not (is_read and is_written))}


def _rows_written(progress: QueryProgress) -> int | None:
    """How many rows went to the sink, as far as Spark says so."""
    sink = progress.get("sink")
    rows = sink.get("numOutputRows") if isinstance(sink, dict) else None
    return rows if isinstance(rows, int) and rows >= 0 else None
