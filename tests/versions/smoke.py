"""A small read and write of each kind with the PySpark that is installed here.

What a version lacks is said in the error; that is tried as well.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import jetstream_spark
from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.options.format_options import SinkOptions

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
NAME = f"PySpark {pyspark.__version__}, Python {platform.python_version()}"
ROWS = 500
TRIES = 4


def import_installed_pyspark(home: Path) -> None:
    """Have the Python processes that Spark starts import the installed PySpark.

    They would read its zip, in which nothing is compiled: more than a second for each process, of
    the ten that Spark gives them on whatever machine.

    Args:
        home: an empty folder, which becomes SPARK_HOME.
    """
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)


def start_session() -> SparkSession:
    """Two cores, no frills."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def refusal(call: Callable[[], Any]) -> str:
    """The text of the error of a call that must fail."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("it was not refused")


def finish(writer: Any) -> None:
    """Run a query to its end; once more if the machine was too busy for Spark to begin it.

    Spark gives a worker of a source ten seconds to connect, whatever else the machine does.
    """
    for tries_left in range(TRIES - 1, -1, -1):
        query = writer.start()
        try:
            assert query.awaitTermination(300), "the query hangs"
            return
        except StreamingQueryException as error:
            if not tries_left or "failed to connect back" not in str(error):
                raise
            print(f"{NAME}: a worker took too long to start; once more", flush=True)


class Smoke:
    """The tries, in order; each builds on the streams that the one before filled."""

    def __init__(self, spark: SparkSession, url: str, folder: str) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.control = Blocking(
            Control(this_host(), SinkOptions.parse({"servers": url}).connection, "test")
        )
        for name in ("IN", "OUT"):
            body = {"name": name, "subjects": [f"{name.lower()}.>"]}
            self.control.request(f"STREAM.CREATE.{name}", body)

    def kernels(self) -> None:
        found = jetstream_spark.__version_info__["kernels"]
        assert set(found.values()) == {"compiled"}, found

    def write_batch(self) -> None:
        rows = self.spark.range(ROWS).selectExpr(
            "concat('in.', id % 7) subject", "cast(id as string) data"
        )
        rows.write.format("jetstream").options(servers=self.url, stream="IN").mode("append").save()
        assert self.count("IN") == ROWS

    def read_batch(self) -> None:
        read = self.spark.read.format("jetstream").options(servers=self.url, stream="IN")
        rows = read.option("includeHeaders", "true").load()
        found = rows.selectExpr(
            "count(*)", "sum(seq)", "count(distinct cast(data as string))", "max(timestamp)"
        ).first()
        assert found[:3] == (ROWS, ROWS * (ROWS + 1) // 2, ROWS), found
        state = self.control.request("STREAM.INFO.IN")["state"]
        assert found[3].isoformat()[:19] == state["last_ts"][:19], (found, state["last_ts"])
        names = ["subject", "data", "stream", "seq", "timestamp", "headers"]
        assert rows.columns == names, rows.columns

    def stream(self, **options: str) -> Any:
        named = {"servers": self.url, "stream": "IN", "startingOffsets": "earliest"} | options
        return self.spark.readStream.format("jetstream").options(**named).load()

    def copy_all(self) -> None:
        """One run of a streaming copy, to the end of what is there."""
        rows = self.stream().selectExpr("replace(subject, 'in.', 'out.') subject", "data")
        writer = rows.writeStream.option("checkpointLocation", f"{self.folder}/copy")
        if VERSION >= (4, 1):
            writer = writer.format("jetstream").options(servers=self.url, stream="OUT")
        else:
            writer = writer.foreachBatch(self._write_one)
        finish(writer.trigger(availableNow=True))

    def _write_one(self, rows: Any, number: int) -> None:
        options = {"servers": self.url, "stream": "OUT", "txnAppId": "smoke"}
        options |= {"txnVersion": str(number)}
        rows.write.format("jetstream").options(**options).mode("append").save()

    def copy_stream(self) -> None:
        self.copy_all()
        assert self.count("OUT") == ROWS
        self.copy_all()
        assert self.count("OUT") == ROWS, "nothing is new"
        self.write_more(5)
        self.copy_all()
        assert self.count("OUT") == ROWS + 5

    def observed(self) -> None:
        """What tasks read and write is told where Spark lets the format be registered again."""
        told: list[dict[str, int]] = []

        def hear(progress: Mapping[str, Any]) -> None:
            if progress["jetstream"]:
                told.append(progress["jetstream"])

        observation = jetstream_spark.observe(self.spark, callback=hear)
        self.write_more(3)
        self.copy_all()
        self.spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty(30_000)
        observation.stop()
        expected = {"unreported_batches": 1}
        if VERSION >= (4, 1):
            expected = {"bytes": 3, "written_rows": 3, "written_bytes": 3, "duplicate_rows": 0}
            expected |= {"skipped_rows": 0, "dead_letters": 0, "unreported_batches": 0}
        assert told == [expected], told

    def write_more(self, count: int) -> None:
        for number in range(count):
            self.control.request_message("in.more", b"%d" % number)

    def made_again(self) -> None:
        """A stream that was made again is noticed, whether or not Spark says where it stands."""
        self.control.request("STREAM.DELETE.IN")
        self.control.request("STREAM.CREATE.IN", {"name": "IN", "subjects": ["in.>"]})
        self.write_more(3)
        told = refusal(self.copy_all)
        assert "STREAM_RECREATED" in told, told

    def limits(self) -> None:
        rows = self.stream(maxOffsetsPerTrigger="2", stream="OUT")
        batches: list[int] = []

        def run() -> None:
            writer = rows.writeStream.option("checkpointLocation", f"{self.folder}/limits")
            writer = writer.foreachBatch(lambda part, _: batches.append(part.count()))
            finish(writer.option("maxOffsetsPerTrigger", "2").trigger(availableNow=True))

        if VERSION >= (4, 2):
            rows = self.stream(maxOffsetsPerTrigger="300", stream="OUT")
            run()
            assert batches == [300, self.count("OUT") - 300], batches
        else:
            assert "needs PySpark 4.2" in refusal(run)

    def stream_writer(self) -> None:
        if VERSION >= (4, 1):
            return
        rows = self.stream(stream="OUT").selectExpr("'out.x' subject", "data")
        writer = rows.writeStream.option("checkpointLocation", f"{self.folder}/writer")
        writer = writer.format("jetstream").options(servers=self.url, stream="OUT")

        def run() -> None:
            finish(writer.trigger(availableNow=True))

        assert "foreachBatch" in refusal(run)

    def count(self, stream: str) -> int:
        return int(self.control.stream_state(stream).messages)

    def run(self) -> None:
        for step in (
            self.kernels,
            self.write_batch,
            self.read_batch,
            self.copy_stream,
            self.observed,
            self.made_again,
            self.limits,
            self.stream_writer,
        ):
            step()
            print(f"{NAME}: {step.__name__} is good", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        import_installed_pyspark(Path(home))
        spark = start_session()
        try:
            with JetStreamServer() as server:
                Smoke(spark, server.url, folder).run()
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
