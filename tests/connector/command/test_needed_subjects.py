"""A user with exactly these rights can do the job, and what is missing is named."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.command.needed_subjects import (
    PUBLISH,
    SUBSCRIBE,
    GrantedRights,
    Need,
    needs_of_read,
    needs_of_write,
)
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.source.batch_reader import BatchReader
from jetstream_spark.source.stream_source import StreamSource

ROWS = StructType().add("subject", StringType()).add("data", BinaryType())


def state(name: str = "A", **config: object) -> StreamState:
    return StreamState(name, "now", 1, 4, 3, 99, {"subjects": [f"{name.lower()}.>"], **config})


def subjects(needs: list[Need]) -> set[str]:
    return {one.subject.removeprefix("$JS.API.") for one in needs}


def read(**options: str) -> SourceOptions:
    return SourceOptions.parse({"servers": "a:1", "stream": "A"} | options)


CONSUMER = {"CONSUMER.CREATE.A.*", "CONSUMER.MSG.NEXT.A.*", "CONSUMER.DELETE.A.*"}


@pytest.mark.parametrize(
    ("options", "config", "needed"),
    [
        ({}, {}, CONSUMER),
        ({"fetchMode": "direct"}, {}, {"DIRECT.GET.A"}),
        ({"commitMode": "none"}, {}, CONSUMER),
        ({"commitMode": "none"}, {"retention": "workqueue"}, {"DIRECT.GET.A"}),
        ({}, {"num_replicas": 3}, CONSUMER),
        ({"startingTimestamp": "2026-11-21"}, {}, CONSUMER),
        (
            {"startingTimestamp": "2026-11-21", "commitMode": "none"},
            {"retention": "interest"},
            {"DIRECT.GET.A"},
        ),
        (
            {"commitMode": "purge"},
            {"retention": "workqueue"},
            {"DIRECT.GET.A", "STREAM.PURGE.A", "CONSUMER.LIST.A"},
        ),
        (
            {"commitMode": "ack", "consumer": "c"},
            {"retention": "interest"},
            CONSUMER | {"CONSUMER.INFO.A.c", "CONSUMER.CREATE.A.c", "CONSUMER.RESET.A.c"},
        ),
    ],
)
def test_what_a_read_needs(options, config, needed):
    found = subjects(needs_of_read(read(**options), {"A": state(**config)}, True))
    assert found == needed | {"_INBOX.>", "STREAM.INFO.A", "STREAM.MSG.GET.A"}


@pytest.mark.parametrize(
    ("options", "config", "is_streaming", "fails"),
    [
        ({}, {}, False, None),  # it is over before a server has another copy of its files
        ({}, {}, True, False),
        ({}, {"num_replicas": 3}, True, True),
        ({}, {"num_replicas": 3}, False, True),
        ({"startingTimestamp": "2026-11-21"}, {}, True, False),
        ({"startingTimestamp": "2026-11-21"}, {"retention": "interest"}, True, True),
        ({"commitMode": "purge"}, {"retention": "workqueue"}, True, True),
    ],
)
def test_what_comes_of_it_if_messages_may_not_be_looked_at(options, config, is_streaming, fails):
    needs = needs_of_read(
        read(**{"commitMode": "none"} | options), {"A": state(**config)}, is_streaming
    )
    found = [one for one in needs if one.subject == "$JS.API.STREAM.MSG.GET.A"]
    assert [not one.otherwise for one in found] == ([] if fails is None else [fails])


def test_a_batch_commits_nothing_and_a_pattern_lists():
    options = SourceOptions.parse({"servers": "a:1", "streamPattern": "A|B", "domain": "hub"})
    found = subjects(needs_of_read(options, {"A": state(), "B": state("B")}, False))
    assert "$JS.hub.API.STREAM.NAMES" in found
    assert {"$JS.hub.API.STREAM.INFO.A", "$JS.hub.API.STREAM.INFO.B"} <= found


def write(**options: str) -> SinkOptions:
    return SinkOptions.parse({"servers": "a:1"} | options)


def test_what_a_write_needs():
    assert subjects(needs_of_write(write(subject="a.b"), None)) == {
        "_INBOX.>", "a.b", "STREAM.NAMES",
    }  # fmt: skip
    plain = subjects(needs_of_write(write(stream="A", dedupe="none"), state()))
    assert plain == {"_INBOX.>", "a.>", "STREAM.INFO.A"}
    assert subjects(needs_of_write(write(bucket="b", dedupe="none"), state())) >= {"$KV.b.>"}
    store = subjects(needs_of_write(write(objectStore="o", dedupe="none"), state()))
    assert {"$O.o.C.>", "$O.o.M.*"} <= store
    dead = write(stream="A", ledger="none", onError="deadLetter", deadLetterSubject="dead")
    assert {"dead", "STREAM.NAMES"} <= subjects(needs_of_write(dead, state()))
    whole = needs_of_write(write(stream="A", ledgerBucket="l"), state())
    assert {"$KV.l.>", "STREAM.CREATE.KV_l", "STREAM.MSG.GET.A"} <= subjects(whole)
    assert [one.action for one in whole if one.otherwise] == [PUBLISH]


@pytest.mark.parametrize(
    ("rules", "need", "is_allowed"),
    [
        ({}, "a.b", True),
        ({"allow": ["a.*"]}, "a.b", True),
        ({"allow": ["a.*"]}, "a.>", False),
        ({"allow": ["b", "a.>"]}, "a.b.c", True),
        ({"deny": ["a.b"]}, "a.*", False),
        ({"allow": [">"], "deny": ["c"]}, "a.*", True),
        ({"allow": []}, "a", True),
    ],
)
def test_what_is_allowed(rules, need, is_allowed):
    rights = GrantedRights({"data": {"user": "u", "permissions": {"publish": rules}}})
    assert rights.allows(Need(PUBLISH, need, "")) == is_allowed
    assert rights.allows(Need(SUBSCRIBE, need, ""))


# --- what is listed is enough, at the genuine server --------------------------------------------


@pytest.fixture
def serve(start_genuine, tmp_path):
    """A server with a stream, and the options of a user who may do what is listed and no more."""

    def start(needs: list[Need]) -> dict[str, str]:
        rules = {
            action: [one.subject for one in needs if one.action == action]
            for action in (PUBLISH, SUBSCRIBE)
        }
        config = tmp_path / "rights.conf"
        config.write_text(
            "authorization { users: [ {user: owner, password: x}, {user: job, password: x, "
            f"permissions: {json.dumps(rules)}}} ] }}"
        )
        server = start_genuine("-c", str(config))
        owner = SinkOptions.parse({"servers": server.url, "user": "owner", "password": "x"})
        control = Blocking(Control(this_host(), owner.connection, "test"))
        control.request("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]})
        for number in range(3):
            control.request_message("a.b", b"%d" % number)
        return {"servers": server.url, "user": "job", "password": "x", "requestTimeout": "60s"}

    yield start
    pool.close_all(this_host())


def test_a_read_needs_no_more(serve):
    options = {"stream": "A"} | serve(needs_of_read(read(), {"A": state()}, False))
    reader = BatchReader(SourceOptions.parse(options), ROWS)
    [partition] = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 3
    source = StreamSource(
        this_host(), SourceOptions.parse(options | {"startingOffsets": "earliest"})
    )
    assert run(source.initial_offset()).streams["A"].next == 1


def test_a_write_with_its_ledger_needs_no_more_and_a_job_that_does_is_refused(serve):
    needs = needs_of_write(write(stream="A"), state())
    options = {"stream": "A"} | serve([*needs, Need(PUBLISH, "$SYS.REQ.USER.INFO", "")])
    sink = SinkOptions.parse(options)
    rows = pa.RecordBatch.from_pydict({"subject": ["a.b"], "data": [b"x"]})
    for scope in (Scope(ScopeKind.QUERY, "q", 0), Scope(ScopeKind.JOB, "j", 0)):
        for _ in range(2):  # the second one is the same work again
            attempt = Sink(this_host(), sink, columns_of_write(ROWS, sink), lambda rows: rows)
            message = run(attempt.write_partition([rows], scope, 0))
        run(attempt.commit([message]))
    control = Control(this_host(), sink.connection, "test")
    rights = GrantedRights(run(control.request_message("$SYS.REQ.USER.INFO", b"")))
    assert rights.user == "job"
    assert all(map(rights.allows, needs))
    reads = needs_of_read(read(commitMode="purge"), {"A": state(retention="workqueue")}, True)
    assert subjects([one for one in reads if not rights.allows(one)]) == {
        "DIRECT.GET.A", "STREAM.PURGE.A", "CONSUMER.LIST.A",
    }  # fmt: skip
    with pytest.raises(ConnectorError):
        run(control.request("STREAM.PURGE.A", {"seq": 1}))
