"""`jetstream-spark ledger`, beside a server."""

from __future__ import annotations

import json

import pytest

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.ledger_entries import read_entries
from jetstream_spark.errors import RequestRefusedError
from jetstream_spark.sink.ledger import Ledger, Scope, ScopeKind
from jetstream_spark.sink.message_ids import Fingerprint

NAME = "nightly load"


@pytest.fixture
def ledger(stream, command, monkeypatch):
    """A ledger with two writes, of which nobody writes any more; ask it."""
    monkeypatch.setattr("jetstream_spark.command.ledger._ACTIVE_S", -3600.0)
    control = Control(this_host(), stream.sink().connection, "test")
    bucket = f"l-{stream.name}"
    for name, version in ((NAME, 7), ("other", 2)):
        scope = Scope(ScopeKind.TRANSACTION, name, version)
        ledger = Blocking(Ledger(control, bucket, scope, stream.name))
        ledger.finish(ledger.begin(0), Fingerprint(5, 1, 2), 0)
        ledger.begin(1)
        if name == NAME:
            ledger.commit(5)

    def ask(*words: str, input: str | None = None):
        options = ("-o", f"servers={stream.url}", "--bucket", bucket)
        return command("ledger", *words, *options, input=input)

    ask.known = lambda: {one.key for one in run(read_entries(control, bucket))}  # type: ignore[attr-defined]
    return ask


def test_show(ledger, stream):
    rows = json.loads(ledger("show", "--json").output)
    assert [row["name"] for row in rows] == [NAME, "other"]
    first, second = rows
    assert (first["version"], first["rows"], first["begun"]) == (7, 5, 7)
    assert (second["version"], second["started"], second["done"]) == (None, 1, 1)
    assert json.loads(ledger("show", NAME, "--json").output) == [first]
    assert stream.name in ledger("show").output


def test_forget_asks_for_the_name(ledger):
    before = ledger.known()
    for answer in ("\n", "y\n", "nightly\n"):
        result = ledger("forget", NAME, input=answer)
        assert result.exit_code == 1 and "nothing was forgotten" in result.stderr
    assert ledger("forget", NAME, "--json").exit_code == 2
    assert ledger.known() == before
    result = ledger("forget", NAME, input=f"{NAME}\n")
    assert result.exit_code == 0 and "forgotten: 3 entries" in result.output
    assert {key.split(".")[1] for key in ledger.known()} == {"other"}


def test_forget_of_nothing(ledger):
    result = ledger("forget", "x", "--name-again", "x")
    assert result.exit_code == 1 and "remembers no write of 'x'" in result.stderr
    result = ledger("forget", NAME, "--stream", "NONE", "--name-again", NAME)
    assert result.exit_code == 1 and "to stream 'NONE'" in result.stderr


def test_what_may_be_running_is_not_forgotten(ledger, monkeypatch):
    monkeypatch.setattr("jetstream_spark.command.ledger._ACTIVE_S", 60.0)
    before = ledger.known()
    result = ledger("forget", NAME, "--name-again", NAME)
    assert result.exit_code == 1 and "may be running" in result.stderr
    assert ledger.known() == before


def test_a_removal_that_is_cut_off_leaves_the_driver_s_word(ledger, monkeypatch):
    request, seen = Control.request, []

    def once(control, operation, body=None):
        if "PURGE" in operation:
            seen.append(operation)
            if len(seen) == 2:
                raise RequestRefusedError(operation, 503, 1, "cut off")
        return (yield from request(control, operation, body))

    monkeypatch.setattr(Control, "request", once)
    assert ledger("forget", NAME, "--name-again", NAME).exit_code == 1
    [left] = [key for key in ledger.known() if "other" not in key]
    assert left.count(".") == 2  # the driver's
    assert ledger("forget", NAME, "--name-again", NAME).exit_code == 0
