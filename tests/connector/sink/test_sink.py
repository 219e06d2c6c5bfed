"""Whole writes of a partition, without Spark, against the genuine server."""

from __future__ import annotations

import base64
import json
import random
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.errors import (
    ConnectorError,
    OptionsError,
    PublishRefusedError,
    RowRefusedError,
    StreamRecreatedError,
    WriterFencedError,
)
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns
from jetstream_spark.sink.writer import JetStreamWriter, write_partition
from tests.forgotten_ids import until_forgotten

pytestmark = pytest.mark.genuine
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
HEADER_MAP = MapType(StringType(), ArrayType(StringType()))
HEADERS = StructType().add("data", StringType()).add("headers", HEADER_MAP)
WITH_IDS = (
    StructType().add("data", StringType()).add("subject", StringType()).add("msgId", StringType())
)


def batch(subject: str, rows: list) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([subject] * len(rows)), pa.array(rows, pa.binary())], ["subject", "data"]
    )


def query(name: str, version: int = 1) -> Scope:
    return Scope(ScopeKind.QUERY, name, version)


def write(stream, scope, batches, partition=0, schema=SCHEMA, **options):
    sink = stream.sink(**options)
    return write_partition(sink, SinkColumns(schema, sink), iter(batches), scope, partition)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % n for n in range(start, start + count)]


@pytest.fixture
def forgetful(make_stream, genuine):
    """A stream that forgets message ids at once, as if two minutes had passed."""
    return make_stream(genuine.url, duplicate_window=100_000_000)


def until_stored(stream, count: int) -> None:
    """Wait for what a torn attempt has sent: once its connection ends, some of that may be lost."""
    deadline = time.monotonic() + 60
    while stream.count < count:
        assert time.monotonic() < deadline, f"{stream.count} of {count} are stored"
        time.sleep(0.01)


def test_a_partition_is_written_and_run_again_without_effect(stream) -> None:
    rows = [batch(f"{stream.subject}.a", numbered(300)), batch(f"{stream.subject}.b", numbered(5))]
    first = write(stream, query("q1"), rows)
    assert (first.rows, first.duplicates, first.skipped) == (305, 0, 0)
    assert first.data_bytes == 6 * 305
    again = write(stream, query("q1"), rows)
    assert (again.rows, again.skipped, again.data_bytes) == (305, 305, 0)
    assert [data for _, _, data in stream.messages()] == numbered(300) + numbered(5)
    assert b"Nats-Expected-Stream: " + stream.name.encode() in stream.messages()[0][1]


def test_outside_the_duplicate_window_a_finished_partition_writes_nothing_twice(forgetful) -> None:
    subject = f"{forgetful.subject}.a"
    rows = numbered(200) + [b"same"] * 3
    write(forgetful, query("q2"), [batch(subject, rows)])
    until_forgotten(forgetful.control, forgetful.name, subject)
    random.Random(1).shuffle(rows)
    again = write(forgetful, query("q2"), [batch(subject, rows[:50]), batch(subject, rows[50:])])
    assert (again.rows, again.skipped) == (203, 203)
    assert forgetful.count == 203


def test_outside_the_window_a_torn_partition_is_completed(forgetful) -> None:
    subject = f"{forgetful.subject}.a"

    def torn():
        yield batch(subject, [*numbered(100), b"same", b"same"])
        until_stored(forgetful, 102)
        raise RuntimeError("the task dies here")

    with pytest.raises(RuntimeError):
        write(forgetful, query("q3"), torn())
    until_forgotten(forgetful.control, forgetful.name, subject)
    whole = [*numbered(250), b"same", b"same", b"same"]
    random.Random(2).shuffle(whole)
    again = write(forgetful, query("q3"), [batch(subject, whole)])
    assert (again.rows, again.skipped) == (253, 102)
    assert again.data_bytes == 150 * 6 + 4  # of the others
    assert sorted(data for _, _, data in forgetful.messages()) == sorted(whole)


