"""Numbers out of Spark's progress."""

from __future__ import annotations

import json

import pytest

from jetstream_spark.observation.query_numbers import ENDED_MAX, METRICS, QueryNumbers

ID = "3baeea2d-6e28-43be-84ad-7746d4d4b18a"


def progress(name: str | None = "orders", rows: object = 7, **report: object) -> dict:
    streams = {"A": {"created": "t", "next": 12, "lag": 4, "skipped": 0, "overtaken": 0}}
    return {
        "id": ID,
        "name": name,
        "timestamp": "2026-11-21T10:00:00.500Z",
        "batchId": 3,
        "durationMs": {"triggerExecution": 1500},
        "sources": [
            {"endOffset": {"topic": {"0": 3}}, "numInputRows": 99},
            {
                "endOffset": {"v": 1, "streams": {"A": {"created": "t", "next": 8}}},
                "latestOffset": {"v": 1, "streams": streams, "estimatedTotalBytesBehindLatest": 40}
                | report,
                "numInputRows": rows,
                "processedRowsPerSecond": 70.5,
            },
        ],
    }


def values(numbers: QueryNumbers) -> dict[str, float]:
    return {
        ":".join((one.metric.name.removeprefix("jetstream_spark_"), *one.labels)): one.value
        for one in numbers.samples()
    }


def test_a_progress():
    numbers = QueryNumbers()
    assert numbers.note_progress(progress())
    assert values(numbers) == {
        "running:orders": 1,
        "batch:orders": 3,
        "batch_seconds:orders": 1.5,
        "progress_timestamp_seconds:orders": 1795255200.5,
        "rows:orders": 7,
        "rows_per_second:orders": 70.5,
        "next_sequence:orders:A": 8,
        "lag_sequences:orders:A": 4,
        "lag_bytes:orders": 40,
        "skipped_sequences:orders:A": 0,
        "overtaken_sequences:orders:A": 0,
        "waiting_seconds:orders": 0,
    }
    assert {one.metric.name for one in numbers.samples()} <= {m.name for m in METRICS.values()}


def test_offsets_as_text_are_read_and_rows_add_up():
    numbers = QueryNumbers()
    for run in (1, 2, 2):  # the last one is told twice
        told = progress(name=None, waitingFor="a server", waitingSeconds=9) | {"runId": run}
        for source in told["sources"]:
            for key in ("endOffset", "latestOffset"):
                source[key] = json.dumps(source.get(key))
        assert numbers.note_progress(told)
    found = values(numbers)
    assert (found[f"rows:{ID}"], found[f"waiting_seconds:{ID}"]) == (14, 9)


@pytest.mark.parametrize(
    "sources", [None, [], [{"endOffset": {"t": 1}}], ["x"], [{"endOffset": "["}]]
)
def test_queries_without_a_source_of_ours_are_left_alone(sources):
    numbers = QueryNumbers()
    assert not numbers.note_progress(progress() | {"sources": sources})
    assert numbers.samples() == []


def test_what_is_no_number_is_left_out():
    numbers = QueryNumbers()
    told = progress(rows=float("nan"), streams={"A": {"lag": "x", "skipped": None}, "B": 7})
    numbers.note_progress(told | {"timestamp": "?", "durationMs": None, "batchId": None})
    found = values(numbers)
    assert found["rows:orders"] == 0
    assert "lag_sequences:orders:A" not in found and "batch:orders" not in found


def test_what_was_passed_over_is_counted_on_over_restarts():
    numbers = QueryNumbers()

    def skip(count: int) -> float:
        streams = {"A": {"lag": 0, "skipped": count, "overtaken": 2 * count}}
        numbers.note_progress(progress(streams=streams))
        return values(numbers)["skipped_sequences:orders:A"]

    numbers.note_start(ID, "orders")
    assert [skip(2), skip(2), skip(5)] == [2, 2, 5]
    numbers.note_end(ID, is_failure=True)
    found = values(numbers)
    assert (found["running:orders"], found["failures:orders"]) == (0, 1)
    numbers.note_start(ID, "orders")
    assert [skip(0), skip(3), skip(6)] == [5, 8, 11]
    assert values(numbers)["overtaken_sequences:orders:A"] == 22
    numbers.note_end(ID, is_failure=False)
    assert values(numbers)["failures:orders"] == 1


def test_of_very_many_queries_only_the_last_are_kept():
    numbers = QueryNumbers()
    for number in range(ENDED_MAX + 5):
        numbers.note_start(str(number), None)
        numbers.note_progress(progress(name=None) | {"id": str(number)})
        numbers.note_end(str(number), is_failure=False)
    kept = {one.labels[0] for one in numbers.samples()}
    assert kept == {str(number) for number in range(5, ENDED_MAX + 5)}
    numbers.note_start("7", None)  # it runs again, so it is not among those that have ended
    for number in range(1000, 1000 + ENDED_MAX):
        numbers.note_end(str(number), is_failure=False)
    assert "7" in {one.labels[0] for one in numbers.samples()}


def test_what_tasks_told_adds_up_and_is_not_there_before():
    numbers = QueryNumbers()
    numbers.note_progress(progress())
    assert not {"bytes:orders", "written_rows:orders", "skipped_rows:orders"} & set(values(numbers))
    for _ in range(2):  # told apart from the progress, which Spark may have shown before
        numbers.note_progress(progress(), {"bytes": 5, "dead_letters": 0})
    found = values(numbers)
    assert (found["bytes:orders"], found["dead_letters:orders"], found["rows:orders"]) == (10, 0, 7)


def test_a_query_with_a_sink_of_ours_alone():
    numbers = QueryNumbers()
    other = progress() | {"sources": []}
    assert not numbers.note_progress(other)
    assert numbers.note_progress(other, {"written_rows": 4})
    assert numbers.note_progress(other | {"batchId": 4})
    found = values(numbers)
    assert (found["written_rows:orders"], found["batch:orders"]) == (4, 4)
    assert not [one for one in found if one.startswith(("rows", "lag", "waiting"))]
    numbers.note_end(ID, is_failure=False)
    assert not numbers.note_progress(other)
