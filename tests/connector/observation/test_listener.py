"""The listener takes notes, and nothing that it calls ends Spark's thread."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace as Event

from jetstream_spark.observation.listener import QueryListener, line_of
from jetstream_spark.observation.query_numbers import QueryNumbers
from tests.connector.observation.test_query_numbers import ID, progress


def progressed(told: dict) -> Event:
    return Event(progress=Event(json=json.dumps(told)))


def test_the_life_of_a_query(caplog):
    numbers, heard = QueryNumbers(), []
    newest = {ID: progress(waitingSeconds=9)}
    listener = QueryListener(numbers, heard.append, True, newest.get)
    with caplog.at_level(logging.INFO, "jetstream_spark"):
        listener.onQueryStarted(Event(id=ID, name="orders"))
        listener.onQueryProgress(progressed(progress()))
        listener.onQueryProgress(progressed(progress() | {"sources": []}))
        listener.onQueryIdle(Event(id=ID))
        listener.onQueryIdle(Event(id="another"))
        listener.onQueryTerminated(Event(id=ID, exception=None))
    assert [one["batchId"] for one in heard] == [3]
    [line] = [one.message for one in caplog.records]
    assert line == line_of(progress())
    assert "query orders: " in line and "lag_sequences{A}=4" in line and "rows=7" in line
    assert {one.value for one in numbers.samples() if "waiting" in one.metric.name} == {9}
    assert {one.value for one in numbers.samples() if one.metric.name.endswith("rows")} == {7}
    states = {one.metric.name: one.value for one in numbers.samples()}
    assert (states["jetstream_spark_running"], states["jetstream_spark_failures"]) == (0, 0)


def test_what_it_calls_may_fail(caplog):
    def fail(_told: object) -> None:
        raise ValueError("mine")

    numbers = QueryNumbers()
    listener = QueryListener(numbers, fail, False, {}.__getitem__)
    listener.onQueryProgress(progressed(progress()))
    listener.onQueryIdle(Event(id=ID))  # which Spark does not know any more
    assert numbers.samples()
    assert "what observe() was given to call failed" in caplog.text
