"""Queries under observation, a trace that goes with rows, and what is noted of the end of one."""

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
from jetstream_spark.task_report import OBSERVERS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
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
    bus.waitUntilEmpty(100_000)  # listeners are told later, in a thread of their own
    found = {(one.metric.name, *one.labels): one.value for one in observation.samples}
    observation.stop()
    assert found["jetstream_spark_rows", "tracing"] == 2
    assert found["jetstream_spark_lag_sequences", "tracing", "TRACED"] == 0
    assert found["jetstream_spark_next_sequence", "tracing", "TRACED"] == 3
    assert heard and heard[0]["name"] == "tracing"
    message = bundled.control.request("STREAM.MSG.GET.COPIED", {"seq": 2})["message"]
    assert f"traceparent: {TRACE}\r\n".encode() in base64.b64decode(message["hdrs"])


def numbers_of(observation) -> dict[tuple[str, str], float]:
    """The numbers that are of a query as a whole, by the query and their names."""
    return {
        (one.labels[0], one.metric.name.removeprefix("jetstream_spark_")): one.value
        for one in observation.samples
        if len(one.labels) == 1
    }


def wait_for_listeners(spark) -> None:
    spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty(100_000)


def test_what_tasks_read_and_write_is_told_of_each_query(spark, both_servers, tmp_path):
    """Two queries at once; then each writes again what its stream has."""
    told: dict[str, list[dict]] = {}
    observation = jetstream_spark.observe(
        spark, callback=lambda one: told.setdefault(one["name"], []).append(one["jetstream"])
    )
    expected = {}
    for number, server in enumerate(both_servers):
        for name, config in (("SOLD", {}), ("KEPT", {"max_msg_size": 400}), ("DEAD", {})):
            server.create_stream(name, **config)
        data = [b"one", b"three", b"", b"one", b"too long" * 50, b"another" * number]
        server.publish([(f"SOLD.{at}", one) for at, one in enumerate(data)])
        size = sum(map(len, data))
        expected[server.kind] = {"bytes": size, "written_rows": 6, "written_bytes": size}
        # Nothing and nothing are the same, too.
        expected[server.kind] |= {"duplicate_rows": 1 + (not number), "skipped_rows": 0}
        expected[server.kind] |= {"dead_letters": 1, "unreported_batches": 0}

    def start(server):
        options = {"servers": server.url, "stream": "SOLD", "startingOffsets": "earliest"}
        rows = spark.readStream.format("jetstream").options(**options, minPartitions=2).load()
        rows = rows.selectExpr("data", "concat('KEPT.', seq) AS subject", "md5(data) AS msgId")
        sink = rows.writeStream.format("jetstream").queryName(server.kind)
        sink = sink.options(servers=server.url, stream="KEPT", dedupe="column")
        sink = sink.options(onError="deadLetter", deadLetterSubject="DEAD.x")
        sink = sink.option("checkpointLocation", str(tmp_path / server.kind))
        return sink.trigger(availableNow=True).start()

    for server, query in [(server, start(server)) for server in both_servers]:
        query.awaitTermination()
        assert server.control.stream_state("DEAD").messages == 1
        stored = 6 - 1 - expected[server.kind]["duplicate_rows"]
        assert server.control.stream_state("KEPT").messages == stored
        (tmp_path / server.kind / "commits" / "0").unlink()
        (tmp_path / server.kind / "commits" / ".0.crc").unlink(missing_ok=True)
    wait_for_listeners(spark)
    assert told == {kind: [counts] for kind, counts in expected.items()}
    for query in [start(server) for server in both_servers]:
        query.awaitTermination()
    wait_for_listeners(spark)
    found = numbers_of(observation)
    for kind, counts in expected.items():
        again = counts | {"written_bytes": 0, "skipped_rows": 6}
        again |= {"duplicate_rows": 0, "dead_letters": 0}
        assert told[kind] == [counts, again]
        assert {name: found[kind, name] for name in counts} == {
            name: counts[name] + again[name] for name in counts
        }
    observation.stop()


def test_writes_of_foreach_batch_count_once_although_the_batch_fails_first(
    spark, bundled, tmp_path
):
    for name in ("MANY", "HALF"):
        bundled.create_stream(name)
    bundled.publish_numbers("MANY", 0, 20)
    observation, other = jetstream_spark.observe(spark), jetstream_spark.observe(spark)
    rows = spark.readStream.format("jetstream").option("servers", bundled.url)
    rows = rows.option("stream", "MANY").option("startingOffsets", "earliest").load()
    runs: list[int] = []

    def write(batch, number):
        runs.append(number)
        for half in (0, 1):
            part = batch.where(f"seq % 2 = {half}").selectExpr("'HALF.a' AS subject", "data")
            part = part.write.format("jetstream").option("servers", bundled.url)
            part.option("stream", "HALF").option("publishMode", "each").mode("append").save()
            if len(runs) == 1:
                other.stop()  # which the tasks of this query do not hear of
                raise ValueError("the first run fails half-way")

    sink = rows.writeStream.foreachBatch(write).queryName("halves")
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="half-way"):
        query.awaitTermination()
    sink.start().awaitTermination()
    wait_for_listeners(spark)
    assert (runs, bundled.control.stream_state("HALF").messages) == ([0, 0], 10 + 20)
    found = numbers_of(observation)
    size = sum(len(str(number)) for number in range(20))
    assert found["halves", "written_rows"] == 20 and found["halves", "written_bytes"] == size
    # The batch was read once for each write, as Spark's own number of rows says.
    assert (found["halves", "rows"], found["halves", "bytes"]) == (40, 2 * size)
    assert (found["halves", "unreported_batches"], found["halves", "failures"]) == (0, 1)
    assert ("halves", "bytes") not in numbers_of(other)
    sink = rows.limit(1).writeStream.format("noop").queryName("limited")
    sink.trigger(availableNow=True).start().awaitTermination()
    wait_for_listeners(spark)
    found = numbers_of(observation)
    assert ("limited", "bytes") not in found and found["limited", "unreported_batches"] == 1
    observation.stop()
    assert spark.conf.get(OBSERVERS, "none") == "none"


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
        context.listenerBus().waitUntilEmpty(100_000)
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
