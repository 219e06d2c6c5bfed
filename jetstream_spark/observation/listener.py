"""The listener that Spark notifies of its queries.

It runs in a thread of the driver that notifies all other listeners as well, so it only takes notes;
nothing that it is given to call may end that thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jetstream_spark.observation.progress import QueryProgress
from jetstream_spark.observation.query_numbers import QueryNumbers
from jetstream_spark.observation.task_reports import TaskReports

_log = logging.getLogger("jetstream_spark")

Callback = Callable[[Mapping[str, Any]], None]


class QueryListener(StreamingQueryListener):
    """Takes notes of queries.

    Args:
        numbers: where to.
        reports: what tasks have told.
        callback: called with each progress of a query that has a source of ours, or a sink that has
            reported; its key `jetstream` has what the tasks of the batch have told.
        is_logged: whether each is logged as well.
        newest_progress: the newest progress of a query, by its id; None if there is none. For an
            idle query Spark keeps one, and tells listeners only that the query is idle.
    """

    def __init__(
        self,
        numbers: QueryNumbers,
        reports: TaskReports,
        callback: Callback | None,
        is_logged: bool,
        newest_progress: Callable[[str], Mapping[str, Any] | None],
    ) -> None:
        self._newest_progress = newest_progress
        self._numbers = numbers
        self._reports = reports
        self._callback = callback
        self._is_logged = is_logged

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """A query began to run."""
        self._reports.begin(str(event.id), str(event.runId))
        self._numbers.note_start(str(event.id), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch is done, or an idle query says so now and then."""
        progress = json.loads(event.progress.json)
        told = self._reports.take(progress)
        if not self._numbers.note_progress(progress, told):
            return
        if self._is_logged:
            _log.info("%s", line_of(progress, told))
        progress["jetstream"] = told
        if self._callback is not None:
            try:
                self._callback(progress)
            except Exception:  # the user's; else Spark would tell no other listener of this event
                _log.exception("what observe() was given to call failed")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """A query has nothing to do: it has read all, or waits for its servers."""
        try:
            progress = self._newest_progress(str(event.id))
        except Exception:  # the query has just ended, or the session has
            return
        if progress is not None:
            self._numbers.note_progress(progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A query ended."""
        self._reports.end(str(event.id), str(event.runId))
        self._numbers.note_end(str(event.id), is_failure=event.exception is not None)


def line_of(progress: QueryProgress, told: Mapping[str, int]) -> str:
    """A progress as one line: which query, how much it read and wrote, how far it is behind."""
    numbers = QueryNumbers()
    numbers.note_progress(progress, told)
    words = [
        f"{sample.metric.name.removeprefix('jetstream_spark_')}"
        f"{'{' + sample.labels[1] + '}' if len(sample.labels) > 1 else ''}={sample.value:g}"
        for sample in numbers.samples()
    ]
    return f"query {progress.get('name') or progress.get('id')}: {' '.join(words)}"
