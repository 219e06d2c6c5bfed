"""The option maps of both sides: defaults, and all mistakes in one error."""

from __future__ import annotations

import pickle

import pytest

from jetstream_spark.errors import OptionsError
from jetstream_spark.options.format_options import (
    SINK_ONLY,
    SOURCE_ONLY,
    SinkOptions,
    SourceOptions,
)

BASE = {"servers": "nats://h:1", "stream": "A"}


def test_defaults_of_a_source():
    options = SourceOptions.parse(BASE)
    assert (options.streams, options.starting, options.fail_on_data_loss) == (("A",), None, True)
    assert (options.fetch_batch, options.fetch_max_bytes) == (10_000, 16 << 20)
    assert options.commit_mode is None
    assert pickle.loads(pickle.dumps(options)) == options


def test_all_mistakes_come_in_one_error():
    with pytest.raises(OptionsError) as raised:
        SourceOptions.parse(
            {
                "startingofsets": "x",
                "readTimeout": "fast",
                "maxOffsetsPerTrigger": "0",
                "password": "hunter2",
            }
        )
    text = str(raised.value)
    assert len(raised.value.problems) == 6
    for part in ("'servers' is required", "'stream' is required", "did you mean 'startingOffsets'"):
        assert part in text
    assert "hunter2" not in text
    assert pickle.loads(pickle.dumps(raised.value)).problems == raised.value.problems


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stream": "a.b"}, "a stream name has no"),
        ({"stream": "A,A"}, "more than once"),
        ({"subjects": "a..b"}, "empty token"),
        ({"subjects": "a.>.b"}, "must come last"),
        ({"startingOffsets": '{"B": 1}'}, "does not name A"),
        ({"startingOffsets": '{"A": 1, "B": 1}'}, "names B"),
        ({"startingOffsets": '{"A": -1}'}, "no sequence"),
        ({"startingOffsets": "soonest"}, "neither a word nor JSON"),
        ({"endingOffsets": "earliest"}, "always empty"),
        ({"endingOffsets": "latest", "endingTimestamp": "2026-01-01"}, "cannot be combined"),
        ({"startingTimestamp": "2026-01-02", "endingTimestamp": "2026-01-01"}, "is before"),
        ({"startingOffsets": '{"A": 9}', "endingOffsets": '{"A": 8}'}, "before startingOffsets"),
        ({"minPartitions": "9", "maxPartitions": "8"}, "more than maxPartitions"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "more than maxOffsets"),
        ({"commitMode": "later"}, "must be one of none, ack, purge"),
        ({"commitMode": "ack"}, "'consumer' and commitMode=ack go together"),
        ({"consumer": "c"}, "'consumer' = 'c' and commitMode=ack go together"),
        ({"consumer": "a.b", "commitMode": "ack"}, "'consumer' = 'a.b' is no name"),
        ({"fetchMode": "fast"}, "must be one of auto, consumer, direct"),
        ({"fetchMode": "direct", "subjects": "a,b"}, "cannot be direct with several subjects"),
        ({"keys": "a"}, "about the option bucket, which is not given"),
        ({"kvMode": "latest"}, "about the option bucket, which is not given"),
        ({"bucket": "b"}, "'stream' = 'A' cannot be combined with bucket"),
        ({"dedupe": "auto"}, "does not apply here"),
    ],
)
def test_mistakes_of_a_source(options, expected):
    with pytest.raises(OptionsError, match=expected):
        SourceOptions.parse(BASE | options)


