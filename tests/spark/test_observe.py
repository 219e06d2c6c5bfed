"""A query under observation, and a trace that goes with its rows."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

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


def test_the_page_s_own_lines_run(spark, capsys):
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    exec(compile(block, str(PAGE), "exec"), {"spark": spark})
    assert int(capsys.readouterr().out.split()[0]) > 0