def test_a_torn_partition_is_found_under_the_subject_that_the_stream_gave_it(
    make_stream, genuine
) -> None:
    changed = {"src": "transformed.>", "dest": "kept.>"}
    subject, data = "transformed.a", StructType().add("data", BinaryType())
    stream = make_stream(
        genuine.url,
        subjects=["transformed.>"],
        subject_transform=changed,
        duplicate_window=100_000_000,
    )

    def torn():
        yield pa.record_batch([pa.array(numbered(100), pa.binary())], ["data"])
        until_stored(stream, 100)
        raise RuntimeError("the task dies here")

    with pytest.raises(RuntimeError):
        write(stream, query("q3t"), torn(), schema=data, subject=subject)
    until_forgotten(stream.control, stream.name, subject)
    whole = pa.record_batch([pa.array(numbered(250), pa.binary())], ["data"])
    again = write(stream, query("q3t"), [whole], schema=data, subject=subject)
    assert (again.skipped, stream.count) == (100, 250)
    assert stream.messages()[0][0] == "kept.a"


def test_rows_dealt_differently_after_a_finish_are_not_lost(forgetful, caplog) -> None:
    subject = f"{forgetful.subject}.a"
    write(forgetful, query("q4"), [batch(subject, [b"a", b"b"])], partition=0)
    until_forgotten(forgetful.control, forgetful.name, subject)
    again = write(forgetful, query("q4"), [batch(subject, [b"a", b"c"])], partition=0)
    assert (again.rows, again.skipped) == (2, 1)
    assert "partition 0 of query:q4:1" in caplog.text and "are written twice" in caplog.text
    write(forgetful, query("q4"), [batch(subject, [b"b", b"d"])], partition=1)
    assert {data for _, _, data in forgetful.messages()} == {b"a", b"b", b"c", b"d"}


def test_a_committed_batch_is_not_written_by_any_partition(forgetful) -> None:
    subject = f"{forgetful.subject}.a"
    writer = JetStreamWriter(forgetful.sink(), SCHEMA)
    message = write(forgetful, query("q5"), [batch(subject, numbered(10))])
    writer.commit([message, None])
    until_forgotten(forgetful.control, forgetful.name, subject)
    for partition in (0, 1):
        again = write(forgetful, query("q5"), [batch(subject, numbered(10))], partition)
        assert again.skipped == 10
    assert forgetful.count == 10
    with pytest.raises(WriterFencedError):
        write(forgetful, query("q5", 0), [batch(subject, numbered(10))])


@pytest.mark.parametrize("history", [1, 2])
def test_an_attempt_that_follows_another_does_not_bring_back_what_was_replaced(
    make_stream, genuine, history
) -> None:
    stream = make_stream(genuine.url, max_msgs_per_subject=history, duplicate_window=100_000_000)

    def rows(*pairs: str) -> pa.RecordBatch:
        return pa.record_batch(
            [[f"{stream.subject}.{one[0]}" for one in pairs], [one[1:].encode() for one in pairs]],
            ["subject", "data"],
        )

    first, second = rows("a1", "b1", "a2", "a3"), rows("b2", "c1", "b3")

    def torn():
        yield first
        while stream.count < min(history, 3) + 1:
            time.sleep(0.01)
        raise RuntimeError("the task dies here")

    with pytest.raises(RuntimeError):
        write(stream, query("kept"), torn(), maxInFlight=1)
    until_forgotten(stream.control, stream.name, f"{stream.subject}.a")
    again = write(stream, query("kept"), [first, second])
    assert (again.rows, again.skipped) == (7, 4)
    kept = {subject[-1]: data for subject, _, data in messages_of(stream)}
    assert kept == {"a": b"3", "b": b"3", "c": b"1"}
    assert stream.control.stream_state(stream.name).next == 8


def messages_of(stream) -> list[tuple[str, bytes, bytes]]:
    """What is there of a stream from which messages were removed."""
    state, found = stream.control.stream_state(stream.name), []
    sequence = stream.control.next_sequence(stream.name, state.first)
    while sequence is not None:
        message = stream.control.request(f"STREAM.MSG.GET.{stream.name}", {"seq": sequence})
        data = base64.b64decode(message["message"]["data"])
        found.append((message["message"]["subject"], b"", data))
        sequence = stream.control.next_sequence(stream.name, sequence + 1)
    return found