def test_a_bucket_is_a_stream_of_its_own():
    bucket = {"servers": "nats://h:1", "bucket": "prices"}
    assert SourceOptions.parse(bucket).streams == ("KV_prices",)
    parsed = SourceOptions.parse(bucket | {"keys": "eu.*, us.>", "kvMode": "history"})
    assert parsed.subjects == ("$KV.prices.eu.*", "$KV.prices.us.>")
    assert (parsed.kv_mode, parsed.expects_removals) == ("history", True)
    assert not SourceOptions.parse(BASE).expects_removals


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"bucket": "a.b"}, "no name of a bucket"),
        ({"keys": "a..b"}, "has the entry 'a..b'"),
        ({"keys": "a.>.b"}, "has the entry"),
        ({"keys": "a b"}, "a key is letters"),
        ({"subjects": "a"}, "use keys"),
        ({"commitMode": "purge"}, "cannot be combined with bucket"),
        ({"kvMode": "newest"}, "must be one of latest, history, changes"),
        ({"startingOffsets": '{"prices": 3}'}, "does not name KV_prices"),
    ],
)
def test_mistakes_about_a_bucket(options, expected):
    with pytest.raises(OptionsError, match=expected):
        SourceOptions.parse({"servers": "nats://h:1", "bucket": "prices"} | options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subject": "a.*"}, "wildcard"),
        ({"subject": "a..b"}, "empty token"),
        ({"txnAppId": "x"}, "txnVersion go together"),
        ({"onError": "deadLetter"}, "go together"),
        ({"startingOffsets": "latest"}, "does not apply here"),
        ({"maxInFlight": "0"}, "1 or more"),
    ],
)
def test_mistakes_of_a_sink(options, expected):
    with pytest.raises(OptionsError, match=expected):
        SinkOptions.parse(BASE | options)


def test_a_starting_point_may_be_what_spark_prints():
    printed = '{"v": 1, "streams": {"A": {"created": "t", "next": 42}}}'
    assert SourceOptions.parse(BASE | {"startingOffsets": printed}).starting == {"A": 42}


def test_the_sides_know_what_is_only_the_others():
    assert "dedupe" in SINK_ONLY and "startingOffsets" in SOURCE_ONLY
    assert not {"servers", "stream", "password"} & {*SINK_ONLY, *SOURCE_ONLY}


def test_a_name_that_users_of_kafka_know_is_understood():
    base = {"servers": "nats://h:1", "stream": "S"}
    parsed = SourceOptions.parse(base | {"maxrecordsperpartition": "7"})
    assert parsed.max_offsets_per_partition == 7
    with pytest.raises(OptionsError, match=r"maxRecordsPerPartition' = 'x'"):
        SourceOptions.parse(base | {"maxRecordsPerPartition": "x"})
    with pytest.raises(OptionsError, match="another name of 'maxOffsetsPerPartition'"):
        SourceOptions.parse(base | {"maxRecordsPerPartition": "7", "maxOffsetsPerPartition": "7"})


SOURCE = {"servers": "nats://h:1", "stream": "A,B"}


def test_times_for_every_stream():
    options = SourceOptions.parse(
        SOURCE
        | {"startingTimestamp": '{"A": "1970-01-01T00:00:01Z", "B": 20000}'}
        | {"endingTimestamp": "1970-01-01T00:00:30Z"}
    )
    assert options.starting_timestamp_ns == {"A": 10**9, "B": 20 * 10**9}
    assert options.ending_timestamp_ns == 30 * 10**9


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"startingTimestamp": '{"A": 20000}'}, "does not name B"),
        ({"startingTimestamp": '{"A": 20000, "B": 20000, "C": 20000}'}, "names C"),
        ({"startingTimestamp": '{"A": 20000, "B": true}'}, "True for 'B', which is no time"),
        ({"startingTimestamp": '{"A": 20000, "B": "x"}'}, "'x' for 'B', which is not a time"),
        ({"endingTimestamp": "{"}, "is no JSON"),
        (
            {"startingTimestamp": "90000", "endingTimestamp": '{"A": 99999, "B": 20000}'},
            "is before startingTimestamp in stream 'B'",
        ),
        ({"streamPattern": "A.*"}, "cannot be combined with stream"),
        ({"stream": "", "streamPattern": "A("}, "is no regular expression"),
        (
            {"stream": "", "streamPattern": "A.*", "startingOffsets": '{"A": 1}'},
            "which streamPattern finds only later",
        ),
        ({"stream": "", "bucket": "b", "streamPattern": "A"}, "cannot be combined with bucket"),
    ],
)
def test_mistakes_of_several_streams(given, problem):
    named = {key: value for key, value in (SOURCE | given).items() if value}
    with pytest.raises(OptionsError) as raised:
        SourceOptions.parse(named)
    assert problem in str(raised.value)


def test_a_pattern_is_for_the_whole_name():
    options = SourceOptions.parse({"servers": "nats://h:1", "streamPattern": "ORDERS_.*|X"})
    assert options.streams == ()
    names = ("ORDERS_1", "ORDERS_", "ORDERS", "MY_ORDERS_1", "X", "XY")
    assert [name for name in names if options.is_about(name)] == ["ORDERS_1", "ORDERS_", "X"]
