"""`jetstream-spark offsets`, on a checkpoint and beside a server."""

from __future__ import annotations

import json

import pytest

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.checkpoint import Checkpoint
from jetstream_spark.sink.ledger import Ledger, Scope, ScopeKind
from tests.connector.command.conftest import CREATED, line

QUERY = "3baeea2d-6e28-43be-84ad-7746d4d4b18a"


def test_show(checkpoint, command):
    for number in range(5):
        checkpoint.add(number, line(A=number, B=7), is_committed=number < 4)
    text = command("offsets", "show", str(checkpoint.folder), "--last", "2").output
    assert text.count("committed") == 2 and text.count("unfinished") == 2
    said = json.loads(command("offsets", "show", str(checkpoint.folder), "--json").output)
    assert said["query"] == QUERY
    assert said["batches"][-1] == {
        "batch": 4, "state": "unfinished", "planned": "2026-11-23T00:01:48Z", "source": 0,
        "stream": "B", "next": 7, "created": "2026-11-21T10:00:00.5Z", "subjects": "a.>",
        "purged": True,
    }  # fmt: skip
    assert "purged" in text and "a.>" in text


def test_show_of_batches_that_say_nothing_of_subjects(checkpoint, command):
    show = ("offsets", "show", str(checkpoint.folder))
    assert "no batch with a position in a stream" in command(*show).output
    checkpoint.add(0, json.dumps({"v": 1, "streams": {"A": {"created": CREATED, "next": 3}}}))
    text = command(*show).output
    assert "subjects" not in text and "purged" not in text
    [row] = json.loads(command(*show, "--json").output)["batches"]
    assert (row["subjects"], row["purged"]) == (None, False)


def test_show_of_nothing_says_what_is_wrong(tmp_path, command):
    result = command("offsets", "show", str(tmp_path))
    assert result.exit_code == 1
    assert "[CHECKPOINT]" in result.stderr and "checkpointLocation" in result.stderr
    said = json.loads(command("offsets", "show", str(tmp_path), "--json").stdout)
    assert said["error"]["condition"] == "CHECKPOINT"


def test_diff(checkpoint, command):
    checkpoint.add(1, line(A=4, B=7))
    checkpoint.add(2, line(A=9, C=7))
    checkpoint.add(3, line("2026-11-22T00:00:00Z", A=2, C=7))

    def diff(*words: str) -> dict[str, tuple]:
        folder = str(checkpoint.folder)
        rows = json.loads(command("offsets", "diff", folder, "--json", *words).output)["streams"]
        return {row["stream"]: (row["sequences"], row["note"]) for row in rows}

    assert diff() == {
        "A": (None, "the stream was made anew"),
        "C": (None, "the stream was made anew"),
    }
    assert diff("--from", "1", "--to", "2") == {
        "A": (5, None),
        "B": (None, "gone"),
        "C": (None, "new"),
    }
    assert diff("--from", "1", str(checkpoint.folder)) == diff("--from", "1")


def test_diff_of_one_batch(checkpoint, command):
    checkpoint.add(1, line(A=4))
    result = command("offsets", "diff", str(checkpoint.folder))
    assert result.exit_code == 1 and "nothing to compare" in result.stderr


@pytest.fixture
def reset(stream, checkpoint, command):
    """Reset the positions of a query of a stream that holds the sequences 1 to 5."""
    for number in range(5):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % number)
    created = stream.control.stream_state(stream.name).created
    checkpoint.add(1, line(created, **{stream.name: 6}))

    def run(*words: str, input: str | None = None):
        options = ("-o", f"servers={stream.url}")
        return command("offsets", "reset", str(checkpoint.folder), *options, *words, input=input)

    return run


def test_reset(reset, stream, checkpoint):
    said = json.loads(reset("--to", "3", "--yes", "--json").output)
    assert said["batch"] == 2
    assert said["streams"][0] | {"stream": 0} == {
        "source": 0, "stream": 0, "from": 6, "to": 3, "sequences": -3, "note": None,
    }  # fmt: skip
    found = Checkpoint(str(checkpoint.folder))
    assert found.batch(2).offsets[0].streams[stream.name].next == 3
    assert Checkpoint(said["backup"]).planned() == [1]
    again = reset("--to", "earliest", "--yes")
    assert again.exit_code == 1 and "may be running" in again.stderr


def test_reset_adopts_a_stream_that_was_made_anew(reset, stream, checkpoint):
    config = stream.control.stream_state(stream.name).config
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    stream.control.request(f"STREAM.CREATE.{stream.name}", config)
    assert "made anew" in reset("--to", "earliest", "--yes").output
    at = Checkpoint(str(checkpoint.folder)).batch(2).offsets[0].streams[stream.name]
    assert (at.next, at.created) == (1, stream.control.stream_state(stream.name).created)


@pytest.mark.parametrize(
    ("words", "answer", "ends_with"),
    [(["--dry-run"], None, 0), ([], "n\n", 1), (["--json"], None, 2)],
)
def test_reset_changes_nothing_unless_it_is_told_to(reset, checkpoint, words, answer, ends_with):
    before = sorted(checkpoint.folder.rglob("*"))
    assert reset("--to", "latest", *words, input=answer).exit_code == ends_with
    assert sorted(checkpoint.folder.rglob("*")) == before


def test_reset_refuses_what_the_ledger_knows_to_be_ahead_or_at_work(
    reset, stream, checkpoint, monkeypatch
):
    control = Control(this_host(), stream.sink().connection, "test")
    bucket = "spark-jetstream-ledger"
    scope = Scope(ScopeKind.QUERY, QUERY, 9)
    Blocking(Ledger(control, bucket, scope, stream.name)).commit(5)
    result = reset("--to", "earliest", "--yes")
    assert result.exit_code == 1 and "wrote to stream" in result.stderr
    monkeypatch.setattr("jetstream_spark.command.offsets._ACTIVE_S", -3600.0)
    result = reset("--to", "earliest", "--yes")
    assert result.exit_code == 1 and "has written batch 9" in result.stderr
    stream.control.request(f"STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.query.{QUERY}.>"})
    assert Checkpoint(str(checkpoint.folder)).planned() == [1]


def test_reset_warns_of_a_stream_that_loses_what_is_passed_over(
    make_stream, genuine, checkpoint, command
):
    stream = make_stream(genuine.url, retention="workqueue")
    checkpoint.add(1, line(**{stream.name: 1}))
    words = ["--to", f"{stream.name}=latest", "--dry-run", "-o", f"servers={genuine.url}", "--json"]
    [row] = json.loads(command("offsets", "reset", str(checkpoint.folder), *words).output)[
        "streams"
    ]
    # Made anew as well, which matters more, so that is what is said.
    assert row["note"] == "the stream was made anew"
    created = stream.control.stream_state(stream.name).created
    checkpoint.add(2, line(created, **{stream.name: 1}))
    [row] = json.loads(command("offsets", "reset", str(checkpoint.folder), *words).output)[
        "streams"
    ]
    assert "what lies before is removed" in row["note"]