def test_a_second_write_under_one_transaction_is_skipped_and_told(stream, caplog) -> None:
    scope = Scope(ScopeKind.TRANSACTION, "app", 1)
    writer = JetStreamWriter(stream.sink(), SCHEMA)
    for data in ([b"a", b"b"], [b"b", b"a"], [b"a", b"c"]):
        assert not caplog.records
        message = write(stream, scope, [batch(f"{stream.subject}.a", data)])
        writer.commit([message])
    assert (message.skipped, message.differs, stream.count) == (2, True, 2)
    assert "nothing was written of txnVersion 1 of txnAppId 'app'" in caplog.text


def test_own_ids_are_kept_and_torn_partitions_completed(forgetful) -> None:
    def rows(count):
        columns = [[str(n) for n in range(count)], [f"{forgetful.subject}.a"] * count]
        return pa.record_batch([*columns, [f"id-{n}" for n in range(count)]], WITH_IDS.names)

    def torn():
        yield rows(20)
        until_stored(forgetful, 20)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(forgetful, query("q6"), torn(), schema=WITH_IDS, dedupe="column")
    until_forgotten(forgetful.control, forgetful.name, f"{forgetful.subject}.a")
    write(forgetful, query("q6"), [rows(30)], schema=WITH_IDS, dedupe="column")
    assert forgetful.count == 30
    assert b"Nats-Msg-Id: id-29\r\n" in forgetful.messages()[29][1]


def test_a_work_queue_relies_on_the_window(make_stream, genuine, caplog) -> None:
    queue = make_stream(genuine.url, retention="workqueue")

    def torn():
        yield batch(f"{queue.subject}.a", numbered(5))
        until_stored(queue, 5)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(queue, query("q7"), torn())
    again = write(queue, query("q7"), [batch(f"{queue.subject}.a", numbered(10))])
    assert (again.duplicates, queue.count) == (5, 10)
    assert "which has workqueue retention" in caplog.text


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_where_nothing_can_be_looked_up_a_short_window_is_refused(
    make_stream, genuine, retention
) -> None:
    short = make_stream(genuine.url, retention=retention, duplicate_window=1_000_000_000)
    rows = [batch(f"{short.subject}.a", numbered(3))]
    with pytest.raises(
        OptionsError, match=rf"minDuplicateWindow.*{retention} retention.*after 1 s"
    ):
        write(short, query("q7s"), rows)
    assert write(short, query("q7s"), rows, minDuplicateWindow="1s").rows == 3


def test_headers_travel_and_the_sinks_own_are_replaced(stream) -> None:
    headers = [{"Trace": ["1", "2"], "Nats-Msg-Id": ["old"], "Nats-Expected-Stream": ["OLD"]}, None]
    columns = [
        pa.array(["x", "y"]),
        pa.array(
            [h and list(h.items()) for h in headers], pa.map_(pa.string(), pa.list_(pa.string()))
        ),
    ]
    rows = pa.record_batch(columns, ["data", "headers"])
    write(stream, query("q8"), [rows], schema=HEADERS, subject=f"{stream.subject}.h")
    (_, first, one), (_, second, other) = stream.messages()
    assert (one, other) == (b"x", b"y")
    assert b"Trace: 1\r\nTrace: 2\r\n" in first and b"old" not in first and b"OLD" not in first
    assert first.count(b"Nats-Msg-Id: ") == second.count(b"Nats-Msg-Id: ") == 1


FORGETFUL = [{"ledger": "none", "minDuplicateWindow": "100ms"}, {"dedupe": "none"}]


@pytest.mark.parametrize("options", FORGETFUL)
def test_without_a_ledger_a_version_of_the_past_is_written_again(forgetful, options) -> None:
    """What a checkpoint that was rolled back, or a second run of the same query, writes."""
    subject = f"{forgetful.subject}.a"
    for version in (1, 2, 1):
        rows = [batch(subject, [b"%d" % version])]
        written = write(forgetful, query("past", version), rows, **options)
        assert (written.skipped, written.duplicates) == (0, 0)
        until_forgotten(forgetful.control, forgetful.name, subject)
    assert [data for _, _, data in forgetful.messages()] == [b"1", b"2", b"1"]


def test_without_a_ledger_the_window_recognises_a_version_of_the_past(stream) -> None:
    for version, duplicates in ((1, 0), (2, 0), (1, 1)):
        rows = [batch(f"{stream.subject}.a", [b"%d" % version])]
        written = write(stream, query("past", version), rows, ledger="none")
        assert written.duplicates == duplicates
    assert [data for _, _, data in stream.messages()] == [b"1", b"2"]


