"""Writes into key-value buckets, against the genuine server."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructType,
)

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Effect, Open
from jetstream_spark.errors import (
    OptionsError,
    PublishRefusedError,
    RowRefusedError,
    SchemaError,
    StreamNotFoundError,
)
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from tests.connector.cut_wires import outgoing, watched, without_answer
from tests.forgotten_ids import until_forgotten

pytestmark = pytest.mark.genuine
KINDS = {
    "key": StringType(),
    "value": BinaryType(),
    "operation": StringType(),
    "revision": LongType(),
    "ttl": StringType(),
    "msgId": StringType(),
}
ARROW = {"revision": pa.int64(), "value": pa.binary()}
_numbers = iter(range(1, 1000))


class Bucket:
    """A bucket of a test."""

    def __init__(self, url: str, **config) -> None:
        self.name = f"b{next(_numbers)}"
        self.url = url
        self.control = Blocking(Control(this_host(), self.options().connection, "test"))
        body = {
            "name": f"KV_{self.name}",
            "subjects": [f"$KV.{self.name}.>"],
            "max_msgs_per_subject": 1,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "discard": "new",
            **config,
        }
        self.control.request(f"STREAM.CREATE.KV_{self.name}", body)

    def options(self, **more: str) -> SinkOptions:
        named = {"servers": self.url, "bucket": self.name, "requestTimeout": "2s"}
        return SinkOptions.parse(named | more)

    def writing(self, *rows: dict, version: int = 1, **more: str):
        """The write of rows, as an operation."""
        names = [name for name in KINDS if any(name in row for row in rows)]
        schema = StructType()
        for name in names:
            schema = schema.add(name, KINDS[name])
        arrays = [
            pa.array([row.get(name) for row in rows], ARROW.get(name, pa.string()))
            for name in names
        ]
        options = self.options(**more)
        sink = Sink(this_host(), options, columns_of_write(schema, options), list)
        scope = Scope(ScopeKind.QUERY, self.name, version)
        return sink.write_partition([pa.record_batch(arrays, names)], scope, 0)

    def write(self, *rows: dict, version: int = 1, **more: str):
        return run(self.writing(*rows, version=version, **more))

    def last(self, key: str) -> tuple[bytes, bytes]:
        """Value and header block of a key's last revision."""
        body = {"last_by_subj": f"$KV.{self.name}.{key}"}
        message = self.control.request(f"STREAM.MSG.GET.KV_{self.name}", body)["message"]
        value, block = (base64.b64decode(message.get(part, "")) for part in ("data", "hdrs"))
        return value, block

    @property
    def state(self):
        return self.control.stream_state(f"KV_{self.name}")


@pytest.fixture
def bucket(genuine) -> Bucket:
    return Bucket(genuine.url)


def put(key: str, value: bytes | None = b"v", **more) -> dict:
    return {"key": key, "value": value, **more}


def test_each_operation_does_what_it_says(genuine) -> None:
    bucket = Bucket(genuine.url, max_msgs_per_subject=5)
    bucket.write(put("a", b"1"), put("b.c", b"2"), put("d/e", b"3"))
    bucket.write(
        put("a", b"4", operation="update", revision=1),
        put("new", b"5", operation="Create"),
        put("b.c", None, operation="DEL"),
        put("d/e", b"ignored", operation="purge", revision=3),
        put("a", b"6", operation=None),
        version=2,
    )
    assert bucket.last("a")[0] == b"6"
    assert bucket.last("new")[0] == b"5"
    value, block = bucket.last("b.c")
    assert (value, b"KV-Operation: DEL\r\n" in block) == (b"", True)
    value, block = bucket.last("d/e")
    assert value == b"" and b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n" in block
    assert (bucket.state.next, bucket.state.messages) == (9, 7)  # the purged revision is gone


