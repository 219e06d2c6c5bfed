"""Every line of the page on the command runs; the lines of `nats` where that command is."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command import bench
from jetstream_spark.command.bench_rows import BenchRows
from jetstream_spark.command.main import main
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.observation.query_numbers import METRICS
from jetstream_spark.options.format_options import SinkOptions
from tests.connector.command.conftest import MadeCheckpoint, line
from tests.connector.observation.test_observation import Streams

PAGE = (Path(__file__).parents[1] / "docs/command.md").read_text()
LINES = [one for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
         for one in block.splitlines()]  # fmt: skip
OURS = [one for one in LINES if one.startswith("jetstream-spark ")]
THEIRS = [one for one in LINES if one.startswith("nats ")]
# Where `go install github.com/nats-io/natscli/nats@latest` puts it.
NATS = shutil.which("nats") or shutil.which("nats", path=str(Path.home() / "go" / "bin"))


@pytest.fixture(scope="module")
def server() -> Iterator[JetStreamServer]:
    """The bundled server."""
    with JetStreamServer() as server:
        yield server


def words(text: str, **variables: str) -> list[str]:
    for name, value in variables.items():
        text = text.replace(f"${name}", value)
    return shlex.split(text)


def test_every_line_is_of_one_of_two_commands():
    assert [*OURS, *THEIRS] == LINES
    assert len(OURS) >= 8 and len(THEIRS) == 10


@contextlib.contextmanager
def no_spark(master: str, conf: object) -> Iterator[object]:
    """What it measures is in `tests/spark/test_command.py`."""
    yield SimpleNamespace(version="4.3.0")


def test_the_lines_of_our_command(server, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_spark", no_spark)
    monkeypatch.setattr(BenchRows, "measure", lambda rows, load: iter([("copy", 1.0)]))
    options = SinkOptions.parse({"servers": server.url})
    control = Blocking(Control(this_host(), options.connection, "test"))
    for name in ("ORDERS", "COPIES"):
        control.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]})
    control.request_message("orders.new", b"a message")
    made = MadeCheckpoint(tmp_path / "checkpoint")
    made.add(0, line(control.stream_state("ORDERS").created, ORDERS=1))
    for text in OURS:
        places = {"CHECKPOINT": str(made.folder), "FOLDER": str(tmp_path / "files")}
        called = words(text, URL=server.url, **places)[1:]
        result = CliRunner().invoke(main, called, catch_exceptions=False)
        assert result.exit_code == 0, (text, result.output)
    assert control.stream_state("COPIES").messages == 2


def test_the_lines_of_the_nats_command(server, tmp_path):
    if NATS is None:
        pytest.skip("there is no nats command: go install github.com/nats-io/natscli/nats@latest")
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    said = []
    with JetStreamServer() as empty:
        for text in THEIRS:
            command = [NATS, *words(text, URL=empty.url)[1:]]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=60,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert done.returncode == 0, (text, done.stdout, done.stderr)
            said.append(done.stdout)
    assert "a message" in said[3] and "a message" in said[5]
    assert said[8].strip() == "1.20"
    assert "ORDERS" in said[9]


def test_the_lines_of_python(capsys):
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(compile(block, "docs/command.md", "exec"), {"spark": SimpleNamespace(streams=Streams())})
    assert int(capsys.readouterr().out.split()[0]) > 0


def test_every_metric_is_on_the_page():
    for metric in METRICS.values():
        name = metric.name + ("_total" if metric.kind == "counter" else "")
        assert f"`{name}`" in PAGE
