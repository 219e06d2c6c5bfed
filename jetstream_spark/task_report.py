"""What a task tells the driver about the micro-batch it ran for, beside its rows.

Spark gives Python sources and sinks no metrics, but its accumulators work in them as in any other
Python code: what is added in a task comes to the driver's Python together with the task's result,
from any machine, and only of the attempt whose result Spark takes. It is there before the job ends,
and so before the progress that tells of it (docs/reference/spark.md#progress).

Who wants to be told puts the numbers of accumulators into the session's configuration, from where
they reach the tasks of each query that is started afterwards. Without them nothing is counted for
it and nothing is sent.

A report is of one query and one batch, as the task itself knows them. A task that does not know
them, such as one of a batch write outside of a query, tells nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

# Of the session: numbers of accumulators, with commas.
OBSERVERS = "spark.datasource.jetstream.observers"

# Names of numbers. None in place of a number means that nobody knows it.
READ_ROWS, READ_BYTES = "read_rows", "bytes"
WRITTEN_ROWS, WRITTEN_BYTES = "written_rows", "written_bytes"
DUPLICATE_ROWS, SKIPPED_ROWS, DEAD_LETTERS = "duplicate_rows", "skipped_rows", "dead_letters"

Counts = Mapping[str, int | None]
# Query id, batch id, and what was counted: nothing but built-in types, which travel as pickles.
Report = tuple[str, int, dict[str, int | None]]

_log = logging.getLogger("jetstream_spark")


class Collected(AccumulatorParam[list[Report]]):
    """Reports on their way: those of one task, one after the other."""

    def zero(self, value: list[Report]) -> list[Report]:
        """Return no reports: what a task begins with."""
        return []

    def addInPlace(self, value1: list[Report], value2: list[Report]) -> list[Report]:  # noqa: N802
        """Add the second reports to the first ones, and return these."""
        value1.extend(value2)
        return value1


def is_observed() -> bool:
    """Whether anybody wants to be told by the task that this is."""
    task = TaskContext.get()
    return task is not None and bool(task.getLocalProperty(OBSERVERS))


def report(counts: Counts) -> None:
    """Tell those who observe the query of this task, if there are any.

    A task does not fail because of it.
    """
    try:
        _report(TaskContext.get(), counts)
    except Exception as error:
        _log.warning("what this task did is not reported to observe(): %r", error)


def _report(task: Any, counts: Counts) -> None:
    observers = task.getLocalProperty(OBSERVERS) if task is not None else None
    if not observers:
        return
    query = task.getLocalProperty("sql.streaming.queryId")
    batch = task.getLocalProperty("streaming.sql.batchId")
    if not query or batch is None:
        return
    from pyspark.accumulators import _deserialize_accumulator

    told: list[Report] = [(query, int(batch), dict(counts))]
    for number in observers.split(","):
        _deserialize_accumulator(int(number), [], Collected()).add(told)
