"""Batch reads through Spark, against each server."""

from __future__ import annotations

import datetime
import time

import pytest
from pyspark.sql import functions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def reader(spark, jetstream, stream, **options):
    return (
        spark.read.format("jetstream")
        .option("servers", jetstream.url)
        .option("stream", stream)
        .options(**{key: str(value) for key, value in options.items()})
    )


def numbers(frame) -> list[int]:
    return sorted(int(row.data) for row in frame.select("data").collect())


def test_every_row_once_in_every_column(spark, jetstream, stream):
    jetstream.create_stream(stream)
    before = datetime.datetime.now(datetime.UTC)
    jetstream.publish_numbers(stream, 0, 2500)
    frame = reader(spark, jetstream, stream, maxOffsetsPerPartition=1000).load()
    assert frame.dtypes == [
        ("subject", "string"),
        ("data", "binary"),
        ("stream", "string"),
        ("seq", "bigint"),
        ("timestamp", "timestamp"),
    ]
    rows = frame.collect()
    assert sorted(row.seq for row in rows) == list(range(1, 2501))
    assert {(row.seq, int(row.data), row.subject, row.stream) for row in rows} == {
        (i + 1, i, f"{stream}.{i % 10}", stream) for i in range(2500)
    }
    assert frame.rdd.getNumPartitions() == 3
    slack = datetime.timedelta(seconds=5)
    times = [row.timestamp.replace(tzinfo=datetime.UTC) for row in rows]
    assert before - slack <= min(times) <= max(times) <= before + 20 * slack


def test_a_schema_of_ones_own_and_headers(spark, jetstream, stream):
    jetstream.create_stream(stream)
    block = b"NATS/1.0\r\nTrace: a\r\nTrace: b\r\nKind: order \r\n\r\n"
    jetstream.publish([(f"{stream}.h", b"with")], headers=block)
    jetstream.publish([(f"{stream}.p", b"")])
    some = reader(spark, jetstream, stream).schema("seq BIGINT, headers MAP<STRING,ARRAY<STRING>>")
    assert [row.asDict() for row in some.load().orderBy("seq").collect()] == [
        {"seq": 1, "headers": {"Trace": ["a", "b"], "Kind": ["order"]}},
        {"seq": 2, "headers": {}},
    ]
    whole = reader(spark, jetstream, stream, includeHeaders="true").load()
    assert whole.columns[-1] == "headers"
    assert {bytes(row.data) for row in whole.collect()} == {b"with", b""}
    assert reader(spark, jetstream, stream).schema("data BINARY").load().count() == 2


def test_a_range_of_sequences_and_deleted_messages(spark, jetstream, stream):
    jetstream.create_stream(stream)
    jetstream.publish_numbers(stream, 0, 100)
    for sequence in (11, 12, 20):
        jetstream.delete_message(stream, sequence)
    part = reader(
        spark,
        jetstream,
        stream,
        startingOffsets=f'{{"{stream}": 10}}',
        endingOffsets=f'{{"{stream}": 21}}',
        minPartitions=3,
    ).load()
    assert sorted(row.seq for row in part.collect()) == [10, 13, 14, 15, 16, 17, 18, 19]


def test_a_range_of_time(spark, jetstream, stream):
    jetstream.create_stream(stream)
    jetstream.publish_numbers(stream, 0, 50)
    time.sleep(0.05)
    moment = datetime.datetime.now(datetime.UTC).isoformat()
    time.sleep(0.05)
    jetstream.publish_numbers(stream, 50, 80)
    later = reader(spark, jetstream, stream, startingTimestamp=moment).load()
    earlier = reader(spark, jetstream, stream, endingTimestamp=moment).load()
    assert numbers(later) == list(range(50, 80))
    assert numbers(earlier) == list(range(50))


def test_subjects_are_filtered_by_the_server(spark, jetstream, stream):
    jetstream.create_stream(stream)
    jetstream.publish_numbers(stream, 0, 1000)
    one = reader(spark, jetstream, stream, subjects=f"{stream}.3", minPartitions=2).load()
    assert numbers(one) == list(range(3, 1000, 10))
    two = reader(spark, jetstream, stream, subjects=f"{stream}.3, {stream}.7").load()
    assert two.groupBy("subject").count().count() == 2
    assert two.count() == 200


def test_several_streams(spark, jetstream, stream):
    other = stream + "_2"
    jetstream.create_stream(stream)
    jetstream.create_stream(other)
    jetstream.publish_numbers(stream, 0, 30)
    jetstream.publish_numbers(other, 0, 20)
    counts = reader(spark, jetstream, f"{stream},{other}").load().groupBy("stream").count()
    assert {row.stream: row["count"] for row in counts.collect()} == {stream: 30, other: 20}
    jetstream.delete_stream(other)


