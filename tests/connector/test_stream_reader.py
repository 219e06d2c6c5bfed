"""The streaming reader, called the way Spark calls it (spark.md 1.2), without Spark."""

from __future__ import annotations

import json
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import LongType, StructField, StructType

from jetstream_spark.errors import (
    MessagesExpiredError,
    OffsetsError,
    RetentionRefusedError,
    StreamDeletedError,
)
from jetstream_spark.options import SourceOptions
from jetstream_spark.stream_reader import StreamReader

pytestmark = pytest.mark.genuine

SCHEMA = StructType([StructField("seq", LongType())])


def reader(stream, **options: object) -> StreamReader:
    named = {"servers": stream.url, "stream": stream.name, "startingOffsets": "earliest"}
    named |= {"pollInterval": "1us"} | {key: str(value) for key, value in options.items()}
    return StreamReader(SourceOptions.parse(named), SCHEMA)


def publish(stream, count: int) -> None:
    for i in range(count):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)


def next_of(stream, offset) -> int:
    return offset["streams"][stream.name]["next"]


def rows(source: StreamReader, start, end) -> list[int]:
    executor = pickle.loads(pickle.dumps(source))
    partitions = pickle.loads(pickle.dumps(source.partitions(start, end)))
    return [
        seq
        for partition in partitions
        for batch in executor.read(partition)
        for seq in batch.column("seq").to_pylist()
    ]


def test_batch_after_batch(stream):
    publish(stream, 10)
    source = reader(stream, maxOffsetsPerPartition=4)
    start = source.initialOffset()
    assert json.dumps(source.initialOffset()) == json.dumps(start), "it is asked twice"
    end = source.latestOffset(start, source.getDefaultReadLimit())
    assert (next_of(stream, start), next_of(stream, end)) == (1, 11)
    assert rows(source, start, end) == list(range(1, 11))
    assert rows(source, start, end) == list(range(1, 11)), "a batch can be read again"
    assert source.partitions(end, end) == []
    assert json.dumps(source.latestOffset(end, ReadAllAvailable())) == json.dumps(end)
    publish(stream, 3)
    later = source.latestOffset(end, ReadAllAvailable())
    assert rows(source, end, later) == [11, 12, 13]
    source.commit(later)
    source.stop()


def test_limits(stream):
    publish(stream, 10)
    source = reader(stream, maxOffsetsPerTrigger=4)
    start = source.initialOffset()
    assert source.getDefaultReadLimit() == ReadMaxRows(4)
    assert next_of(stream, source.latestOffset(start, ReadMaxRows(4))) == 5
    assert next_of(stream, source.latestOffset(start, ReadAllAvailable())) == 11
    waiting = reader(stream, minOffsetsPerTrigger=11)
    assert waiting.getDefaultReadLimit() == ReadMinRows(11)
    assert next_of(stream, waiting.latestOffset(start, ReadMinRows(11))) == 1
    publish(stream, 1)
    assert next_of(stream, waiting.latestOffset(start, ReadMinRows(11))) == 12
    patient = reader(stream, minOffsetsPerTrigger=99, maxTriggerDelay="1ms")
    patient._last_batch_at -= 1
    assert next_of(stream, patient.latestOffset(start, ReadMinRows(99))) == 12


def test_available_now_ends_at_the_tail_it_saw(stream):
    publish(stream, 5)
    source = reader(stream, maxOffsetsPerTrigger=3)
    source.prepareForTriggerAvailableNow()
    publish(stream, 5)
    start = source.initialOffset()
    first = source.latestOffset(start, ReadMaxRows(3))
    second = source.latestOffset(first, ReadMaxRows(3))
    assert [next_of(stream, one) for one in (first, second)] == [4, 6]
    assert source.latestOffset(second, ReadMaxRows(3)) == second


def test_polling_is_throttled_and_shared(stream, monkeypatch):
    publish(stream, 2)
    source = reader(stream, pollInterval="10s")
    asked = []
    ask = source._watch.control.stream_state
    monkeypatch.setattr(
        source._watch.control, "stream_state", lambda name: asked.append(name) or ask(name)
    )
    at = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    asked.clear()
    for _ in range(100):
        assert source.latestOffset(at, ReadAllAvailable()) == at
        source.reportLatestOffset()
    assert asked == []


def test_the_lag_is_reported(stream):
    publish(stream, 10)
    source = reader(stream, maxOffsetsPerTrigger=4)
    assert source.reportLatestOffset() is None
    source.latestOffset(source.initialOffset(), ReadMaxRows(4))
    report = source.reportLatestOffset()
    assert (report["lag"], report["streams"][stream.name]["next"]) == (6, 11)


def test_loss_is_found_before_the_batch(stream):
    publish(stream, 10)
    start = reader(stream).initialOffset()
    stream.control.purge(stream.name, 6)
    with pytest.raises(MessagesExpiredError, match="1 to 5"):
        reader(stream).latestOffset(start, ReadAllAvailable())
    accepting = reader(stream, failOnDataLoss="false", maxOffsetsPerTrigger=2)
    end = accepting.latestOffset(start, ReadMaxRows(2))
    assert next_of(stream, end) == 8
    assert rows(accepting, start, end) == [6, 7]
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    with pytest.raises(StreamDeletedError):
        reader(stream).latestOffset(end, ReadAllAvailable())
    assert reader(stream, failOnDataLoss="false").latestOffset(end, ReadAllAvailable()) == end


def test_a_checkpoint_of_other_streams(stream):
    start = reader(stream).initialOffset()
    start["streams"]["OTHER"] = start["streams"][stream.name]
    with pytest.raises(OffsetsError, match="OTHER"):
        reader(stream).latestOffset(start, ReadAllAvailable())


def test_older_spark_gives_no_start(stream):
    publish(stream, 3)
    source = reader(stream)
    source.initialOffset()
    assert next_of(stream, source.latestOffset()) == 4


def test_purging_follows_the_commit(genuine, make_stream):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    publish(queue, 10)
    with pytest.raises(RetentionRefusedError, match="Choose commitMode"):
        reader(queue).initialOffset()
    source = reader(queue, commitMode="purge", maxOffsetsPerTrigger=4)
    start = source.initialOffset()
    first = source.latestOffset(start, ReadMaxRows(4))
    assert rows(source, start, first) == [1, 2, 3, 4]
    assert queue.count == 10, "nothing is removed before the batch is committed"
    second = source.latestOffset(first, ReadMaxRows(4))
    assert queue.count == 6
    source.commit(first)
    assert queue.count == 6
    lazy = reader(queue, commitMode="purge", eagerCommit="false")
    lazy.latestOffset(second, ReadAllAvailable())
    assert queue.count == 6
    lazy.commit(second)
    assert queue.count == 2


def test_purging_under_another_consumer_is_refused(genuine, make_stream):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    config = {"name": "worker", "durable_name": "worker", "ack_policy": "explicit"}
    queue.control.create_consumer(queue.name, config | {"filter_subject": f"{queue.subject}.a"})
    with pytest.raises(RetentionRefusedError, match="'worker'"):
        reader(queue, commitMode="purge").initialOffset()
    reader(queue, commitMode="purge", subjects=f"{queue.subject}.b").initialOffset()
    closed = make_stream(genuine.url, retention="interest")
    with pytest.raises(RetentionRefusedError, match="direct get"):
        reader(closed, commitMode="none").initialOffset()