@pytest.mark.parametrize("options", FORGETFUL)
@pytest.mark.parametrize("harm", ["delete", "purge"])
def test_without_a_ledger_a_stream_that_lost_its_rows_is_written_on(
    forgetful, options, harm
) -> None:
    for version in (1, 2):
        rows = [batch(f"{forgetful.subject}.a", [b"%d" % version])]
        sink = Sink(this_host(), forgetful.sink(**options), None, list)
        written = write(forgetful, query("lost", version), rows, **options)
        run(sink.commit([written]))
        if version == 1:
            harm_stream(forgetful, harm)
    assert [data for _, _, data in forgetful.messages()] == [b"2"]


def harm_stream(stream, harm: str) -> None:
    config = stream.control.stream_state(stream.name).config
    stream.control.request(f"STREAM.{harm.upper()}.{stream.name}")
    if harm == "delete":
        stream.control.request(f"STREAM.CREATE.{stream.name}", config)


def test_without_a_ledger_a_stream_made_anew_within_a_batch_is_an_error(forgetful) -> None:
    written = []
    for partition in (0, 1):
        rows = [batch(f"{forgetful.subject}.a", [b"%d" % partition])]
        written.append(write(forgetful, query("torn"), rows, partition, **FORGETFUL[0]))
        harm_stream(forgetful, "delete")
    sink = Sink(this_host(), forgetful.sink(**FORGETFUL[0]), None, list)
    run(sink.commit(written[:1]))
    with pytest.raises(StreamRecreatedError, match="while query:torn:1 was written"):
        run(sink.commit(written))


def test_without_ids_every_run_writes(stream) -> None:
    for _ in range(2):
        written = write(
            stream, query("q9"), [batch(f"{stream.subject}.a", numbered(4))], dedupe="none"
        )
    assert (written.skipped, stream.count) == (0, 8)


@pytest.mark.parametrize(
    ("subject", "data", "reason"),
    [
        (None, b"x", "its subject is null"),
        ("a b", b"x", "its subject has a blank"),
        ("a..b", b"x", "its subject has an empty token"),
        ("", b"x", "its subject has an empty token"),
        ("a.*", b"x", "its subject has a wildcard"),
        ("$JS.API.STREAM.DELETE.X", b"x", "its subject belongs to the server itself"),
        ("a" * 4000, b"x", "longer than"),
        (None, None, "its subject is null"),
        ("ok", None, "its data is null.*nullData=empty"),
    ],
)
def test_a_bad_row_is_named_and_stops_the_write(stream, subject, data, reason) -> None:
    good = f"{stream.subject}.a"
    rows = pa.record_batch([[good, good, subject], [b"1", b"2", data]], ["subject", "data"])
    lead = batch(good, numbered(100))
    with pytest.raises(RowRefusedError, match=f"row 102 .*{reason}"):
        write(stream, query(f"bad{stream.name}"), [lead, rows])


def test_null_data_may_be_empty_messages(stream) -> None:
    rows = batch(f"{stream.subject}.a", [None, b"x"])
    write(stream, query("q10"), [rows], nullData="empty")
    assert [data for _, _, data in stream.messages()] == [b"", b"x"]


@pytest.mark.parametrize(
    ("name", "value"), [("a b", "x"), ("", "x"), ("a:b", "x"), ("A", "x\r\nEvil: y")]
)
def test_headers_cannot_smuggle_lines(stream, name, value) -> None:
    maps = pa.array([[], [(name, [value])]], pa.map_(pa.string(), pa.list_(pa.string())))
    rows = pa.record_batch([["x", "y"], maps], ["data", "headers"])
    with pytest.raises(RowRefusedError, match=r"row 1 .*its header"):
        write(stream, query("q11"), [rows], schema=HEADERS, subject=f"{stream.subject}.a")
    assert stream.count == 0


def test_a_wrong_stream_is_refused_with_its_remedy(stream, make_stream, genuine) -> None:
    other = make_stream(genuine.url)
    with pytest.raises(PublishRefusedError, match=r"expected stream does not match.*option stream"):
        write(stream, query("q12"), [batch(f"{other.subject}.a", numbered(3))])
    assert other.count == 0


