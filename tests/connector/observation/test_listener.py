"""The listener takes notes, and nothing that it calls ends Spark's thread."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace as Event

from jetstream_spark.observation.listener import QueryListener, line_of
from jetstream_spark.observation.query_numbers import QueryNumbers
from jetstream_spark.observation.task_reports import TaskReports
from tests.connector.observation.test_query_numbers import ID, progress


def progressed(told: dict) -> Event:
    return Event(progress=Event(json=json.dumps(told)))


def test_the_life_of_a_query(caplog):
    numbers, reports, heard = QueryNumbers(), TaskReports(), []
    newest = {ID: progress(waitingSeconds=9)}
    listener = QueryListener(numbers, reports, heard.append, True, newest.get)
    with caplog.at_level(logging.INFO, "jetstream_spark"):
        listener.onQueryStarted(Event(id=ID, runId="r", name="orders"))
        listener.onQueryProgress(progressed(progress()))
        listener.onQueryProgress(progressed(progress() | {"sources": []}))
        listener.onQueryIdle(Event(id=ID))
        listener.onQueryIdle(Event(id="another"))
        listener.onQueryTerminated(Event(id=ID, runId="r", exception=None))
    assert [(one["batchId"], one["jetstream"]) for one in heard] == [(3, {})]
    [line] = [one.message for one in caplog.records]
    assert line == line_of(progress(), {})
    assert "query orders: " in line and "lag_sequences{A}=4" in line and "rows=7" in line
    assert {one.value for one in numbers.samples() if "waiting" in one.metric.name} == {9}
    assert {one.value for one in numbers.samples() if one.metric.name.endswith("rows")} == {7}
    states = {one.metric.name: one.value for one in numbers.samples()}
    assert (states["jetstream_spark_running"], states["jetstream_spark_failures"]) == (0, 0)


def test_what_it_calls_may_fail(caplog):
    def fail(_told: object) -> None:
        raise ValueError("mine")

    numbers = QueryNumbers()
    listener = QueryListener(numbers, TaskReports(), fail, False, {}.__getitem__)
    listener.onQueryProgress(progressed(progress()))
    listener.onQueryIdle(Event(id=ID))  # which Spark does not know any more
    assert numbers.samples()
    assert "what observe() was given to call failed" in caplog.text


def test_what_tasks_have_told_is_in_the_line_the_callback_and_the_numbers(caplog):
    numbers, reports, heard = QueryNumbers(), TaskReports(), []
    listener = QueryListener(numbers, reports, heard.append, True, {}.get)
    listener.onQueryStarted(Event(id=ID, runId="r", name="orders"))
    done = progress() | {"durationMs": {"addBatch": 1}}
    sink_only = done | {"sources": [], "batchId": 4}
    with caplog.at_level(logging.INFO, "jetstream_spark"):
        listener.onQueryProgress(progressed(sink_only))  # nothing says that it is ours
        reports.add([(ID, 3, {"read_rows": 7, "bytes": 70}), (ID, 4, {"skipped_rows": 2})])
        for told in (done, sink_only, sink_only | {"batchId": 5}):
            listener.onQueryProgress(progressed(told))
    assert [one["jetstream"] for one in heard] == [
        {"bytes": 70, "unreported_batches": 0},
        {"skipped_rows": 2, "unreported_batches": 0},
        {},
    ]
    first, second, _ = [one.message for one in caplog.records]
    assert " bytes=70 " in first and "skipped_rows=2" in second and "bytes" not in second
    found = {one.metric.name: one.value for one in numbers.samples()}
    assert (found["jetstream_spark_bytes"], found["jetstream_spark_skipped_rows"]) == (70, 2)
    reports.add([(ID, 6, {"read_rows": 7, "bytes": 70})])
    listener.onQueryStarted(Event(id=ID, runId="s", name="orders"))
    listener.onQueryProgress(progressed(done | {"batchId": 6}))
    assert heard[-1]["jetstream"] == {"unreported_batches": 1}
