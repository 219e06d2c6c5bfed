"""Reports of tasks are counted once, for the batch that they are of, and only if all are there."""

from __future__ import annotations

import pytest

from jetstream_spark.observation.task_reports import BATCHES_MAX, TaskReports
from tests.connector.observation.test_query_numbers import ID, progress

WRITTEN = {
    "written_rows": 4,
    "written_bytes": 40,
    "duplicate_rows": 1,
    "skipped_rows": 0,
    "dead_letters": 2,
}


def done(batch: int = 3, rows: int = 7, written: object = -1, **more: object) -> dict:
    """The progress of a batch that is done, with a source of ours unless told otherwise."""
    told = progress(rows=rows) | {"batchId": batch, "sink": {"numOutputRows": written}}
    return told | {"durationMs": {"addBatch": 5}} | more


def read(rows: int, size: int, batch: int = 3, query: str = ID) -> tuple:
    return query, batch, {"read_rows": rows, "bytes": size}


def wrote(batch: int = 3, query: str = ID, **more: int | None) -> tuple:
    return query, batch, WRITTEN | more


def test_the_tasks_of_a_batch_are_added_up_once():
    reports = TaskReports()
    reports.add([read(3, 30), wrote()])
    reports.add([read(4, 45), wrote(duplicate_rows=0)])
    expected = {
        "bytes": 75,
        "written_rows": 8,
        "written_bytes": 80,
        "duplicate_rows": 1,
        "skipped_rows": 0,
        "dead_letters": 4,
        "unreported_batches": 0,
    }
    assert reports.take(done(written=8)) == expected
    assert reports.take(done(rows=0)) == {"unreported_batches": 0}  # nothing of it is left


def test_a_report_is_of_its_query_and_of_its_batch():
    reports = TaskReports()
    reports.add([read(7, 1), read(7, 2, batch=4), read(7, 4, query="another")])
    assert reports.take(done())["bytes"] == 1
    assert reports.take(done(4))["bytes"] == 2
    assert reports.take(done(id="another"))["bytes"] == 4


def test_a_progress_of_no_batch_takes_nothing():
    reports = TaskReports()
    reports.add([read(7, 1)])
    for other in ({"durationMs": {"triggerExecution": 1}}, {"durationMs": None}, {"batchId": None}):
        assert reports.take(done(**other)) == {}
    assert reports.take(done())["bytes"] == 1


@pytest.mark.parametrize("told", [[], [read(6, 60)], [read(7, 60), read(1, 1)]])
def test_bytes_that_are_not_of_all_rows_do_not_count(told):
    reports = TaskReports()
    reports.add([*told, wrote()])
    found = reports.take(done(written=4))
    assert "bytes" not in found and found["unreported_batches"] == 1
    assert (found["written_rows"], found["dead_letters"]) == (4, 2)


def test_written_rows_that_are_not_all_do_not_count():
    reports = TaskReports()
    reports.add([read(7, 70), wrote()])
    assert reports.take(done(written=5)) == {"bytes": 70, "unreported_batches": 1}
    # Now the sink is known to be ours, and one that says nothing has not told of its rows.
    reports.add([read(7, 71, 4), read(0, 0, 5)])
    assert reports.take(done(4, written=5)) == {"bytes": 71, "unreported_batches": 1}
    assert reports.take(done(5, 0, written=0)) == {"bytes": 0, "unreported_batches": 0}
    reports.add([wrote(6)])
    assert reports.take(done(6, 0, written=0)) == {"unreported_batches": 1}
    # The next run of the query may have another sink.
    reports.begin(ID, "run 2")
    reports.add([read(7, 72, 7)])
    assert reports.take(done(7, written=7)) == {"bytes": 72, "unreported_batches": 0}


def test_others_sinks_have_nothing_to_report():
    reports = TaskReports()
    reports.add([read(7, 70)])
    assert reports.take(done(written=7)) == {"bytes": 70, "unreported_batches": 0}
    assert reports.take(done(sources=[], written=7)) == {}


def test_a_sink_alone():
    reports = TaskReports()
    reports.add([wrote()])
    assert reports.take(done(sources=[], written=4)) == WRITTEN | {"unreported_batches": 0}
    assert reports.take(done(4, sources=[], written=4)) == {"unreported_batches": 1}


def test_a_sum_with_what_nobody_knows_is_not_known():
    reports = TaskReports()
    reports.add([wrote(), wrote(duplicate_rows=None), wrote(), read(7, 7)])
    found = reports.take(done())
    assert "duplicate_rows" not in found
    assert (found["written_rows"], found["unreported_batches"]) == (12, 0)


def test_a_batch_that_failed_counts_when_it_is_run_again():
    reports = TaskReports()
    reports.begin(ID, "run 1")
    reports.add([read(7, 70), wrote()])
    reports.begin(ID, "run 2")  # which Spark may tell before the end of the first
    reports.add([read(7, 70), wrote(skipped_rows=4, written_bytes=0)])
    reports.end(ID, "run 1")
    found = reports.take(done(written=4))
    assert (found["written_rows"], found["skipped_rows"], found["bytes"]) == (4, 4, 70)
    reports.add([read(7, 70, 4)])
    reports.end(ID, "run 2")
    assert reports.take(done(4)) == {"unreported_batches": 1}


def test_batches_whose_progress_was_never_told_are_forgotten():
    reports = TaskReports()
    reports.add([read(7, 1, batch) for batch in range(5)])
    assert reports.take(done(4))["bytes"] == 1
    assert reports.take(done(3)) == {"unreported_batches": 1}
    reports.add([read(7, 1, query=str(number)) for number in range(BATCHES_MAX + 1)])
    assert reports.take(done(id="0")) == {"unreported_batches": 1}
    assert reports.take(done(id="1"))["bytes"] == 1


@pytest.mark.parametrize("what", [None, [1], [("q", 1)], [("q", 1, {"bytes": "x"}), 7]])
def test_what_is_no_report_harms_nobody(what, caplog):
    reports = TaskReports()
    reports.add(what)
    reports.add([read(7, 1)])
    assert reports.take(done())["bytes"] == 1
