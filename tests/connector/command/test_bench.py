"""What is said of a measurement, and that it tidies up however it ends.

The queries are played here; real ones are in `tests/spark/test_command.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command import bench
from jetstream_spark.command.bench_streams import BenchError, BenchStreams
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.options.format_options import SinkOptions

SECONDS = {"batch write": [9.0, 1.0, 2.0, 4.0], "batch read": [9.0, 0.5, 0.5, 0.25]}


class Played:
    """Queries that take as long as is said above, the first round unmeasured."""

    rounds: ClassVar[list[Any]] = []
    ending: Any = None

    def __init__(self, session: Any, streams: Any, connection: dict[str, str]) -> None:
        self.connection = connection
        Played.rounds = []

    def measure(self, load: Any) -> Iterator[tuple[str, float]]:
        number = len(Played.rounds)
        Played.rounds.append(load)
        for name, seconds in SECONDS.items():
            yield name, seconds[number]
        if Played.ending is not None:
            Played.ending()


@contextlib.contextmanager
def no_spark(master: str, conf: Any) -> Iterator[Any]:
    yield SimpleNamespace(version="4.3.0")


@pytest.fixture(autouse=True)
def played(monkeypatch):
    monkeypatch.setattr(bench, "BenchRows", Played)
    monkeypatch.setattr(bench, "_spark", no_spark)
    monkeypatch.setattr(Played, "ending", None)
    handlers = [signal.getsignal(one) for one in bench._SIGNALS]
    yield
    assert [signal.getsignal(one) for one in bench._SIGNALS] == handlers


@pytest.fixture(scope="module")
def server() -> Iterator[JetStreamServer]:
    with JetStreamServer() as server:
        yield server


@pytest.fixture
def control(server) -> Blocking:
    options = SinkOptions.parse({"servers": server.url})
    return Blocking(Control(this_host(), options.connection, "test"))


def test_the_median_counts_and_the_first_round_does_not(command, server, control):
    result = command("bench", "--servers", server.url, "--rows", "60000", "--size", "100", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    write, read = told["results"]
    assert write["query"] == "batch write"
    assert (write["seconds"], write["rows_per_s"], write["mb_per_s"]) == (2.0, 30_000, 3.0)
    assert (write["slowest"], write["quickest"]) == (15_000, 60_000)
    assert read["rows_per_s"] == 120_000
    assert told["servers"] == server.url.removeprefix("nats://")
    assert told["spark"] == "4.3.0" and told["kernels"] and told["connector"]
    assert [load.rows for load in Played.rounds] == [20_000, 60_000, 60_000, 60_000]
    assert control.stream_names() == []


def test_people_get_a_table(command, server):
    result = command("bench", "-o", f"servers={server.url}", "--rows", "60000", "--rounds", "1")
    assert result.exit_code == 0
    assert "batch write" in result.stdout and "60,000" in result.stdout


def test_without_servers_one_is_started_for_it(command):
    result = command("bench", "--rounds", "1", "--json")
    assert json.loads(result.stdout)["servers"] == "bundled"


@pytest.mark.parametrize("number", bench._SIGNALS)
def test_a_signal_ends_it_and_leaves_nothing(command, server, control, number):
    during = []

    def end() -> None:
        during.extend(control.stream_names())
        os.kill(os.getpid(), number)

    Played.ending = end
    result = command("bench", "--servers", server.url)
    assert result.exit_code == 130
    assert len(during) == 3
    assert len(Played.rounds) == 1
    assert control.stream_names() == []


def test_a_second_signal_does_not_stop_the_tidying(command, server, control, monkeypatch):
    removing = BenchStreams.remove

    def remove(streams: Any) -> None:
        for one in bench._SIGNALS:
            os.kill(os.getpid(), one)
        removing(streams)

    monkeypatch.setattr(BenchStreams, "remove", remove)
    assert command("bench", "--servers", server.url, "--rounds", "1").exit_code == 0
    assert control.stream_names() == []


def test_an_error_ends_it_and_leaves_nothing(command, server, control):
    def fail() -> None:
        raise BenchError("copy: 1 of 2 rows are there.", "Look.")

    Played.ending = fail
    result = command("bench", "--servers", server.url, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["condition"] == "BENCH"
    assert control.stream_names() == []


def test_streams_that_are_left_are_named(command, server, control, monkeypatch):
    def remove(streams: Any) -> None:
        raise BenchError("these streams may be left behind: one.", "Remove it.")

    monkeypatch.setattr(BenchStreams, "remove", remove)
    result = command("bench", "--servers", server.url, "--rounds", "1", "--name", "left")
    assert result.exit_code == 0
    assert "left behind: one" in result.stderr
    for name in control.stream_names():
        control.request(f"STREAM.DELETE.{name}")


def test_a_name_that_exists_is_refused_before_spark_starts(command, server, control):
    config = {"name": "mine-target", "subjects": ["mine"]}
    control.request("STREAM.CREATE.mine-target", config)
    result = command("bench", "--servers", server.url, "--name", "mine", "--json")
    assert result.exit_code == 1
    assert "'mine-target'" in json.loads(result.stdout)["error"]["what"]
    assert "mine-target" in control.stream_names()
    assert "mine-source" not in control.stream_names()
    control.request("STREAM.DELETE.mine-target")


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a>", "x" * 65, "a\n"])
def test_a_name_must_fit_streams(command, name):
    assert command("bench", "--name", name).exit_code == 2


class Starting:
    """A session whose JVM is being started."""

    def __init__(self, *signals: int) -> None:
        self._signals = signals
        self.seen: list[str] = []

    def getOrCreate(self) -> Starting:
        for one in self._signals:
            signal.raise_signal(one)
        self.seen.append("started")
        return self

    def stop(self) -> None:
        self.seen.append("stopped")


@pytest.mark.parametrize("number", bench._SIGNALS)
def test_a_signal_waits_until_spark_has_started_or_its_jvm_would_stay(number, capsys):
    starting = Starting(number)
    with pytest.raises(KeyboardInterrupt), bench._ended_by_signals():
        bench._started(starting)
    assert starting.seen == ["started", "stopped"]
    assert "as soon as Spark has started" in capsys.readouterr().err


def test_the_second_signal_does_not_wait_for_spark():
    starting = Starting(signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), bench._ended_by_signals():
        bench._started(starting)
    assert starting.seen == []
    assert bench._started(Starting()).seen == ["started"]
