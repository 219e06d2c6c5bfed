"""A task tells those who observe its query, and nobody else; and it never fails because of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from pyspark import TaskContext, accumulators

from jetstream_spark.task_report import OBSERVERS, is_observed, report

QUERY = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "7"}


@pytest.fixture
def task(monkeypatch) -> Iterator[dict[str, str]]:
    """The local properties of the task that this process is for now."""
    context = TaskContext()
    context._localProperties = properties = {OBSERVERS: "3,41", **QUERY}
    monkeypatch.setattr(accumulators, "_accumulatorRegistry", {})
    TaskContext._setTaskContext(context)
    yield properties
    TaskContext._setTaskContext(None)


def sent() -> dict[int, object]:
    """What Spark takes from a task's process at its end, as it arrives."""
    registry = accumulators._accumulatorRegistry
    return {number: pickle.loads(pickle.dumps(one._value)) for number, one in registry.items()}


def test_each_observer_is_told_all(task):
    assert is_observed()
    report({"bytes": 5, "read_rows": 1})
    report({"duplicate_rows": None})
    told = [("q", 7, {"bytes": 5, "read_rows": 1}), ("q", 7, {"duplicate_rows": None})]
    assert sent() == {3: told, 41: told}


@pytest.mark.parametrize("missing", [OBSERVERS, *QUERY])
def test_a_task_of_nobody_s_query_tells_nothing(task, missing):
    del task[missing]
    report({"bytes": 5})
    assert sent() == {}
    assert is_observed() == (missing != OBSERVERS)


def test_outside_of_tasks_nobody_is_told():
    report({"bytes": 5})
    assert not is_observed()


@pytest.mark.parametrize(
    ("name", "value"), [(OBSERVERS, "3,x"), (OBSERVERS, ","), ("streaming.sql.batchId", "none")]
)
def test_a_task_does_not_fail_because_of_it(task, caplog, name, value):
    task[name] = value
    report({"bytes": 5})
    assert "not reported to observe()" in caplog.text


def test_the_next_task_of_a_process_begins_with_nothing(task):
    report({"bytes": 5})
    accumulators._accumulatorRegistry.clear()  # as Spark's worker does
    report({"bytes": 6})
    assert sent()[3] == [("q", 7, {"bytes": 6})]
