"""What a user is told when something is wrong: what, where, what to do, and how soon.

Each case is met by the driver (`StreamWatch`), a reading task and a writing task, as Spark would
call them. `tests/spark` shows that the texts reach the user.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, iterate, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    ConnectorError,
    CredentialsOutdatedError,
    LedgerError,
    PermissionDeniedError,
    PublishRefusedError,
    ReadTimeoutError,
    SecretUnreadableError,
    StreamNotFoundError,
    StreamOfflineError,
)
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink_columns import SinkColumns
from jetstream_spark.sink.writer import write_partition
from jetstream_spark.source.partition import RangePartition, read_partition
from jetstream_spark.source.stream_source import StreamSource
from jetstream_spark.source.stream_watch import StreamWatch
from tests.leasing import lease
from tests.ports import free_port
from tests.running_time import RunningTime

SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
LIMITS = {
    "readTimeout": "1500ms",
    "requestTimeout": "1s",
    "connectTimeout": "1s",
    "outageTimeout": "1500ms",
}
# Whoever waits where nothing is to be waited for waits for longer, on however busy a machine.
PATIENT = dict.fromkeys(("requestTimeout", "connectTimeout", "outageTimeout"), "100s")
SOON_S = 20
USERS = {
    "ann": "",
    "no_fetch": 'publish: {deny: ["$JS.API.CONSUMER.MSG.NEXT.>"]}',
    "no_consumer": 'publish: {deny: ["$JS.API.CONSUMER.CREATE.>"]}',
    "no_info": 'publish: {deny: ["$JS.API.STREAM.INFO.>"]}',
    "no_direct": 'publish: {deny: ["$JS.API.DIRECT.GET.>"]}',
    "no_purge": 'publish: {deny: ["$JS.API.STREAM.PURGE.>"]}',
    "no_publish": 'publish: {deny: ["s.>"]}',
    "no_ledger": 'publish: {deny: ["$KV.>"]}',
    "no_answers": 'subscribe: {deny: ["_INBOX.>"]}',
}


class Place:
    """A server with the stream S, which holds five messages."""

    def __init__(self, url: str, duplicate_window_ns: int = 0, **credentials: str) -> None:
        self.url = url
        self._credentials = credentials
        self.control = Blocking(Control(this_host(), self.sink(**PATIENT).connection, "test"))
        body = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
        body |= {"duplicate_window": duplicate_window_ns}
        self.control.request("STREAM.CREATE.S", body)
        for i in range(5):
            self.control.request_message("s.a", b"%d" % i)
        self.created = self.control.stream_state("S").created

    def source(self, **options: str) -> SourceOptions:
        named = {"servers": self.url, "stream": "S"} | LIMITS | self._credentials
        return SourceOptions.parse({k: v for k, v in (named | options).items() if v})

    def sink(self, **options: str) -> SinkOptions:
        named = {"servers": self.url, "stream": "S", "requestTimeout": "1s", "ackTimeout": "500ms"}
        named |= {"outageTimeout": "1500ms"}
        named |= {"connectTimeout": "1s", "publishRetries": "2"} | self._credentials | options
        return SinkOptions.parse({key: value for key, value in named.items() if value})

    def plan(self, **options: str) -> None:
        Blocking(StreamWatch(this_host(), self.source(**options))).starting_offsets("earliest")

    def read(self, **options: str) -> int:
        partition = RangePartition(SequenceRange("S", self.created, 1, 6))
        schema = pa.schema({"seq": pa.int64()})
        return sum(
            b.num_rows
            for b in iterate(read_partition(this_host(), self.source(**options), schema, partition))
        )

    def write(self, **options: str) -> int:
        sink = self.sink(**options)
        rows = pa.record_batch([["s.a"] * 3, [b"x"] * 3], SCHEMA.names)
        scope = Scope(ScopeKind.QUERY, "q", 1)
        return write_partition(sink, SinkColumns(SCHEMA, sink), [rows], scope, 0).rows


def told(kind: type[ConnectorError], call: Callable[..., object], **options: str) -> str:
    """The text of the error, which came within the limits: by default a request may take 10 s."""
    with RunningTime() as time_of_it, pytest.raises(kind) as raised:
        call(**options)
    assert time_of_it.seconds < 9
    text = str(raised.value)
    assert text.startswith(f"[{kind.condition}] ")
    assert raised.value.remedy, "it says what to do"
    return text


@pytest.fixture(scope="module")
def guarded(start_genuine, tmp_path_factory):
    """A server that knows users who may not do everything."""
    lines = [
        f"{{user: {name}, password: p, permissions: {{{rights}}}}}"
        for name, rights in USERS.items()
    ]
    config = tmp_path_factory.mktemp("config") / "users.conf"
    users = "\n".join(lines)
    config.write_text(f"authorization {{ timeout: 60, users = [\n{users}\n] }}\n")
    server = start_genuine("-c", str(config))
    yield Place(server.url, user="ann", password="p", **PATIENT)
    pool.close_all(this_host())


@pytest.mark.genuine
@pytest.mark.parametrize("call", ["plan", "read", "write"])
def test_wrong_credentials(guarded, call):
    text = told(AuthenticationFailedError, getattr(guarded, call), password="secret-guess")
    assert guarded.url.removeprefix("nats://") in text and "options user and password" in text
    assert "secret-guess" not in text


@pytest.mark.genuine
@pytest.mark.parametrize(
    ("call", "user", "subject", "options"),
    [
        ("read", "no_fetch", "$JS.API.CONSUMER.MSG.NEXT.S.", {}),
        ("read", "no_consumer", "$JS.API.CONSUMER.CREATE.S.", {}),
        ("read", "no_direct", "$JS.API.DIRECT.GET.S", {"fetchMode": "direct"}),
        ("read", "no_answers", "_INBOX.", {}),
        ("plan", "no_info", "$JS.API.STREAM.INFO.S", {}),
        ("write", "no_publish", '"s.a"', {"ledger": "none"}),
        ("write", "no_answers", "_INBOX.", {}),
    ],
)
def test_a_subject_that_is_not_allowed(guarded, call, user, subject, options):
    text = told(PermissionDeniedError, getattr(guarded, call), user=user, **options)
    assert subject in text and "Grant the user this subject" in text


@pytest.mark.genuine
def test_a_ledger_that_is_not_allowed(guarded):
    text = told(LedgerError, guarded.write, user="no_ledger")
    assert "$KV.spark-jetstream-ledger" in text and "set ledger=none" in text


@pytest.mark.genuine
def test_a_purge_that_is_not_allowed_is_found_before_the_first_row(guarded):
    text = told(PermissionDeniedError, guarded.plan, user="no_purge", commitMode="purge")
    assert "$JS.API.STREAM.PURGE.S" in text
    guarded.plan(user="no_purge")
    # Looking whether it is allowed removes nothing.
    guarded.plan(user="ann", commitMode="purge")
    assert guarded.control.stream_state("S").messages >= 5


@pytest.mark.genuine
def test_a_password_that_is_changed_while_a_query_runs(start_genuine, tmp_path):
    """At the server first, then in the file; in between the query waits, and then goes on."""
    config, secret = tmp_path / "users.conf", tmp_path / "password"

    def let_in(password: str) -> None:
        config.write_text(f"authorization {{ user: ann, password: {password} }}")

    let_in("old")
    secret.write_text("old")
    server = start_genuine("-c", str(config))
    place = Place(server.url, user="ann", password=f"file:{secret}")
    options = place.source(startingOffsets="earliest", pollInterval="1us", outageTimeout="100s")
    query = Blocking(StreamSource(this_host(), options))
    start = query.initial_offset()
    assert query.latest_offset(start).streams["S"].next == 6
    assert (place.read(), place.write()) == (5, 3)
    let_in("new")
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    refused = "refused the connection"
    # The first reason may be the connection that was cut off.
    while refused not in query.report().get("waitingFor", "") and time.monotonic() < deadline:
        query.latest_offset(start)
    assert refused in query.report()["waitingFor"]
    # A task, and a write in a process that was let in before, wait as well.
    with pytest.raises(ReadTimeoutError, match="refused the connection"):
        place.read()
    with pytest.raises(CredentialsOutdatedError):
        place.write()
    secret.write_text("new")
    assert place.read() == 5
    while query.latest_offset(start) == start:
        assert time.monotonic() < deadline + 10
    assert "waitingFor" not in query.report()
    assert place.write() == 3
    pool.close_all(this_host())


@pytest.mark.genuine
@pytest.mark.parametrize("call", ["plan", "write"])
def test_a_wrong_password_in_a_file_is_no_reason_to_wait_at_first(guarded, call, tmp_path):
    (tmp_path / "password").write_text("wrong")
    pool.close_all(this_host())
    told(AuthenticationFailedError, getattr(guarded, call), password=f"file:{tmp_path}/password")


@pytest.mark.genuine
@pytest.mark.parametrize("call", ["plan", "read", "write"])
@pytest.mark.parametrize("place", ["/no/such", "/etc"])  # a folder is no secret either
@pytest.mark.parametrize(
    "options",
    [
        {"password": "file:%s"},
        {"user": "", "password": "", "credsFile": "%s"},
        {"user": "", "password": "", "nkeySeedSecret": "file:%s"},
    ],
)
def test_a_secret_that_cannot_be_read(guarded, call, options, place):
    options = {key: value.replace("%s", place) for key, value in options.items()}
    text = told(SecretUnreadableError, getattr(guarded, call), **options)
    assert place in text and f"'{[*options][-1]}'" in text


@pytest.mark.genuine
@pytest.mark.parametrize("place", ["/no/such", "/etc"])
@pytest.mark.parametrize("option", ["tlsCaFile", "tlsCertFile"])
def test_a_tls_file_that_cannot_be_read(start_genuine, pki, option, place):
    server = start_genuine("--tls", "--tlscert", pki.cert("server"), "--tlskey", pki.key("server"))
    files = {option: place} | ({"tlsKeyFile": "/no/key"} if option == "tlsCertFile" else {})
    options = SourceOptions.parse({"servers": server.url, "stream": "S"} | PATIENT | files)
    with (
        RunningTime() as time_of_it,
        pytest.raises(SecretUnreadableError, match=f"'{option}' names '{place}'"),
    ):
        Blocking(StreamWatch(this_host(), options, patience_s=100)).check()
    assert time_of_it.seconds < SOON_S


@pytest.mark.genuine
def test_a_stream_that_is_not_there(guarded):
    for call in (guarded.plan, guarded.write):
        text = told(StreamNotFoundError, call, stream="NO_SUCH")
        assert "'NO_SUCH'" in text and "visible streams:" in text and " S" in text
    text = told(PublishRefusedError, guarded.write, stream="NO_SUCH", dedupe="none")
    assert "row 0" in text and "option stream names another stream" in text


@pytest.mark.genuine
def test_a_server_that_is_gone_or_hangs(start_genuine):
    server = start_genuine()
    place = Place(server.url)
    server.pause()
    for call in (place.plan, place.read, place.write):
        told(ConnectorError, call_named(call))
    server.resume()
    server.kill()
    pool.close_all(this_host())
    for call in (place.plan, place.write):
        text = told(ConnectionFailedError, call)
        assert server.url.removeprefix("nats://") in text and "Connection refused" in text
    assert "Connection refused" in told(ReadTimeoutError, place.read)


def call_named(call: Callable[..., object]) -> Callable[..., object]:
    """The call, whose error may be of any condition as long as it names the server or range."""

    def named(**options: str) -> None:
        try:
            call(**options)
        except ConnectorError as error:
            assert "127.0.0.1" in str(error) or "stream 'S'" in str(error), str(error)
            raise ConnectorError(error.what, error.remedy) from None

    return named


def test_an_address_that_nobody_has():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"nats://127.0.0.1:{held.getsockname()[1]}"
        options = SourceOptions.parse({"servers": url, "stream": "S"} | LIMITS)
        text = told(
            ConnectionFailedError, lambda: Blocking(StreamWatch(this_host(), options)).check()
        )
    assert url.removeprefix("nats://") in text and "driver and every executor" in text


@pytest.mark.parametrize("found_at", ["start", "read"])
def test_a_stream_that_is_offline(tmp_path: Path, found_at: str):
    # What lies within the window is read at the start, for its ids, and the damage with it.
    window_ns = 100_000_000_000 if found_at == "start" else 100_000_000
    with JetStreamServer(tmp_path, free_port()) as server:
        place = Place(server.url, window_ns)
        with lease(place.control.options, "test") as flow:
            frame = publish_frame(b"s.a", b"x" * 60_000)
            flow.send(frame * 200, time.monotonic() + 60)  # more than one file of the store
            flow.request(b"s.a", b"last", 60)
            written_at = time.time_ns()
    pool.close_all(this_host())
    [path] = tmp_path.glob("**/streams/S/msgs/1.blk")
    content = bytearray(path.read_bytes())
    content[100_000] ^= 0xFF
    path.write_bytes(content)
    while found_at == "read" and time.time_ns() - written_at <= window_ns:
        time.sleep(0.01)
    with JetStreamServer(tmp_path, free_port()) as server:
        place.url = server.url
        for call in (place.read, place.plan, place.write):
            kind = ReadTimeoutError if call == place.read else StreamOfflineError
            text = told(kind, call)
            assert "stream is offline" in text and str(path) in text
        refused = told(PublishRefusedError, place.write, stream="")
        assert ("damaged" in refused) is (found_at == "read") and "/healthz" in refused
    pool.close_all(this_host())
