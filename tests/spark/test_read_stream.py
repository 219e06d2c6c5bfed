"""Streaming reads through Spark, against each server: triggers, limits, restarts, data loss."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.put_back import Place
from tests.spark.conftest import JetStream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Query:
    """A query that keeps what each batch read in a file of its own, written once the batch ends."""

    def __init__(self, spark, jetstream, stream, folder: Path, **options: object) -> None:
        self.spark, self.folder = spark, folder
        self.failing_batch: int | None = None
        named = {} if "streamPattern" in options else {"stream": stream}
        self.source = (
            spark.readStream.format("jetstream")
            .option("servers", jetstream.url)
            .options(**named)
            .option("startingOffsets", "earliest")
            .options(**{key: str(value) for key, value in options.items()})
        )

    def start(self, **trigger: object):
        def keep(frame, batch: int) -> None:
            rows = [[row.seq, int(row.data)] for row in frame.select("seq", "data").collect()]
            if batch == self.failing_batch:
                raise RuntimeError("killed on purpose")
            part = self.folder / f"{batch}.part"  # the test reads while batches are kept
            part.write_text(json.dumps(rows))
            part.replace(part.with_suffix(".json"))

        writer = self.source.load().writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def run(self) -> None:
        """Read all that is there, then end."""
        query = self.start(availableNow=True)
        try:
            assert query.awaitTermination(250), "the query did not end"
        finally:
            query.stop()

    def batches(self) -> dict[int, list[list[int]]]:
        return {int(file.stem): json.loads(file.read_text()) for file in self.folder.glob("*.json")}

    def rows(self) -> list[int]:
        return sorted(seq for batch in self.batches().values() for seq, _ in batch)


@pytest.fixture
def query(spark, jetstream, stream, tmp_path):
    jetstream.create_stream(stream)
    return lambda **options: Query(spark, jetstream, stream, tmp_path, **options)


def test_available_now_reads_all_within_the_limit_of_each_batch(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 3000)
    limited = query(maxOffsetsPerTrigger=1100, maxOffsetsPerPartition=400)
    limited.run()
    assert [len(batch) for _, batch in sorted(limited.batches().items())] == [1100, 1100, 800]
    assert limited.rows() == list(range(1, 3001))


def test_a_limit_in_bytes(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 1000)
    size = jetstream.control.stream_state(stream).bytes
    limited = query(maxBytesPerTrigger=size // 2 + 1)
    limited.run()
    assert len(limited.batches()) in (2, 3)
    assert limited.rows() == list(range(1, 1001))


def test_a_restart_goes_on_where_the_checkpoint_says(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 500)
    first = query()
    first.run()
    jetstream.publish_numbers(stream, 500, 900)
    second = query()
    second.run()
    assert second.rows() == list(range(1, 901))
    assert len(second.batches()[1]) == 400


def test_a_batch_that_failed_is_read_again_the_same(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 900)
    failing = query(maxOffsetsPerTrigger=300)
    failing.failing_batch = 1
    with pytest.raises(Exception, match="killed on purpose"):
        failing.run()
    assert failing.rows() == list(range(1, 301))
    jetstream.publish_numbers(stream, 900, 1000)
    again = query(maxOffsetsPerTrigger=500)
    again.run()
    assert sorted(seq for seq, _ in again.batches()[1]) == list(range(301, 601))
    assert again.rows() == list(range(1, 1001))


def source_progress(active) -> dict:
    return json.loads(active.lastProgress.json)["sources"][0]


def test_new_messages_arrive_and_lag_is_shown(jetstream, stream, query):
    running = query()
    active = running.start(processingTime="200 milliseconds")
    try:
        for start in (0, 50, 100):
            jetstream.publish_numbers(stream, start, start + 50)
            deadline = time.monotonic() + 200
            while len(running.rows()) < start + 50 and time.monotonic() < deadline:
                assert active.isActive, active.exception()
                time.sleep(0.1)
        assert running.rows() == list(range(1, 151))
        # A batch is over a little before Spark tells about it.
        deadline = time.monotonic() + 60
        while (end := source_progress(active)["endOffset"]["streams"][stream]["next"]) < 151:
            assert time.monotonic() < deadline, end
            time.sleep(0.05)
        latest = source_progress(active)["latestOffset"]
        assert latest["lag"] == 0 and latest["streams"][stream]["next"] == 151
    finally:
        active.stop()


def test_a_stream_that_matches_a_pattern_is_read_when_it_comes(jetstream, stream, query):
    later = f"{stream}_2"
    by_pattern = {"streamPattern": f"{stream}(_[0-9])?"}
    running = query(**by_pattern)
    active = running.start(processingTime="200 milliseconds")

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 200
        while len(running.rows()) < count and time.monotonic() < deadline:
            assert active.isActive, active.exception()
            time.sleep(0.1)
        assert len(running.rows()) == count

    try:
        jetstream.publish_numbers(stream, 0, 50)
        wait_for(50)
        jetstream.create_stream(later)
        jetstream.publish_numbers(later, 0, 20)
        wait_for(70)
    finally:
        active.stop()
    jetstream.publish_numbers(later, 20, 30)
    query(**by_pattern).run()
    assert running.rows() == sorted([*range(1, 51), *range(1, 31)])
    jetstream.delete_stream(later)
    with pytest.raises(Exception, match="STREAM_DELETED"):
        query(**by_pattern).run()


def test_latest_begins_with_what_comes_after(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 10)
    running = query(startingOffsets="latest")
    running.run()
    assert running.rows() == []
    jetstream.publish_numbers(stream, 10, 15)
    running.run()
    assert running.rows() == list(range(11, 16))


def test_options_of_batches_are_refused(query):
    with pytest.raises(Exception, match="for batch reads only"):
        query(endingOffsets="latest").run()


def test_a_stream_made_again_is_noticed(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 100)
    query().run()
    jetstream.delete_stream(stream)
    with pytest.raises(Exception, match="STREAM_DELETED"):
        query().run()
    jetstream.create_stream(stream)
    jetstream.publish_numbers(stream, 1000, 1200)
    with pytest.raises(Exception, match="STREAM_RECREATED"):
        query().run()
    accepting = query(failOnDataLoss="false")
    accepting.run()
    assert sorted(number for _, number in accepting.batches()[1]) == list(range(1000, 1200))


@pytest.mark.parametrize("kind", ["genuine", "bundled"])
def test_a_server_that_was_given_an_older_copy_ends_the_query(spark, request, tmp_path, kind):
    """Its sequences go back, and have overtaken the query when that is started again."""
    place = Place(kind, tmp_path, request.getfixturevalue)
    server, stream = JetStream(kind, place.url), "OLDER"
    reads = lambda **options: Query(spark, server, stream, tmp_path, **options)  # noqa: E731
    try:
        server.create_stream(stream)
        server.publish_numbers(stream, 0, 40)
        place.take_copy()
        server.control.stream_state(stream)
        server.publish_numbers(stream, 40, 100)
        running = reads()
        active = running.start(processingTime="200 milliseconds")
        try:
            deadline = time.monotonic() + 200
            while len(running.rows()) < 100:
                assert active.isActive and time.monotonic() < deadline, active.exception()
                time.sleep(0.05)
            place.put_back()
            server.control.stream_state(stream)  # over a new connection
            server.publish_numbers(stream, 1000, 1200)
            with pytest.raises(Exception, match=r"STREAM_TRUNCATED\] stream 'OLDER' was restored"):
                active.awaitTermination(200)
        finally:
            active.stop()
        with pytest.raises(Exception, match="STREAM_TRUNCATED"):
            reads().run()
        assert running.rows() == list(range(1, 101)), "nothing came twice, and nothing new"
        accepting = reads(failOnDataLoss="false")
        accepting.run()
        assert accepting.rows() == list(range(1, 241))
    finally:
        place.stop()


def test_expired_messages_are_loss_unless_accepted(jetstream, stream, query):
    jetstream.publish_numbers(stream, 0, 100)
    query().run()
    jetstream.publish_numbers(stream, 100, 300)
    jetstream.control.purge(stream, 151)
    with pytest.raises(Exception, match="MESSAGES_EXPIRED") as raised:
        query().run()
    assert "101 to 150" in str(raised.value)
    accepting = query(failOnDataLoss="false")
    accepting.run()
    assert accepting.rows() == [*range(1, 101), *range(151, 301)]


_DRIVER = """
    import json, sys, time
    from pathlib import Path
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.sql.shuffle.partitions", "2").getOrCreate())
    folders = []
    for url, stream, folder in json.loads(sys.argv[1]):
        frame = spark.readStream.format("jetstream").option("servers", url)
        frame = frame.option("stream", stream).option("startingOffsets", "earliest")
        frame = frame.option("maxOffsetsPerTrigger", "10").load()
        query = frame.writeStream.format("parquet").option("path", folder + "/rows")
        query.option("checkpointLocation", folder + "/checkpoint").start()
        folders.append(Path(folder, "checkpoint", "commits"))
    while spark.streams.active:
        done = [sum(f.name.isdigit() for f in folder.glob("*")) for folder in folders]
        Path(sys.argv[2]).write_text(str(min(done)))
        time.sleep(0.02)
