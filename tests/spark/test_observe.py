"""A query under observation, a trace that goes with its rows, and what is noted of its end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from pathlib import Path

import pytest
from jetstream_console.asking.event_logs import EventLogs
from pyspark.errors import StreamingQueryException

import jetstream_spark

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs/command.md"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_query_is_observed_and_traceparent_goes_with_its_rows(spark, bundled, tmp_path):
    for name in ("TRACED", "COPIED"):
        bundled.create_stream(name)
    block = f"NATS/1.0\r\ntraceparent: {TRACE}\r\n\r\n".encode()
    bundled.publish([("TRACED.a", b"1"), ("TRACED.a", b"2")], block)
    heard: list[dict] = []
    observation = jetstream_spark.observe(spark, callback=heard.append, prometheus=0)
    reader = spark.readStream.format("jetstream").option("servers", bundled.url)
    reader = reader.option("stream", "TRACED").option("startingOffsets", "earliest")
    rows = reader.option("includeHeaders", "true").load()
    copied = rows.selectExpr("'COPIED.a' AS subject", "data", "headers")
    sink = copied.writeStream.format("jetstream").queryName("tracing")
    sink = sink.option("servers", bundled.url).option("stream", "COPIED")
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    bus = spark._jsparkSession.sparkContext().listenerBus()
    bus.waitUntilEmpty(30_000)  # listeners are told later, in a thread of their own
    found = {(one.metric.name, *one.labels): one.value for one in observation.samples}
    observation.stop()
    assert found["jetstream_spark_rows", "tracing"] == 2
    assert found["jetstream_spark_lag_sequences", "tracing", "TRACED"] == 0
    assert found["jetstream_spark_next_sequence", "tracing", "TRACED"] == 3
    assert heard and heard[0]["name"] == "tracing"
    message = bundled.control.request("STREAM.MSG.GET.COPIED", {"seq": 2})["message"]
    assert f"traceparent: {TRACE}\r\n".encode() in base64.b64decode(message["hdrs"])


def test_the_console_reads_from_spark_s_event_log_how_a_query_ended(spark, bundled, tmp_path):
    bundled.create_stream("ENDING")
    bundled.publish([("ENDING.a", b"1")])
    context, jvm = spark._jsc.sc(), spark._jvm
    made = jvm.org.apache.spark.scheduler.EventLoggingListener(
        context.applicationId(),
        context.applicationAttemptId(),
        jvm.java.net.URI(tmp_path.as_uri()),
        context.conf(),
        context.hadoopConfiguration(),
    )
    made.start()
    context.addSparkListener(made)
    logs = EventLogs(tmp_path.as_uri())
    reader = spark.readStream.format("jetstream").option("servers", bundled.url)
    rows = reader.option("stream", "ENDING").option("startingOffsets", "earliest").load()
    for wanted in ("data", "raise_error('<b>wrong</b>')"):
        sink = rows.selectExpr(wanted).writeStream.format("noop").queryName("ending")
        sink = sink.option("checkpointLocation", str(tmp_path / wanted[:4] / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        with contextlib.suppress(StreamingQueryException):
            query.awaitTermination()
        context.listenerBus().waitUntilEmpty(30_000)
        # Read while the application runs, and so the second time from where it was.
        found = asyncio.run(logs.look())
    context.removeSparkListener(made)
    made.stop()
    failed, done = found.rows
    assert (failed.query, failed.name, failed.has_ended) == (query.id, "ending", True)
    assert "<b>wrong</b>" in found.last_error(query.id)
    assert (done.has_ended, done.error, found.words) == (True, "", ())
    assert done.began is not None and done.last_batch is not None
    assert done.began <= done.last_batch < failed.began


def test_the_page_s_own_lines_run(spark, capsys):
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    exec(compile(block, str(PAGE), "exec"), {"spark": spark})
    assert int(capsys.readouterr().out.split()[0]) > 0