def test_without_a_ledger_the_window_must_be_long_enough(forgetful) -> None:
    rows = [batch(f"{forgetful.subject}.a", numbered(3))]
    with pytest.raises(OptionsError, match=r"minDuplicateWindow.* forgets message ids after 0.1 s"):
        write(forgetful, query("q13"), rows, ledger="none")
    written = write(forgetful, query("q13"), rows, ledger="none", minDuplicateWindow="50ms")
    assert written.rows == forgetful.count == 3


def test_an_empty_partition_is_written_too(stream) -> None:
    assert write(stream, query("q14"), []).rows == 0
    assert write(stream, query("q14"), [batch("x", [])]).rows == 0


def test_wide_rows_are_cut_into_blocks(stream) -> None:
    rows = [json.dumps({"n": n, "pad": "x" * 100_000}).encode() for n in range(200)]
    assert write(stream, query("q15"), [batch(f"{stream.subject}.a", rows)]).rows == 200
    assert stream.count == 200


def test_a_ledger_nobody_may_use_says_what_to_set(start_genuine, make_stream, tmp_path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        'authorization { users: [{user: u, password: p, permissions: {publish: {deny: "$KV.>"}}}] }'
    )
    server = start_genuine("-c", str(config))
    stream = make_stream(server.url, credentials={"user": "u", "password": "p"})
    with pytest.raises(ConnectorError, match=r"cannot be used.*ledger=none"):
        write(stream, query("q16"), [batch(f"{stream.subject}.a", numbered(3))])


CONDITIONAL = StructType([*SCHEMA, StructField("expectedLastSubjectSeq", LongType())])


def conditional(stream, *rows: tuple[str, bytes, int | None]) -> pa.RecordBatch:
    subjects, values, expected = zip(*rows, strict=True)
    return pa.record_batch(
        [
            pa.array([f"{stream.subject}.{one}" for one in subjects]),
            pa.array(values, pa.binary()),
            pa.array(expected, pa.int64()),
        ],
        CONDITIONAL.names,
    )


def test_rows_that_expect_what_is_there(stream) -> None:
    rows = [conditional(stream, ("a", b"1", 0), ("a", b"2", 1), ("b", b"3", None), ("b", b"4", 3))]
    assert write(stream, query("cas"), rows, schema=CONDITIONAL).rows == 4
    assert write(stream, query("cas"), rows, schema=CONDITIONAL).skipped == 4
    late = [conditional(stream, ("c", b"5", 0), ("a", b"6", 1))]
    with pytest.raises(PublishRefusedError, match=r"row 1 .*wrong last sequence.* somebody else"):
        write(stream, query("cas", 2), late, schema=CONDITIONAL)
    assert stream.count == 5


def test_an_attempt_that_follows_another_skips_what_that_one_stored(stream) -> None:
    rows = [conditional(stream, ("a", b"1", 0), ("b", b"2", 0), ("a", b"3", 9))]
    with pytest.raises(PublishRefusedError):
        write(stream, query("again"), rows, schema=CONDITIONAL, maxInFlight=1)
    assert stream.count == 2
    with pytest.raises(PublishRefusedError, match="row 2"):
        write(stream, query("again"), rows, schema=CONDITIONAL, maxInFlight=1)
    assert stream.count == 2


def test_messages_with_a_time_to_live(make_stream, genuine, stream) -> None:
    schema = StructType([*SCHEMA, StructField("ttl", StringType())])
    passing = make_stream(genuine.url, allow_msg_ttl=True)

    def rows(where, *ttls: str | None) -> list[pa.RecordBatch]:
        subjects = [f"{where.subject}.{i}" for i in range(len(ttls))]
        return [pa.record_batch([subjects, [b"x"] * len(ttls), list(ttls)], schema.names)]

    write(passing, query("ttl"), rows(passing, "1s", None, "never", "1h"), schema=schema)
    blocks = [headers for _, headers, _ in passing.messages()]
    assert [b"Nats-TTL" in block for block in blocks] == [True, False, True, True]
    deadline = time.monotonic() + 60
    while passing.count > 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert passing.count == 3
    with pytest.raises(PublishRefusedError, match="Set allow_msg_ttl on the stream"):
        write(stream, query("ttl"), rows(stream, "1h"), schema=schema)