@pytest.mark.parametrize(
    "row",
    [
        put("a", operation="create"),
        put("a", operation="update", revision=7),
        put("a", None, operation="delete", revision=7),
        put("a", None, operation="purge", revision=7),
    ],
)
def test_a_conflict_is_an_error_or_a_dead_letter(bucket, make_stream, genuine, row) -> None:
    bucket.write(put("a", b"1"))
    with pytest.raises(PublishRefusedError, match=rf"'\$KV.{bucket.name}.a'.*10071.*meanwhile"):
        bucket.write(row, version=2)
    dead = make_stream(genuine.url)
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    written = bucket.write(row, put("b", b"2"), version=3, **options)
    assert (written.rows, written.dead_letters, dead.count) == (2, 1, 1)
    _, block, _ = dead.messages()[0]
    assert b"Dead-Letter-Reason: wrong last sequence: 1" in block
    assert f"Dead-Letter-Subject: $KV.{bucket.name}.a".encode() in block
    assert (bucket.last("a")[0], bucket.last("b")[0]) == (b"1", b"2")


def test_a_create_finds_a_deleted_key_taken(bucket) -> None:
    bucket.write(put("a", None, operation="delete"))
    with pytest.raises(PublishRefusedError, match="10071"):
        bucket.write(put("a", operation="create"), version=2)


@pytest.mark.parametrize("more", [{}, {"ledger": "none", "minDuplicateWindow": "100ms"}])
def test_each_operation_is_done_once_though_its_answer_is_lost(genuine, more) -> None:
    bucket = Bucket(genuine.url, duplicate_window=100_000_000)
    bucket.write(put("u", b"1"), put("d", b"1"), put("p", b"1"))
    write = bucket.writing(
        put("a", b"1"),
        put("c", b"2", operation="create"),
        put("u", b"3", operation="update", revision=1),
        put("d", None, operation="delete", revision=2),
        put("p", None, operation="purge", revision=3),
        put("a", b"4"),
        version=2,
        **more,
    )
    run(without_answer(write, lambda sent: b"Nats-Msg-Id" in sent))
    assert bucket.state.next == 10
    assert [bucket.last(key)[0] for key in "acudp"] == [b"4", b"2", b"3", b"", b""]


@pytest.mark.parametrize(
    ("is_forgotten", "last", "revisions"), [(False, b"theirs", 2), (True, b"ours", 3)]
)
def test_another_writer_replaces_a_row_whose_answer_is_lost(
    genuine, is_forgotten, last, revisions
) -> None:
    """Whether it was stored nobody can tell then; a `put` that is not acknowledged may be done
    again, unless the server remembers its id."""
    bucket = Bucket(genuine.url, duplicate_window=10**8 if is_forgotten else 120 * 10**9)

    def replace(effect: Effect) -> tuple[()]:
        if isinstance(effect, Open) and bucket.state.next == 2:
            if is_forgotten:
                until_forgotten(bucket.control, f"KV_{bucket.name}", f"$KV.{bucket.name}.a")
            bucket.control.request_message(f"$KV.{bucket.name}.a", b"theirs")
        return ()

    write = without_answer(bucket.writing(put("a", b"ours")), lambda sent: b"Nats-Msg-Id" in sent)
    run(watched(write, replace))
    assert (bucket.last("a")[0], bucket.state.next - 1) == (last, revisions)


def test_a_write_that_runs_again_does_nothing(bucket) -> None:
    rows = [put("a", b"1", operation="create"), put("b", None, operation="purge")]
    bucket.write(*rows)
    again = bucket.write(*rows)
    assert (again.rows, again.skipped, bucket.state.next) == (2, 2, 3)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"ledger": "none"},
        {"ledger": "none", "publishMode": "fast"},
        {"ledger": "none", "publishMode": "atomic"},
    ],
)
@pytest.mark.parametrize(
    "last", [put("a", b"2"), put("a", None, operation="delete")], ids=["put", "delete"]
)
def test_no_key_goes_back_after_a_restart_of_the_server(start_genuine, more, last) -> None:
    """The server only knows the ids of messages that it still has. So it takes the earlier row
    anew, and the later one for a duplicate."""
    server = start_genuine()
    config = {"max_msgs_per_subject": 1, "allow_atomic": True, "allow_batched": True}
    bucket = Bucket(server.url, **config)
    rows = [put("a", b"1"), last]
    bucket.write(*rows, **more)
    server.kill()
    server.start()
    for _ in range(2):
        bucket.write(*rows, **more)
        assert bucket.last("a")[0] == (last["value"] or b"")


