"""A Spark session, and a JetStream server to read from and write to: the genuine one, and ours.

Every test that takes `jetstream` runs once for each kind of server. `control` and
`genuine` are for tests of the genuine server alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jetstream_spark
from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import RequestRefusedError
from jetstream_spark.options.format_options import SinkOptions
from tests.leasing import lease
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PUBLISH_RUN = 2000


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests: two cores, where a task is tried twice."""
    from pyspark.sql import SparkSession

    # The workers that Spark starts must run this interpreter.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if Path(jetstream_spark.__file__).parent == ROOT / "jetstream_spark":
        # Spark finds formats by listing folders, which an editable install is not in.
        paths = [str(ROOT), str(ROOT / "server"), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # Its Python processes look for modules where Spark was started: there are the tests, and not
    # the sources, in which nothing is compiled.
    place = tmp_path_factory.mktemp("spark")
    (place / "tests").symlink_to(ROOT / "tests")
    with contextlib.chdir(place):
        session = (
            SparkSession.builder.master("local[2,2]")
            .appName("jetstream-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


class JetStream:
    """A running server and a few verbs for tests."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        # A message that is sent again because its ack was late would be there twice.
        patient = SinkOptions.parse({"servers": url, "requestTimeout": "60s"}).connection
        self.control = Blocking(Control(this_host(), patient, "test"))

    def create_stream(self, name: str, **config: Any) -> None:
        """Create a stream that collects `<name>.>` unless told otherwise."""
        body = {"name": name, "subjects": [f"{name}.>"], "storage": "file", **config}
        deadline = time.monotonic() + 60
        while True:
            try:
                self.control.request(f"STREAM.CREATE.{name}", body)
                return
            except RequestRefusedError as error:
                # The genuine server cannot make its store now and then while the disk is busy.
                is_passing = self.kind == "genuine" and "10049" in str(error)
                if not is_passing or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def create_bucket(self, name: str, history: int = 1) -> None:
        """Create a key-value bucket."""
        self.create_stream(
            f"KV_{name}",
            subjects=[f"$KV.{name}.>"],
            max_msgs_per_subject=history,
            allow_rollup_hdrs=True,
            deny_delete=True,
        )

    def delete_stream(self, name: str) -> None:
        self.control.request(f"STREAM.DELETE.{name}")

    def delete_message(self, stream: str, sequence: int) -> None:
        self.control.request(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})

    def publish(self, messages: list[tuple[str, bytes]], headers: bytes = b"") -> None:
        """Publish messages in order; return when the last one is acknowledged."""
        with lease(self.control.options, "test") as flow:
            for start in range(0, len(messages), PUBLISH_RUN):
                run = messages[start : start + PUBLISH_RUN]
                frames = b"".join(
                    publish_frame(subject.encode(), payload, headers=headers)
                    for subject, payload in run[:-1]
                )
                flow.send(frames, time.monotonic() + 60)
                subject, payload = run[-1]
                answer = json.loads(flow.request(subject.encode(), payload, 60, headers).payload)
                assert "error" not in answer, answer

    def publish_numbers(self, stream: str, start: int, stop: int) -> None:
        """Publish the decimal numbers [start, stop) on ten subjects."""
        self.publish([(f"{stream}.{i % 10}", b"%d" % i) for i in range(start, stop)])

    def last_sequence(self, stream: str) -> int:
        return self.control.stream_state(stream).next - 1


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JetStream]:
    """The bundled server."""
    with JetStreamServer(tmp_path_factory.mktemp("bundled"), free_port()) as server:
        yield JetStream("bundled", server.url)
    pool.close_all(this_host())


@pytest.fixture(scope="session", params=["genuine", "bundled"])
def jetstream(request: pytest.FixtureRequest) -> JetStream:
    """A running server of each kind."""
    server = request.getfixturevalue(request.param)
    return server if request.param == "bundled" else JetStream("genuine", server.url)


@pytest.fixture
def both_servers(genuine: Any, bundled: JetStream) -> list[JetStream]:
    """Both at once, for what is too dear to be done twice."""
    return [JetStream("genuine", genuine.url), bundled]


@pytest.fixture
def control(genuine: Any) -> Blocking:
    """Requests to the shared genuine server."""
    return Blocking(
        Control(this_host(), SinkOptions.parse({"servers": genuine.url}).connection, "test")
    )


@pytest.fixture
def stream(request: pytest.FixtureRequest, jetstream: JetStream) -> Iterator[str]:
    """The name of a stream of the test's own, which the test creates."""
    name = request.node.name.split("[")[0].removeprefix("test_").upper()[:50]
    yield name
    if name in jetstream.control.stream_names():
        jetstream.delete_stream(name)
