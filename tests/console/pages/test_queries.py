"""Spark's queries, as a browser gets them from both servers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.ledger import LedgerWrite, Writes
from jetstream_console.asking.monitor import ConnectedClient, Connections
from jetstream_console.console import Console
from jetstream_console.pages import queries
from jetstream_console.pages.queries import LIBRARY, Parts
from nicegui import ui
from nicegui.testing import user_simulation

from jetstream_spark.client import blocking
from jetstream_spark.client.flow import Flow
from jetstream_spark.options.format_options import SinkOptions
from tests.connector.command.conftest import MadeCheckpoint, line
from tests.console.asking.test_event_logs import ended, started
from tests.console.conftest import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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


class PlayedLedger:
    """Answers with what there is next, and with the last for ever."""

    def __init__(self, *answers: Writes | AskingError) -> None:
        self.answers = list(answers)
        self.looks = 0

    async def look(self) -> Writes:
        """Give the next answer."""
        self.looks += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, AskingError):
            raise answer
        return answer


class PlayedMonitor:
    """Two connections of some more, of which one is ours."""

    total = 3

    async def connections(self, sort: str, offset: int, count: int) -> Connections:
        """Return two of them."""
        words = ["ours", "a", "u", "127.0.0.1:1", LIBRARY, "1s", "1s", "1ms"]
        ours = ConnectedClient(1, *words, *[0] * 6)
        rows = ours, dataclasses.replace(ours, cid=2, language="go 1")
        return Connections(rows, self.total)


def writes(share: float, is_cut: bool = False) -> Writes:
    return Writes((LedgerWrite("txn", "a", "S", 1, None, 7, None, NOW),), is_cut, share)


@asynccontextmanager
async def shown(monkeypatch, ledger, monitor=None):
    """Show the parts of the page, not yet filled."""
    monkeypatch.setattr(queries, "LedgerLook", lambda api: ledger)
    settings = SimpleNamespace(checkpoints="", events="")
    console = cast(Console, SimpleNamespace(api=None, settings=settings, monitor=monitor))
    async with user_simulation(lambda: None) as user:
        made: list[Parts] = []
        ui.page("/")(lambda: made.append(Parts(console)))
        await user.open("/")
        yield user, made[0]


def refusals(user) -> list[str]:
    try:
        return [each.text for each in user.find("refusal").elements]
    except AssertionError:
        return []


def test_a_ledger_is_read_to_its_end_and_how_far_is_seen_meanwhile(run, monkeypatch):
    async def work():
        seen = []
        ledger = PlayedLedger(writes(0.25), writes(0.5), writes(1.0))
        async with shown(monkeypatch, ledger) as (user, parts):
            look = ledger.look

            async def noted():
                seen.append((parts._read_so_far.visible, parts._read_so_far.value))
                return await look()

            ledger.look = noted
            await parts.look()
            assert seen == [(False, 0), (True, 0.25), (True, 0.5)]
            assert not parts._read_so_far.visible
            [table] = user.find("writes").elements
            assert [row["rows"] for row in table.rows] == [7]
            assert refusals(user) == []

    run(work())


def test_what_is_refused_or_left_out_is_said_once_however_often_it_is_looked_at(run, monkeypatch):
    async def work():
        ledger, monitor = PlayedLedger(RefusedError("no such bucket")), PlayedMonitor()
        async with shown(monkeypatch, ledger, monitor) as (user, parts):
            for at in (1, 2):
                await parts.look()
                assert ledger.looks == at, "who is refused asks again at once"
                assert sorted(refusals(user)) == ["Only 2 of 3 are looked at.", "no such bucket"]
            ledger.answers = [writes(1.0, is_cut=True)]
            for _ in range(2):
                await parts.look()
                cut = "The ledger holds more than is looked at here."
                assert sorted(refusals(user)) == ["Only 2 of 3 are looked at.", cut]
            [table] = user.find("spark-connections").elements
            assert [row["key"] for row in table.rows] == [1]
            monitor.total = 2
            await parts.look()
            assert refusals(user) == [cut]

    run(work())


def test_tables_of_what_was_not_given_are_not_there(run, monkeypatch):
    async def work():
        async with shown(monkeypatch, PlayedLedger(writes(1.0))) as (user, parts):
            await user.should_see("Start with --checkpoints FOLDER")
            for table in (parts._reads, parts._run_table, parts._connections):
                assert not table.visible

    run(work())


def test_a_batch_that_was_begun_and_is_not_done_is_told(run, monkeypatch):
    async def work():
        rows = [dataclasses.replace(writes(1.0).rows[0], begun=begun) for begun in (None, 2)]
        async with shown(monkeypatch, PlayedLedger(Writes(tuple(rows), False))) as (user, parts):
            await parts.look()
            [table] = user.find("writes").elements
            words = [row["words"] for row in table.rows]
            assert words == ["", "batch 2 was begun and is not done"]

    run(work())