def covered(bucket: Bucket, *rows: dict, **more: str):
    """The write of rows of which the last one was stored before, and is known to the server."""
    bucket.write(rows[-1], **more)
    return bucket.writing(*rows, **more)


WITHOUT = {"ledger": "none"}


def test_a_row_is_stored_again_as_it_was(genuine) -> None:
    bucket = Bucket(genuine.url, allow_msg_ttl=True)
    headers = put("a", None, operation="purge", ttl="1h")
    run(covered(bucket, put("a", b"1", operation=None, ttl=None), headers, **WITHOUT))
    value, block = bucket.last("a")
    kept = [b"KV-Operation: PURGE", b"Nats-Rollup: sub", b"Nats-TTL: 1h"]
    assert value == b"" and all(line + b"\r\n" in block for line in kept)
    assert (bucket.state.messages, bucket.state.next) == (1, 4)


@pytest.mark.parametrize("ledger", ["auto", "none"])
def test_what_the_user_says_was_there_before_is_not_stored_again(bucket, ledger) -> None:
    """With ids of the user's own a duplicate may be an old change that came twice."""
    columns = {"dedupe": "column", "ledger": ledger}
    rows = [put("a", b"1", msgId="x"), put("a", b"2", msgId="y"), put("a", b"1", msgId="x")]
    bucket.write(*rows, **columns)
    assert (bucket.last("a")[0], bucket.state.next) == (b"2", 3)
    bucket.write(put("a", b"3", msgId="z"), rows[0], version=2, **columns)
    assert (bucket.last("a")[0], bucket.state.next) == (b"3", 4)


def test_with_ids_of_the_users_own_a_key_may_go_back_after_a_restart_without_the_ledger(
    start_genuine,
) -> None:
    """A limit, stated as such: which of the two it is nobody can tell."""
    server = start_genuine()
    bucket = Bucket(server.url)
    rows = [put("a", b"1", msgId="x"), put("a", b"2", msgId="y")]
    bucket.write(*rows, dedupe="column", **WITHOUT)
    server.kill()
    server.start()
    bucket.write(*rows, dedupe="column", **WITHOUT)
    assert bucket.last("a")[0] == b"1"


def test_no_key_goes_back_when_an_attempt_ended_between_two_rows(bucket) -> None:
    """Then the server knows both ids, and nothing is stored anew."""
    rows = [put("a", b"1"), put("b", b"1"), put("a", b"2")]
    for part in (rows[2:], rows[:2], rows):
        bucket.write(*part, **WITHOUT)
    assert (bucket.last("a")[0], bucket.last("b")[0]) == (b"2", b"1")
    assert bucket.state.next == 5
    bucket.write(*rows, **WITHOUT)
    assert bucket.state.next == 5


def test_a_row_that_is_stored_again_does_not_cover_what_somebody_else_wrote(bucket) -> None:
    def replace(effect: Effect) -> tuple[()]:
        if b".again" in outgoing(effect) and bucket.last("a")[0] == b"1":
            bucket.control.request_message(f"$KV.{bucket.name}.a", b"theirs")
        return ()

    rows = [put("b", b"1"), put("b", b"2"), put("a", b"1"), put("a", b"2")]
    bucket.write(rows[1], **WITHOUT)
    run(watched(covered(bucket, *rows, **WITHOUT), replace))
    assert (bucket.last("a")[0], bucket.last("b")[0]) == (b"theirs", b"2")


def test_the_answer_about_a_row_that_is_stored_again_is_lost(bucket) -> None:
    write = covered(bucket, put("a", b"1"), put("a", b"2"), **WITHOUT)
    run(without_answer(write, lambda sent: b".again" in sent, times=2))
    assert (bucket.last("a")[0], bucket.state.next) == (b"2", 4)


def test_covered_rows_do_not_pile_up(bucket, monkeypatch) -> None:
    """A row that is stored again in the middle may be covered after all by a later row."""
    monkeypatch.setattr("jetstream_spark.sink.publisher.COVERED_BYTES_MAX", 0)
    monkeypatch.setattr("jetstream_spark.sink.sink.BLOCK_BYTES", 1)
    rows = [put("a", b"1"), put("a", b"2"), put("b", b"1"), put("a", b"3"), put("b", b"2")]
    bucket.write(rows[1], rows[3], **WITHOUT)
    bucket.write(*rows, maxInFlight="1", **WITHOUT)
    assert (bucket.last("a")[0], bucket.last("b")[0]) == (b"3", b"2")
    assert bucket.state.next == 8  # two before, three that were new, two again


