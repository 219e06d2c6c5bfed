"""Lag of a checkpoint's query, and what servers know of queries."""

from __future__ import annotations

import json
import time

import pytest

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command import lag
from jetstream_spark.command.checkpoint import Checkpoint
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import ConnectionFailedError
from jetstream_spark.options.offsets import StreamOffset
from jetstream_spark.sink.ledger import Ledger, Scope, ScopeKind
from jetstream_spark.source.anchor import Anchor
from tests.connector.command.conftest import line


@pytest.fixture
def ask(stream, checkpoint, command):
    """The lag of a query that stands at a sequence of a stream of five messages."""
    for number in range(5):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % number)
    created = stream.control.stream_state(stream.name).created
    numbers = iter(range(100))

    def lag(at: int, created: str = created, name: str = stream.name, **options) -> dict:
        checkpoint.add(next(numbers), line(created, **{name: at}), **options)
        words = ["lag", str(checkpoint.folder.parent), "-o", f"servers={stream.url}", "--json"]
        [row] = json.loads(command(*words).output)
        return row

    return lag


def test_a_query_that_is_behind(ask, stream):
    row = ask(4)
    assert (row["stream"], row["next"], row["lag"], row["note"]) == (stream.name, 4, 2, None)
    assert ask(6)["lag"] == 0


def test_what_is_gone_is_said_and_not_counted(ask, stream):
    stream.control.request(f"STREAM.PURGE.{stream.name}", {"seq": 4})
    row = ask(2)
    assert (row["lag"], row["note"]) == (2, "2 sequences are gone unread, up to 3")


def test_positions_that_mean_nothing_have_no_lag(ask):
    row = ask(9)
    assert (row["lag"], row["note"]) == (None, "the stream ends before, at 6")
    assert ask(2, created="2026-01-01T00:00:00Z")["note"] == "the stream was made anew"
    assert ask(2, name="NONE")["note"] == "the stream does not exist any more"


def test_an_unfinished_batch_does_not_count(ask, stream, checkpoint):
    ask(2)
    checkpoint.add(1, line(**{stream.name: 6}), is_committed=False)
    [row] = run(lag.lag_of(stream.control.inner, Checkpoint(str(checkpoint.folder))))
    assert (row["batch"], row["lag"]) == (0, 4)
    assert row["note"] == "batch 1 runs, or was left unfinished"


def test_a_query_that_has_not_finished_a_batch_is_said_to_be_there(checkpoint, stream, command):
    checkpoint.add(0, line(**{stream.name: 1}), is_committed=False)
    words = ["lag", str(checkpoint.folder), "-o", f"servers={stream.url}"]
    [row] = json.loads(command(*words, "--json").output)
    assert row["note"] == "no batch is finished yet"
    assert "no batch is finished yet" in command(*words).output


def test_servers_that_know_of_no_query_are_said_to(command):
    with JetStreamServer() as server:
        said = command("lag", "-o", f"servers={server.url}")
        assert (said.exit_code, said.output.count("know of no query")) == (0, 1)
        said = command("ledger", "show", "x", "-o", f"servers={server.url}")
        assert "remembers no write of 'x'" in said.output


def test_what_the_servers_know(make_stream, genuine, command):
    stream = make_stream(genuine.url, retention="interest")
    control = Control(this_host(), stream.sink().connection, "test")
    created = stream.control.stream_state(stream.name).created
    anchor = Blocking(Anchor(control, stream.name, "billing", ()))
    anchor.hold(StreamOffset(created, 1))
    for number in range(3):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % number)
    scope = Scope(ScopeKind.TRANSACTION, f"nightly {stream.name}", 7)
    Blocking(Ledger(control, "spark-jetstream-ledger", scope, stream.name)).commit(5)
    words = ["lag", "-o", f"servers={genuine.url}"]
    rows = [
        one for one in json.loads(command(*words, "--json").output) if one["stream"] == stream.name
    ]
    read, write = rows
    assert (read["query"], read["lag"], read["next"]) == ("billing", 3, 1)
    assert (write["query"], write["batch"], write["note"]) == (scope.name, 7, None)
    assert "billing" in command(*words).output


def test_watching_says_a_line_each_time_until_it_is_stopped(
    ask, stream, checkpoint, command, monkeypatch
):
    ask(4)
    pauses = iter([None, None])

    def pause(seconds: float) -> None:
        assert seconds == 7
        if next(pauses, "stop") == "stop":
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    words = ["lag", str(checkpoint.folder), "-o", f"servers={stream.url}", "--watch", "7"]
    result = command(*words, "--json")
    assert [json.loads(one)[0]["lag"] for one in result.output.splitlines()] == [2, 2, 2]
    assert result.exit_code == 0


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_watching_waits_for_servers_that_are_away(
    ask, stream, checkpoint, command, words, monkeypatch
):
    ask(4)
    pauses = []

    def away(*arguments):
        raise ConnectionFailedError("nobody is there.", "Wait.")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        monkeypatch.setattr(lag, "lag_of", away if len(pauses) == 1 else lag_of)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    lag_of = lag.lag_of
    monkeypatch.setattr(time, "sleep", pause)
    called = ["lag", str(checkpoint.folder), "-o", f"servers={stream.url}", "--watch", "7", *words]
    result = command(*called)
    assert (result.exit_code, len(pauses)) == (0, 3)
    if words:
        first, second, third = map(json.loads, result.stdout.splitlines())
        assert first == third and second["error"]["what"] == "nobody is there."
    monkeypatch.setattr(lag, "lag_of", away)
    assert command(*called).exit_code == 1, "what fails at first fails"
