"""The streaming reader, called the way Spark calls it, without Spark.

See docs/reference/spark.md#calls-of-a-micro-batch.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from jetstream_spark.errors import (
    ConsumerDeletedError,
    MessagesAcknowledgedError,
    MessagesExpiredError,
    OffsetsError,
    OptionsError,
    RetentionRefusedError,
    StreamDeletedError,
    StreamRecreatedError,
)
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.stream_reader import StreamReader

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


def ranges(source: StreamReader, start, end) -> list[Any]:
    return [partition.__dict__["range"] for partition in source.partitions(start, end)]


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


def test_a_batch_that_is_planned_again_is_cut_as_before_whatever_the_options_say_now(stream):
    publish(stream, 10)
    before = reader(stream, maxOffsetsPerPartition=4)
    start = before.initialOffset()
    end = before.latestOffset(start, ReadAllAvailable())
    planned = ranges(before, start, end)
    assert len(planned) == 3
    for options in ({"minPartitions": 5}, {"maxPartitions": 1}, {"maxOffsetsPerPartition": 1}):
        # The ledger and the ids of a sink go by partitions: one that has its rows has to keep them.
        assert ranges(reader(stream, **options), start, end) == planned
    assert rows(reader(stream, subjects=f"{stream.subject}.b"), start, end) == [*range(1, 11)]
    after = reader(stream, minPartitions=5)
    assert json.dumps(after.latestOffset(end, ReadAllAvailable())) == json.dumps(end)
    publish(stream, 10)
    later = after.latestOffset(end, ReadAllAvailable())
    assert len(after.partitions(end, later)) == 5
    # A checkpoint that does not say how: the options do.
    del later["tasks"]
    assert len(after.partitions(end, later)) == 5
    assert len(before.partitions(end, later)) == 3


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
    patient.source._last_batch_at -= 1
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
    source = reader(stream, pollInterval="100s")
    asked = []
    control = source.source._watch.control
    ask = control.stream_state
    monkeypatch.setattr(control, "stream_state", lambda name: asked.append(name) or ask(name))
    at = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    asked.clear()
    for _ in range(10):  # a tenth of a second each
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


def test_what_lies_before_the_start_is_not_purged_unread(genuine, make_stream):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    publish(queue, 3)
    late = {"commitMode": "purge", "startingOffsets": "latest"}
    with pytest.raises(RetentionRefusedError, match="from sequence 1 on, unread"):
        reader(queue, **late).initialOffset()
    reader(queue, subjects=f"{queue.subject}.other", **late).initialOffset()
    queue.control.purge(queue.name, 4)
    assert next_of(queue, reader(queue, **late).initialOffset()) == 4


def test_a_stream_made_again_is_not_purged(genuine, make_stream):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    publish(queue, 10)
    source = reader(queue, commitMode="purge")
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    queue.control.request(f"STREAM.DELETE.{queue.name}")
    body = {"name": queue.name, "subjects": [f"{queue.subject}.>"], "retention": "workqueue"}
    queue.control.request(f"STREAM.CREATE.{queue.name}", body | {"allow_direct": True})
    publish(queue, 5)
    with pytest.raises(StreamRecreatedError):
        source.latestOffset(end, ReadAllAvailable())
    source.commit(end)
    assert queue.count == 5


def test_acknowledging_follows_the_commit(genuine, make_stream):
    interest = make_stream(genuine.url, retention="interest")
    other = {"name": "other", "durable_name": "other", "ack_policy": "explicit"}
    subject = f"{interest.subject}.b"
    interest.control.create_consumer(interest.name, other | {"filter_subject": subject})
    ack = {"commitMode": "ack", "consumer": "query", "maxOffsetsPerTrigger": 4}
    source = reader(interest, **ack)
    start = source.initialOffset()
    publish(interest, 10)
    interest.control.request_message(subject, b"10")
    first = source.latestOffset(start, ReadMaxRows(4))
    assert rows(source, start, first) == [1, 2, 3, 4]
    assert rows(source, start, first) == [1, 2, 3, 4], "reading takes nothing away"
    assert interest.count == 11
    second = source.latestOffset(first, ReadMaxRows(4))
    assert interest.count == 7
    again = reader(interest, **ack)
    third = again.latestOffset(second, ReadMaxRows(4))
    assert rows(again, second, third) == [9, 10, 11]
    again.commit(third)
    assert interest.count == 1, "what the other consumer waits for stays"
    with pytest.raises(MessagesAcknowledgedError, match="stands at 5"):
        reader(interest, **ack).latestOffset(first, ReadMaxRows(4))
    interest.control.delete_consumer(interest.name, "query")
    with pytest.raises(ConsumerDeletedError):
        reader(interest, **ack).latestOffset(third, ReadMaxRows(4))
    accepting = reader(interest, failOnDataLoss="false", **ack)
    assert accepting.latestOffset(third, ReadMaxRows(4)) == third
    names = {consumer["name"] for consumer in interest.control.consumers(interest.name)}
    assert "query" in names


def test_a_stream_made_anew_is_held_before_it_has_its_first_message(genuine, make_stream):
    """Streams with interest let go of what nobody holds, so the first message would be gone."""
    interest = make_stream(genuine.url, retention="interest")
    ack = {"commitMode": "ack", "consumer": "query", "failOnDataLoss": "false"}
    source = reader(interest, **ack)
    start = source.initialOffset()
    publish(interest, 3)
    end = source.latestOffset(start, ReadAllAvailable())
    interest.control.request(f"STREAM.DELETE.{interest.name}")
    body = {"name": interest.name, "subjects": [f"{interest.subject}.>"], "retention": "interest"}
    interest.control.request(f"STREAM.CREATE.{interest.name}", body | {"allow_direct": True})
    empty = source.latestOffset(end, ReadAllAvailable())
    assert empty["streams"][interest.name]["next"] == 1
    source.commit(empty)
    publish(interest, 2)
    assert interest.count == 2
    then = source.latestOffset(empty, ReadAllAvailable())
    assert rows(source, empty, then) == [1, 2]


def test_a_filtered_query_does_not_miss_what_others_acknowledged(genuine, make_stream):
    interest = make_stream(genuine.url, retention="interest")
    wanted = {"subjects": f"{interest.subject}.b", "commitMode": "ack", "consumer": "query"}
    source = reader(interest, **wanted)
    start = source.initialOffset()
    publish(interest, 5)
    interest.control.request_message(f"{interest.subject}.b", b"6")
    end = source.latestOffset(start, ReadAllAvailable())
    assert len(rows(source, start, end)) == 1


def test_acknowledging_is_not_for_work_queues(genuine, make_stream):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    with pytest.raises(RetentionRefusedError, match="Use commitMode=purge"):
        reader(queue, commitMode="ack", consumer="c").initialOffset()
    kept = make_stream(genuine.url)
    with pytest.raises(RetentionRefusedError, match="fetchMode=direct needs"):
        reader(kept, fetchMode="direct").initialOffset()
    interest = make_stream(genuine.url, retention="interest", allow_direct=True)
    with pytest.raises(RetentionRefusedError, match="reading would take messages away"):
        reader(interest, fetchMode="consumer", commitMode="none").initialOffset()


def test_changes_of_a_bucket(stream):
    name = f"changes_{stream.name}"
    body = {"name": f"KV_{name}", "subjects": [f"$KV.{name}.>"], "max_msgs_per_subject": 1}
    stream.control.request(f"STREAM.CREATE.KV_{name}", body)
    schema = arrow_types_of("key", "operation")
    options = {"servers": stream.url, "bucket": name, "startingOffsets": "earliest"}
    options |= {"pollInterval": "1us"}
    source = StreamReader(SourceOptions.parse(options), schema)
    start = source.initialOffset()
    stream.control.request_message(f"$KV.{name}.a", b"1")
    first = source.latestOffset(start, ReadAllAvailable())
    stream.control.request_message(f"$KV.{name}.b", b"1")
    deleted = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    stream.control.request_message(f"$KV.{name}.a", b"", deleted)
    second = source.latestOffset(first, ReadAllAvailable())

    def changes(begin, end) -> list[tuple[str, str]]:
        return [
            tuple(row.values())
            for partition in source.partitions(begin, end)
            for batch in source.read(partition)
            for row in batch.to_pylist()
        ]

    assert changes(first, second) == [("b", "PUT"), ("a", "DEL")]
    assert changes(start, first) == [], "a revision that was replaced is gone, which is no loss"
    with pytest.raises(OptionsError, match="batch reads only"):
        StreamReader(SourceOptions.parse(options | {"kvMode": "latest"}), schema)


def arrow_types_of(*names: str) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


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


def test_what_a_stream_has_of_subjects_that_it_does_not_collect_any_more_is_read(stream):
    for subject in "aabb":
        stream.control.request_message(f"{stream.subject}.{subject}", b"")
    options = {"subjects": f"{stream.subject}.b", "maxOffsetsPerTrigger": 3}
    source = reader(stream, **options)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadMaxRows(3))
    config = stream.control.request(f"STREAM.INFO.{stream.name}")["config"]
    config["subjects"] = [f"{stream.subject}.a"]
    stream.control.request(f"STREAM.UPDATE.{stream.name}", config)
    assert rows(source, start, end) == [3]
    again = reader(stream, **options)  # a restart, which checks the options
    final = again.latestOffset(end, ReadMaxRows(3))
    assert rows(again, end, final) == [4]