def test_covered_rows_do_not_pile_up_though_their_answers_are_lost(bucket, monkeypatch) -> None:
    monkeypatch.setattr("jetstream_spark.sink.publisher.COVERED_BYTES_MAX", 0)
    monkeypatch.setattr("jetstream_spark.sink.sink.BLOCK_BYTES", 1)
    rows = [put("a", b"1"), put("a", b"2"), put("b", b"1"), put("a", b"3")]
    bucket.write(rows[1], rows[3], **WITHOUT)
    write = bucket.writing(*rows, maxInFlight="1", **WITHOUT)
    run(without_answer(write, lambda sent: b".again" in sent, times=2))
    assert (bucket.last("a")[0], bucket.state.next) == (b"3", 7)


def test_a_row_that_no_longer_fits_is_named(start_genuine) -> None:
    server = start_genuine()
    bucket = Bucket(server.url, max_msg_size=1_000)
    bucket.write(put("a", b""), **WITHOUT)
    largest = put("a", b"x" * (1_000 - len(bucket.last("a")[1])))
    with pytest.raises(PublishRefusedError, match=r"row 1 .*10054"):
        run(covered(bucket, put("a", b"1"), largest, **WITHOUT))


def test_a_value_with_a_time_to_live(genuine) -> None:
    bucket = Bucket(genuine.url, allow_msg_ttl=True)
    bucket.write(put("a", b"1", ttl="1h"))
    assert b"Nats-TTL: 1h\r\n" in bucket.last("a")[1]
    with pytest.raises(PublishRefusedError, match=r"Set allow_msg_ttl on the stream"):
        Bucket(genuine.url).write(put("a", b"1", ttl="1h"))


def test_a_bucket_that_is_not_there(bucket) -> None:
    bucket.control.request(f"STREAM.DELETE.KV_{bucket.name}")
    with pytest.raises(StreamNotFoundError, match=f"KV_{bucket.name}"):
        bucket.write(put("a"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (put(None), "its key is None"),
        (put("a..b"), r"its key is 'a\.\.b'"),
        (put("a b"), "its key is 'a b'"),
        (put("a.>"), r"its key is 'a\.>'"),
        (put("a\n"), "its key is"),
        (put("a", None), "its data is null"),
        (put("a", operation="upsert"), "its operation is 'upsert', and must be one of put"),
        (put("a", operation="update"), "its operation is update, and its revision is null"),
        (put("a", operation="put", revision=3), "which goes with no revision; update does"),
        (put("a", operation="create", revision=0), "which goes with no revision"),
        (put("a", operation="update", revision=-1), "cannot be -1"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(bucket, row, reason) -> None:
    good = put("ok", operation="put", revision=None)
    with pytest.raises(RowRefusedError, match=rf"(?s)row 1 .*{reason}"):
        bucket.write(good, row)


def test_a_revision_alone_is_an_update(bucket) -> None:
    bucket.write(put("a", b"1"))
    bucket.write(put("a", b"2", revision=1), put("b", b"3", revision=None), version=2)
    assert (bucket.last("a")[0], bucket.last("b")[0]) == (b"2", b"3")


def test_columns_that_do_not_fit_are_all_named(bucket) -> None:
    schema = StructType().add("value", LongType()).add("subject", StringType())
    with pytest.raises(SchemaError) as caught:
        columns_of_write(schema, bucket.options())
    text = str(caught.value)
    assert "no column 'key'" in text and "'value' is bigint" in text and "'subject'" in text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"bucket": "a.b"}, "is no name of a bucket"),
        ({"bucket": "a", "stream": "S"}, "cannot be combined with bucket"),
        ({"bucket": "a", "subject": "s"}, "cannot be combined with bucket"),
        ({"bucket": "a", "keys": "x"}, "does not apply here"),
    ],
)
def test_options_that_do_not_fit(options, problem) -> None:
    with pytest.raises(OptionsError, match=problem):
        SinkOptions.parse({"servers": "nats://a:1"} | options)
