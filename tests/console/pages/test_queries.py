"""Spark's queries, as a browser gets them from both servers."""

from __future__ import annotations

import asyncio
import json

from jetstream_spark.client import blocking
from jetstream_spark.client.flow import Flow
from jetstream_spark.options.format_options import SinkOptions
from tests.connector.command.conftest import MadeCheckpoint, line
from tests.console.asking.test_event_logs import ended, started
from tests.console.conftest import until


def test_reads_writes_and_connections(run, browse, name, server, tmp_path):
    async def work():
        events = tmp_path / "events"
        events.mkdir()
        query = "3baeea2d-6e28-43be-84ad-7746d4d4b18a"  # as the checkpoint has it
        log = started("1", 1, query) + ended("1", "java.Wrong: <b>\n\tat nats://a:hidden@b", query)
        (events / "app").write_bytes(log)
        (events / "app.lz4").write_bytes(b"x")
        async with browse(checkpoints=str(tmp_path), events=str(events)) as (user, world):
            await world.stream(name, [b"x"] * 10)
            created = (await world.api.ask(f"STREAM.INFO.{name}"))["created"]
            MadeCheckpoint(tmp_path / "q").add(0, line(created, **{name: 4}))
            ledger = await world.js.create_key_value(bucket="spark-jetstream-ledger")
            entry = json.dumps({"version": 2, "rows": 7}).encode()
            await ledger.put(f"txn.{name}.{name}", entry)
            given = {"servers": f"nats://127.0.0.1:{server.port}", "user": "all"}
            given |= {"password": "all", "connectionName": "<b>"}
            options = SinkOptions.parse(given).connection
            flow = await asyncio.to_thread(
                lambda: blocking.run(Flow.connect(blocking.this_host(), options, "reader"))
            )
            await user.open("/queries")
            tables = {}
            for mark in ("reads", "writes", "spark-connections"):
                [tables[mark]] = user.find(mark).elements
            await until(lambda: tables["spark-connections"].rows)
            [read] = tables["reads"].rows
            assert (read["stream"], read["batch"], read["next"], read["lag"]) == (name, 0, 4, 7)
            assert read["words"] == "failed last with java.Wrong: <b>"
            await user.should_see("is not read here")
            [runs] = user.find("runs").elements
            [ended_run] = runs.rows
            assert (ended_run["name"], ended_run["state"]) == ("shop", "failed")
            assert ended_run["error"] == "java.Wrong: <b>"
            for key in (["x"], ended_run["key"]):
                user.find(marker="open-row").trigger("click.stop", key)
            await user.should_see("java.Wrong: <b>\n\tat nats://(not shown)@b")
            await user.should_not_see("hidden")
            await until(lambda: tables["writes"].rows)
            [write] = (row for row in tables["writes"].rows if row["name"] == name)
            assert (write["kind"], write["batch"], write["rows"]) == ("txn", 2, 7)
            [row] = tables["spark-connections"].rows
            assert row["name"] == "<b>"
            flow.close()
            await world.js.delete_key_value("spark-jetstream-ledger")

    run(work())


def test_what_is_not_given_or_not_allowed_is_said(run, browse, tmp_path):
    async def work():
        async with browse(monitor="") as (user, _):
            await user.open("/queries")
            await user.should_see("Start with --checkpoints FOLDER")
            await user.should_see("Start with --monitor")
            await user.should_see("Start with --events FOLDER")
        async with browse(checkpoints=str(tmp_path / "none")) as (user, _):
            await user.open("/queries")
            await user.should_see("there is no folder", retries=50)

    run(work())
