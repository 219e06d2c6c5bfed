"""Every mistake at once, without a server; with one, what it says of streams and permissions."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructType

import jetstream_spark
from jetstream_spark.client import pool
from jetstream_spark.client.blocking import this_host
from jetstream_spark.errors import OptionsError

READ = {"servers": "nats://127.0.0.1:1", "stream": "A", "outageTimeout": "1s"}
WRITE = {"servers": "nats://127.0.0.1:1", "stream": "A", "subject": "a.b", "outageTimeout": "1s"}


def only(problems: list[str]) -> str:
    [problem] = problems
    return problem


@pytest.mark.parametrize("side", ["read", "readStream"])
def test_a_read_without_mistakes(side):
    assert jetstream_spark.validate(READ | {"includeHeaders": True, "domain": None}, side) == []


@pytest.mark.parametrize("side", ["write", "writeStream"])
def test_a_write_without_mistakes(side):
    assert jetstream_spark.validate(WRITE, side) == []


def test_everything_is_said_at_once():
    options = READ | {"commitMode": "purge", "startingOffsets": "latest", "fetchBatch": 0}
    problems = jetstream_spark.validate(
        options | {"subjetcs": "a"}, "read", StructType().add("x", LongType())
    )
    assert [problem.split("'")[1] for problem in problems[:4]] == [
        "fetchBatch",
        "subjetcs",
        "startingOffsets",
        "commitMode",
    ]
    assert "'x'" in problems[4]
    assert len(problems) == 5


def test_what_only_one_kind_of_read_can_do():
    options = READ | {"endingOffsets": '{"A": 7}'}
    assert jetstream_spark.validate(options, "read") == []
    assert "batch reads only" in only(jetstream_spark.validate(options, "readStream"))


def test_the_columns_of_a_write():
    schema = StructType().add("data", LongType()).add("subject", StringType())
    problem = only(jetstream_spark.validate(WRITE, "write", schema))
    assert "'data' is bigint, but must be binary or string" in problem


def test_options_of_the_other_side():
    assert "does not apply here" in only(jetstream_spark.validate(WRITE, "read")[:1])
    with pytest.raises(ValueError, match="readStream"):
        jetstream_spark.validate(READ, "source")


def test_the_columns_of_a_read():
    names = ["subject", "data", "stream", "seq", "timestamp"]
    assert jetstream_spark.schema(READ).names == names
    with_headers = jetstream_spark.schema(READ | {"includeHeaders": True})
    assert with_headers.names == [*names, "headers"]
    assert with_headers["headers"].dataType.simpleString() == "map<string,array<string>>"
    bucket = {"servers": "h", "bucket": "prices"}
    assert jetstream_spark.schema(bucket).names[:3] == ["key", "value", "operation"]
    with pytest.raises(OptionsError, match="streamPattern"):
        jetstream_spark.schema({"servers": "h"})


# --- with servers -----------------------------------------------------------------------------


def ask(options: dict[str, str], side: str) -> list[str]:
    try:
        return jetstream_spark.validate(options, side, connect=True)
    finally:
        pool.close_all(this_host())


@pytest.mark.parametrize(("options", "side"), [(READ, "readStream"), (WRITE, "write")])
def test_no_server(options, side):
    assert only(ask(options, side)).startswith("[CONNECTION_FAILED]")


@pytest.mark.genuine
def test_a_stream_that_can_be_read_is_left_as_it_was(stream):
    options = {"servers": stream.url, "stream": stream.name}
    assert ask(options, "readStream") == []
    stream.control.request_message(f"{stream.subject}.x", b"1")
    for side in ("read", "readStream"):
        assert ask(options, side) == []
    info = stream.control.request(f"STREAM.INFO.{stream.name}")
    assert (info["state"]["messages"], info["state"]["consumer_count"]) == (1, 0)


@pytest.mark.genuine
def test_each_stream_has_its_say(make_stream, genuine):
    queue = make_stream(genuine.url, retention="workqueue")
    options = {"servers": genuine.url, "stream": f"{queue.name},NOWHERE"}
    problems = ask(options, "readStream")
    assert [problem.split()[0] for problem in problems] == [
        "[RETENTION_REFUSED]",
        "[STREAM_NOT_FOUND]",
    ]


@pytest.mark.genuine
def test_a_position_that_is_none(stream):
    end = f'{{"{stream.name}": 99}}'
    options = {"servers": stream.url, "stream": stream.name, "endingOffsets": end}
    assert only(ask(options, "read")).startswith("[INVALID_OFFSETS]")


@pytest.mark.genuine
def test_a_write_that_nobody_collects(stream):
    to = {"servers": stream.url, "subject": "no.body"}
    assert "no stream collects the subject 'no.body'" in only(ask(to, "write"))
    problem = only(ask(to | {"stream": stream.name}, "write"))
    assert f"not collected by stream '{stream.name}'" in problem
    dead = to | {"subject": f"{stream.subject}.a", "onError": "deadLetter"}
    assert "'dead.a'" in only(ask(dead | {"deadLetterSubject": "dead.a"}, "write"))


@pytest.mark.genuine
def test_a_stream_that_takes_nothing(make_stream, genuine):
    origin = make_stream(genuine.url)
    mirror = make_stream(genuine.url, subjects=None, mirror={"name": origin.name})
    told = ask({"servers": genuine.url, "stream": mirror.name, "subject": "x"}, "write")
    assert "is a mirror" in only(told)
    silent = make_stream(genuine.url, no_ack=True, duplicate_window=10**9)
    options = {"servers": genuine.url, "stream": silent.name, "subject": f"{silent.subject}.a"}
    told = ask(options | {"ledger": "none"}, "write")
    assert len(told) == 2
    assert "no_ack" in told[0]
    assert "minDuplicateWindow" in told[1]


@pytest.mark.genuine
@pytest.mark.parametrize("ledger", ["auto", "none"])
def test_an_object_store_that_is_written_to(make_stream, genuine, ledger):
    """Its messages say which row they are of, so the duplicate window does not matter."""
    options = {"servers": genuine.url, "objectStore": "store", "ledger": ledger}
    assert "stream not found: 'OBJ_store'" in only(ask(options, "write"))
    config = {"name": "OBJ_store", "subjects": ["$O.store.C.>", "$O.store.M.>"]}
    config |= {"duplicate_window": 10**9}
    control = make_stream(genuine.url).control
    control.request("STREAM.CREATE.OBJ_store", config)
    assert ask(options, "write") == []
    assert ask(options | {"dedupe": "none"}, "writeStream") == []
    control.request("STREAM.UPDATE.OBJ_store", config | {"sealed": True})
    assert "is sealed" in only(ask(options, "write"))
    control.request("STREAM.DELETE.OBJ_store")


@pytest.mark.genuine
@pytest.mark.parametrize(
    ("mode", "allows"), [("atomic", "allow_atomic"), ("fast", "allow_batched")]
)
def test_batches_that_the_stream_does_not_allow(make_stream, genuine, mode, allows):
    stream = make_stream(genuine.url)
    options = {"servers": genuine.url, "stream": stream.name, "publishMode": mode}
    assert f"'publishMode' is {mode}, but" in only(ask(options, "write"))
    able = make_stream(genuine.url, **{allows: True})
    assert ask(options | {"stream": able.name}, "write") == []


@pytest.fixture
def strict(start_genuine, tmp_path):
    """A server whose user `narrow` may do a few things only."""
    config = tmp_path / "users.conf"
    config.write_text(
        """
        authorization { users: [
          { user: all, password: x }
          { user: narrow, password: x, permissions: {
              publish: ["$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$SYS.REQ.USER.INFO"],
              subscribe: "_INBOX.>" } } ] }
        """
    )
    return start_genuine("-c", str(config))


@pytest.mark.genuine
def test_permissions(strict, make_stream):
    everything = {"user": "all", "password": "x"}
    stream = make_stream(strict.url, everything)
    stream.control.request_message(f"{stream.subject}.x", b"1")
    options = {"servers": strict.url, "stream": stream.name, "requestTimeout": "60s"}
    narrow = options | {"user": "narrow", "password": "x"}
    assert ask(options | everything, "read") == []
    assert only(ask(narrow, "read")).startswith("[PERMISSION_DENIED]")
    writes = {"subject": f"{stream.subject}.a"}
    assert ask(options | everything | writes, "write") == []
    told = ask(narrow | writes, "write")
    assert f"the user may not publish to '{stream.subject}.a'" in told
    objects = {"servers": strict.url, "objectStore": "files", "ledger": "none"}
    store = {"name": "OBJ_files", "subjects": ["$O.files.>"]}
    stream.control.request("STREAM.CREATE.OBJ_files", store)
    assert ask(objects | everything, "write") == []
    told = ask(objects | {"user": "narrow", "password": "x"}, "write")
    subjects = ["$O.files.C.any", "$O.files.M.any", "$JS.API.STREAM.PURGE.OBJ_files"]
    assert told == [f"the user may not publish to '{subject}'" for subject in subjects]
    assert only(ask(options | {"user": "all", "password": "y"}, "read")).startswith(
        "[AUTHENTICATION_FAILED]"
    )
