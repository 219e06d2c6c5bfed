"""A checkpoint that the command has changed is one that Spark goes on from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from jetstream_spark.command.bench_rows import BenchRows
from jetstream_spark.command.bench_streams import BenchStreams
from jetstream_spark.command.checkpoint import Checkpoint
from jetstream_spark.command.main import main
from jetstream_spark.command.synced_disk import SyncedDisk

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Killed(Exception):  # noqa: N818
    """The process is no more."""


class Dying(SyncedDisk):
    """A disk whose user is killed when a batch is begun and not finished."""

    def create(self, path: Path, content: str) -> bool:
        if path.parent.name == "commits":
            raise Killed
        return super().create(path, content)


@pytest.fixture
def run(spark, bundled, stream, tmp_path):
    """Run a query of the stream once; the sequences that it read."""
    bundled.create_stream(stream)
    bundled.publish_numbers(stream, 0, 10)
    reader = spark.readStream.format("jetstream").option("servers", bundled.url)
    rows = reader.option("stream", stream).option("startingOffsets", "earliest").load()

    def once() -> list[int]:
        seen: list[int] = []
        writer = rows.writeStream.foreachBatch(
            lambda frame, _: seen.extend(row.seq for row in frame.select("seq").collect())
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        for log in ("offsets", "commits"):  # as if it had ended a while ago
            for path in (tmp_path / "checkpoint" / log).iterdir():
                os.utime(path, (0, 0))
        return sorted(seen)

    return once


@pytest.fixture
def jetstream(bundled):
    return bundled


def reset(jetstream, tmp_path, to: str) -> int:
    words = ["offsets", "reset", str(tmp_path / "checkpoint"), "--to", to, "--yes", "--json"]
    result = CliRunner().invoke(main, [*words, "-o", f"servers={jetstream.url}"])
    assert result.exit_code == 0, result.output
    return int(json.loads(result.output)["batch"])


def test_a_query_goes_on_where_a_reset_put_it(run, jetstream, tmp_path, monkeypatch):
    folder = str(tmp_path / "checkpoint")
    assert run() == list(range(1, 11))
    assert reset(jetstream, tmp_path, "8") == 1
    assert run() == [8, 9, 10]
    monkeypatch.setattr("jetstream_spark.command.offsets.SyncedDisk", Dying)
    with pytest.raises(Killed):
        CliRunner().invoke(
            main,
            ["offsets", "reset", folder, "--to", "1", "--yes", "-o", f"servers={jetstream.url}"],
            catch_exceptions=False,
        )
    assert run() == []  # where it stood
    monkeypatch.undo()
    reset(jetstream, tmp_path, "latest")
    assert run() == []
    found = Checkpoint(folder)
    assert found.planned()[-1] == found.committed()[-1]


def test_workers_are_asked_as_well(spark, bundled):
    words = ["doctor", "--master", "local[2]", "-o", f"servers={bundled.url}", "--json"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    found = json.loads(result.stdout.strip().splitlines()[-1])["findings"]
    workers = [one for one in found if one["check"].startswith("worker ")]
    assert [one["status"] for one in workers] == ["ok"], workers
    assert "reaches the servers" in workers[0]["what"]


def test_the_connector_is_measured(spark, bundled):
    words = ["bench", "--servers", bundled.url, "--rows", "500", "--rounds", "1", "--json"]
    before = bundled.control.stream_names()
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout.strip().splitlines()[-1])["results"]
    assert [one["query"] for one in rows] == [
        "batch write", "batch read", "streaming read", "copy",
    ]  # fmt: skip
    assert all(one["rows_per_s"] > 0 for one in rows)
    assert bundled.control.stream_names() == before


@pytest.mark.parametrize(
    ("query", "left_out"),
    [("batch read", ()), ("streaming read", ("_read",)), ("copy", ("_read", "_read_stream"))],
)
def test_rows_that_are_missing_are_an_error_and_no_figure(
    spark, bundled, monkeypatch, query, left_out
):
    """Somebody publishes to the stream while it is measured."""
    checking = BenchRows._check_stored

    def check(rows, name, load):
        checking(rows, name, load)
        bundled.publish([(rows._streams.subject(rows._streams.source), b"x")])

    monkeypatch.setattr(BenchRows, "_check_stored", check)
    for name in left_out:
        monkeypatch.setattr(BenchRows, name, lambda rows, load: None)
    words = ["bench", "--servers", bundled.url, "--rows", "10", "--rounds", "1", "--json"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["what"] == f"{query}: 11 of 10 rows are there."


def test_an_error_of_a_query_is_told_in_its_own_words(spark, bundled, monkeypatch):
    monkeypatch.setattr(BenchStreams, "clear", lambda streams, _: streams.remove())
    words = ["bench", "--servers", bundled.url, "--rows", "10", "--rounds", "1", "--json"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 1
    what = json.loads(result.stdout)["error"]["what"]
    assert what.startswith("batch write failed: [STREAM_NOT_FOUND]"), what