"""


@pytest.mark.crash
@pytest.mark.timeout(700)
def test_a_killed_driver_loses_and_repeats_nothing(spark, both_servers, tmp_path):
    """One driver, killed once, reads from both servers; the next one is this process."""
    places = []
    for server in both_servers:
        stream = f"KILLED_{server.kind}"
        server.create_stream(stream)
        server.publish_numbers(stream, 0, 1000)
        places.append((server.url, stream, str(tmp_path / server.kind)))
    script, progress = tmp_path / "driver.py", tmp_path / "progress"
    script.write_text(textwrap.dedent(_DRIVER))
    # Spark's JVM is a child of the script; one group, so that both die at once.
    process = subprocess.Popen(
        [sys.executable, str(script), json.dumps(places), str(progress)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 400  # a minute of two cores, that others may want as well
        while not (progress.exists() and progress.read_text() not in ("", "0", "1")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for url, stream, folder in places:
        committed = len([f for f in Path(folder, "checkpoint/commits").glob("*") if f.suffix == ""])
        assert 2 <= committed < 100, "it was killed on the way"
        frame = spark.readStream.format("jetstream").option("servers", url).option("stream", stream)
        frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "400")
        query = frame.load().writeStream.format("parquet").option("path", f"{folder}/rows")
        query = query.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        )
        assert query.start().awaitTermination(300)
        rows = spark.read.parquet(f"{folder}/rows").select("seq").collect()
        assert sorted(row.seq for row in rows) == list(range(1, 1001))


def test_a_work_queue_is_purged_only_after_the_commit(jetstream, stream, query):
    jetstream.delete_stream(stream)
    jetstream.create_stream(stream, retention="workqueue", allow_direct=True)
    jetstream.publish_numbers(stream, 0, 300)
    with pytest.raises(Exception, match="RETENTION_REFUSED"):
        query().run()
    failing = query(commitMode="purge", maxOffsetsPerTrigger=100)
    failing.failing_batch = 1
    with pytest.raises(Exception, match="killed on purpose"):
        failing.run()
    assert jetstream.control.stream_state(stream).first == 101
    again = query(commitMode="purge", maxOffsetsPerTrigger=100)
    again.run()
    assert again.rows() == list(range(1, 301))
    assert jetstream.control.stream_state(stream).messages == 0


def test_an_interest_stream_lets_go_only_after_the_commit(jetstream, stream, query):
    jetstream.delete_stream(stream)
    jetstream.create_stream(stream, retention="interest")
    acking = {"commitMode": "ack", "consumer": "spark", "maxOffsetsPerTrigger": 100}
    first = query(**acking)
    first.run()
    jetstream.publish_numbers(stream, 0, 300)
    failing = query(**acking)
    failing.failing_batch = max(first.batches(), default=-1) + 2
    with pytest.raises(Exception, match="killed on purpose"):
        failing.run()
    assert jetstream.control.stream_state(stream).first == 101
    again = query(**acking)
    again.run()
    assert again.rows() == list(range(1, 301))
    assert jetstream.control.stream_state(stream).messages == 0


def test_changes_of_a_bucket(spark, jetstream, tmp_path):
    jetstream.create_bucket("changes")
    source = spark.readStream.format("jetstream").option("servers", jetstream.url)
    source = source.options(bucket="changes", keys="eu.>", startingOffsets="earliest")
    seen = []

    def keep(frame, batch: int) -> None:
        rows = frame.orderBy("revision").collect()
        seen.extend((row.key, row.value and bytes(row.value), row.operation) for row in rows)

    def run() -> None:
        writer = source.load().writeStream.foreachBatch(keep).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()

    jetstream.publish([("$KV.changes.eu.a", b"1"), ("$KV.changes.us.b", b"2")])
    run()
    jetstream.publish([("$KV.changes.eu.c", b"3")])
    jetstream.publish([("$KV.changes.eu.a", b"")], b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n")
    run()
    assert seen == [("eu.a", b"1", "PUT"), ("eu.c", b"3", "PUT"), ("eu.a", None, "DEL")]
    jetstream.delete_stream("KV_changes")
