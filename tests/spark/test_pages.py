"""The Python blocks of the pages, run in turn as a reader would, against a bundled server.

A page's blocks share their names. Nothing is changed in them but addresses and paths. Two blocks
show a job of another connector, whose jar is not here: these are only compiled.
"""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jetstream_spark.client.blocking import Blocking
from jetstream_spark.embedded import JetStreamServer
from tests.pages import blocks, called, typed
from tests.ports import free_port
from tests.spark.conftest import JetStream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # with a busy machine

ADDRESS = "nats://127.0.0.1:4222"
FIRST_PAGE = "docs/first-ten-minutes.md"
PAGE_ON_QUEUES = "docs/how-to/work-queues.md"
OTHERS = ('format("kafka")', 'format("nats")')


class Reader:
    """Somebody who goes through a page, and runs its blocks one after another."""

    def __init__(self, spark: Any, page: str, **places: str) -> None:
        self.names: dict[str, Any] = {"spark": spark, "__name__": "__main__"}
        self._page = page
        self._places = places
        self._blocks = blocks(page, "python")

    def run(self, count: int | None = None) -> str:
        """Run the next blocks, all that are left by default; return what they print."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for number, block in enumerate(self._blocks, 1):
                text = block.text
                for old, new in self._places.items():
                    text = text.replace(old, new)
                code = compile("\n" * (block.line - 1) + text, self._page, "exec")
                if not any(other in text for other in OTHERS):
                    exec(code, self.names)
                if number == count:
                    break
        return said.getvalue()


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JetStream]:
    """A server for the pages alone, whose streams have names that other tests use too."""
    with JetStreamServer(tmp_path_factory.mktemp("pages")) as server:
        yield JetStream("bundled", server.url)


@pytest.fixture
def reader(spark: Any, bundled: JetStream) -> Callable[[str], Reader]:
    """A reader of a page whose server is the bundled one."""
    return lambda page: Reader(spark, page, **{ADDRESS: bundled.url})


@pytest.fixture
def streams(bundled: JetStream) -> Iterator[Callable[..., None]]:
    """Make streams; they are gone afterwards, with what the ledger remembers."""
    made = []

    def make(name: str, subjects: str, **config: Any) -> None:
        bundled.create_stream(name, subjects=[subjects], **config)
        made.append(name)

    yield make
    for name in (*made, "KV_spark-jetstream-ledger"):
        if name in bundled.control.stream_names():
            bundled.delete_stream(name)


def test_first_ten_minutes(bundled, reader):
    said = reader(FIRST_PAGE).run()
    assert "\n1000\n" in said and "90 large orders" in said
    assert bundled.control.stream_state("ORDERS").messages == 0
    bundled.delete_stream("ORDERS")


def test_the_tutorial(spark, reader):
    zone = spark.conf.get("spark.sql.session.timeZone")
    said = reader("docs/tutorial.md").run()
    assert spark.conf.get("spark.sql.session.timeZone") == zone == "UTC"
    assert "3002 messages" in said and "1 put aside" in said
    assert "3000 flights counted" in said


def test_credentials(spark, tmp_path):
    page = "docs/how-to/credentials.md"
    passwords, question = (block.text for block in blocks(page, "sh"))
    typed(passwords, tmp_path)
    [config] = blocks(page, "conf")
    (tmp_path / "server.conf").write_text(config.text)
    with JetStreamServer(arguments=["-c", str(tmp_path / "server.conf")]) as server:
        places = {ADDRESS: server.url, "secrets/": f"{tmp_path}/secrets/"}
        said = Reader(spark, page, **places).run()
        for old, new in places.items():
            question = question.replace(old, new)
        assert "0 could be better" in called(question)
    assert said == "100 orders\nTrue\n"


def test_tls(spark, tmp_path):
    page = "docs/how-to/tls.md"
    [certificates] = blocks(page, "sh")
    typed(certificates.text, tmp_path)
    plain, mutual = (block.text for block in blocks(page, "conf"))
    config = tmp_path / "server.conf"
    # The reader is in the folder, and Spark's processes are not.
    places = {f'"{file.name}"': f'"{file}"' for file in tmp_path.glob("*.pem")}

    def started(text: str, port: int) -> JetStreamServer:
        for old, new in places.items():
            text = text.replace(old, new)
        config.write_text(text)
        return JetStreamServer(tmp_path / "store", port, arguments=["-c", str(config)]).start()

    port = free_port()
    server = started(plain, port)
    reader = Reader(spark, page, **places, **{"localhost:4222": f"localhost:{port}"})
    try:
        said = reader.run(2)
        server.stop()
        server = started(mutual, port)
        said += reader.run()
    finally:
        server.stop()
    assert said == "10 orders\nTrue\n10 orders\n"


def test_work_queues(bundled, reader, streams):
    read = reader(PAGE_ON_QUEUES)
    # What the page takes for granted is the last block of the first ten minutes.
    before = [block.text for block in blocks(FIRST_PAGE, "python")][-1]
    exec(before.replace(ADDRESS, bundled.url), read.names)
    assert read.run() == "100 jobs are done\n"
    assert bundled.control.stream_state("JOBS").messages == 0
    assert _payloads(bundled.control, "DONE", 100)[:2] == [b"JOB 0", b"JOB 1"]
    for name in ("JOBS", "DONE", "ORDERS"):
        bundled.delete_stream(name)


def _payloads(control: Blocking, stream: str, count: int) -> list[bytes]:
    asked = [
        control.request(f"STREAM.MSG.GET.{stream}", {"seq": seq}) for seq in range(1, count + 1)
    ]
    return sorted(base64.b64decode(each["message"]["data"]) for each in asked)


def test_exactly_once(reader, streams):
    streams("ORDERS", "orders.>")
    assert reader("docs/how-to/exactly-once.md").run() == "1000 orders\n1005 orders\n"


def test_replay(reader, streams):
    streams("ORDERS", "orders.>")
    said = reader("docs/how-to/replay.md").run()
    assert said == ("30 in all\n10 from 11 to 20\n30 since New Year\n10 from Germany\nbatch 0 30\n")


def test_schema_evolution(reader, streams):
    streams("ORDERS", "orders.>")
    streams("AVRO", "avro.>")
    said = reader("docs/how-to/schema-evolution.md").run()
    assert said == "[(1, 5.0, 'EUR'), (2, 7.5, 'USD')]\n" * 2


def test_tuning(reader, streams):
    streams("ORDERS", "orders.>")
    said = reader("docs/how-to/tuning.md").run()
    assert said.count("\n50000 rows, {") + said.startswith("50000 rows, {") == 2
    assert "'kernels'" in said


def test_from_kafka(bundled, reader, streams):
    streams("ORDERS", "orders.>")
    streams("PAID", "paid.>")
    bundled.publish([(f"orders.{n}", b'{"state": "%s"}' % state) for n, state in
                     enumerate((b"new", b"paid", b"sent", b"paid"))])  # fmt: skip
    reader("docs/from-kafka.md").run()
    assert bundled.control.stream_state("PAID").messages == 2


def test_from_nats_spark_connector(bundled, reader, streams):
    streams("ORDERS", "orders.>")
    streams("COPIES", "copies.>")
    bundled.publish([("orders.de", b"%d" % n) for n in range(1, 7)])
    reader("docs/from-nats-spark-connector.md").run()
    assert _payloads(bundled.control, "COPIES", 3) == [b"4", b"5", b"6"]


def test_from_nats_py(bundled, reader, streams):
    streams("ORDERS", "orders.>")
    streams("SUMS", "sums.>")
    bundled.publish([(f"orders.{'de' if n % 2 else 'fr'}", b'{"euros": %d}' % n) for n in range(9)])
    said = reader("docs/from-nats-py.md").run()
    assert said == "{'fr': 20, 'de': 16}\n"
    assert _payloads(bundled.control, "SUMS", 2) == [b"16", b"20"]


def test_options(reader, bundled, streams):
    streams("ORDERS", "orders.>")
    headers = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 0\r\nA: b\r\n\r\n"
    bundled.control.request_message("orders.1", b"x", headers)
    read = reader("docs/options.md")
    assert read.run() == "" and read.names["columns"][-1] == "headers"
    assert [row.headers for row in read.names["plain"].collect()] == [{"A": ["b"]}]


def test_clusters(reader):
    read = reader("docs/clusters.md")
    read.run()
    assert read.names["orders"].isStreaming


def test_objects(spark, bundled, streams, tmp_path):
    bundled.create_stream(
        "OBJ_files",
        subjects=["$O.files.C.>", "$O.files.M.>"],
        allow_rollup_hdrs=True,
        allow_direct=True,
    )
    (tmp_path / "a.png").write_bytes(b"a picture")
    places = {ADDRESS: bundled.url, 'load("images")': f'load("{tmp_path}")'}
    read = Reader(spark, "docs/objects.md", **places)
    try:
        assert "SHA-256=" in read.run()
        assert read.names["changes"].isStreaming
        assert callable(read.names["remove_unused_chunks"])
    finally:
        bundled.delete_stream("OBJ_files")


def test_no_block_of_these_pages_leaves_a_query_behind(spark):
    assert not spark.streams.active