def test_an_empty_stream_has_no_rows(spark, jetstream, stream):
    jetstream.create_stream(stream)
    assert reader(spark, jetstream, stream).load().collect() == []


def test_large_messages_between_small_ones(spark, jetstream, stream):
    jetstream.create_stream(stream)
    sizes = [0, 1, 900_000, 13, 700_000, 0, 65_536]
    jetstream.publish([(f"{stream}.{i}", bytes([i]) * size) for i, size in enumerate(sizes)])
    rows = reader(spark, jetstream, stream, fetchMaxBytes="1m").load().orderBy("seq").collect()
    assert [bytes(row.data) for row in rows] == [bytes([i]) * n for i, n in enumerate(sizes)]


def test_sql_tables_and_views(spark, jetstream, stream):
    jetstream.create_stream(stream)
    jetstream.publish_numbers(stream, 0, 10)
    options = f"OPTIONS (servers '{jetstream.url}', stream '{stream}')"
    spark.sql(f"CREATE TEMPORARY VIEW v_{jetstream.kind} USING jetstream {options}")
    spark.sql(f"CREATE TABLE t_{jetstream.kind} USING jetstream {options}")
    try:
        total = "SELECT sum(CAST(CAST(data AS STRING) AS INT)) AS s FROM"
        assert spark.sql(f"{total} v_{jetstream.kind}").collect()[0].s == 45
        named = f"WITH ('servers' = '{jetstream.url}', 'stream' = '{stream}')"
        assert spark.sql(f"{total} t_{jetstream.kind} {named}").collect()[0].s == 45
        with pytest.raises(Exception, match="does not pass on the options"):
            spark.sql(f"{total} t_{jetstream.kind}").collect()
    finally:
        spark.sql(f"DROP TABLE t_{jetstream.kind}")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, "cannot be latest in a batch"),
        ({"subjects": "nowhere.>"}, "SUBJECTS_DO_NOT_OVERLAP"),
        ({"endingOffsets": '{"%s": 99}'}, "INVALID_OFFSETS"),
        ({"startingTimestamp": "2999-01-01T00:00:00Z"}, "in the future"),
        ({"maxPartitions": "0", "comitMode": "none"}, "did you mean 'commitMode'"),
    ],
)
def test_mistakes_are_named(spark, jetstream, stream, options, expected):
    jetstream.create_stream(stream)
    options = {key: value.replace("%s", stream) for key, value in options.items()}
    with pytest.raises(Exception, match=expected):
        reader(spark, jetstream, stream, **options).load().collect()


def test_an_unknown_stream_is_named_with_the_visible_ones(spark, jetstream, stream):
    jetstream.create_stream(stream)
    with pytest.raises(Exception, match="STREAM_NOT_FOUND") as raised:
        reader(spark, jetstream, "NO_SUCH").load().collect()
    assert stream in str(raised.value)


def test_a_column_that_is_not_there(spark, jetstream, stream):
    jetstream.create_stream(stream)
    with pytest.raises(Exception, match="INVALID_SCHEMA"):
        reader(spark, jetstream, stream).schema("seq STRING, body BINARY").load().collect()


def test_expired_messages_are_loss_unless_accepted(spark, jetstream, stream):
    jetstream.create_stream(stream)
    jetstream.publish_numbers(stream, 0, 100)
    jetstream.control.purge(stream, 41)
    start = {"startingOffsets": f'{{"{stream}": 11}}'}
    with pytest.raises(Exception, match="MESSAGES_EXPIRED"):
        reader(spark, jetstream, stream, **start).load().collect()
    accepted = reader(spark, jetstream, stream, failOnDataLoss="false", **start).load()
    assert accepted.agg(functions.min("seq"), functions.count("*")).collect()[0][:] == (41, 60)


def test_current_values_and_history_of_a_bucket(spark, jetstream):
    jetstream.create_bucket("prices", history=5)
    jetstream.publish([(f"$KV.prices.k.{i % 100}", b"%d" % i) for i in range(350)])
    deleted = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    jetstream.publish([("$KV.prices.k.7", b"")], deleted)

    def bucket(**options: str):
        source = spark.read.format("jetstream").option("servers", jetstream.url)
        return source.options(bucket="prices", **options)

    current = bucket().load()
    assert current.columns == ["key", "value", "operation", "revision", "timestamp"]
    values = {row.key: int(row.value) for row in current.collect()}
    last = {f"k.{i % 100}": i for i in range(350)}
    del last["k.7"]
    assert values == last
    assert bucket().schema("key STRING").load().where("key = 'k.7'").count() == 0
    history = bucket(kvMode="history", keys="k.7").load().orderBy("revision").collect()
    assert [row.operation for row in history] == ["PUT", "PUT", "PUT", "PUT", "DEL"]
    assert history[-1].value is None
    jetstream.delete_stream("KV_prices")
