"""Spark's queries that read or write here, as far as servers, ledger and checkpoints know them."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from jetstream_console.asking.checkpoints import QueryPosition, checkpoints_in
from jetstream_console.asking.event_logs import EventLogs, QueryRun, QueryRuns
from jetstream_console.asking.ledger import LedgerLook, LedgerWrite
from jetstream_console.asking.monitor import ConnectedClient
from jetstream_console.console import Console
from jetstream_console.pages.columns import column, link_cells, opening_cells
from jetstream_console.pages.frame import (
    REFRESH_S,
    answered,
    frame,
    load,
    refusal,
    stream_address,
)
from jetstream_console.showing.payload import cut, printable
from jetstream_console.showing.quantities import count, when
from jetstream_console.showing.redaction import text_without_secrets

# What the connector calls itself when it connects.
LIBRARY = "python-jetstream-spark"
_CONNECTIONS_MAX = 1_024
_READS = [
    column("stream", "Stream"),
    column("query", "Query"),
    column("batch", "Batch done", "count"),
    column("next", "Next", "count"),
    column("lag", "Lag", "count"),
    column("rate", "Sequences/s", "rate"),
    column("changed", "Last written"),
    column("words", "Note"),
]
_RUNS = [
    column("name", "Query"),
    column("state", "State"),
    column("error", "Error"),
    column("began", "Began"),
    column("last_batch", "Last batch"),
    column("query", "Id"),
]
_WRITES = [
    column("stream", "Stream"),
    column("kind", "Kind"),
    column("name", "Name"),
    column("batch", "Batch done", "count"),
    column("rows", "Rows", "count"),
    column("rate", "Rows/s", "rate"),
    column("written", "Last written"),
    column("words", "Note"),
]
_CONNECTIONS = [
    column("name", "Name"),
    column("place", "From"),
    column("account", "Account"),
    column("uptime", "Up"),
    column("idle", "Idle"),
    column("in_messages", "Published", "count"),
    column("out_messages", "Received", "count"),
    column("out_bytes", "Bytes received", "size"),
    column("pending", "Waits", "size"),
]


def show(console: Console) -> None:
    """Build the page."""
    with frame(console, "Spark") as page:
        parts = Parts(console)
    load(page, parts.look)
    ui.timer(REFRESH_S, parts.look, immediate=False)


class Parts:
    """What reads, how it ended, what writes, and who is connected."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ledger = LedgerLook(console.api)
        self._logs = EventLogs(console.settings.events) if console.settings.events else None
        self._runs = QueryRuns((), ())
        ui.label("Reads, by their checkpoints").classes("text-lg")
        self._reads_words = ui.column().classes("w-full")
        if not console.settings.checkpoints:
            ui.label("Start with --checkpoints FOLDER to see positions and lag.")
        self._reads = _table(_READS, "reads")
        self._reads.set_visibility(bool(console.settings.checkpoints))
        ui.label("Runs, by Spark's event logs").classes("text-lg")
        self._runs_words = ui.column().classes("w-full")
        if self._logs is None:
            ui.label("Start with --events FOLDER to see how queries ended, and why.")
        self._run_table = _table(_RUNS, "runs")
        opening_cells(self._run_table, "name", self._open)
        self._run_table.set_visibility(self._logs is not None)
        self._close = ui.label().classes("whitespace-pre-wrap break-all font-mono text-sm")
        self._close.mark("error")
        ui.label("Writes, by the ledger").classes("text-lg")
        self._writes_words = ui.column().classes("w-full")
        self._read_so_far = ui.linear_progress(0, show_value=False).mark("ledger-progress")
        self._read_so_far.set_visibility(False)
        self._writes = _table(_WRITES, "writes")
        ui.label("Connections").classes("text-lg")
        self._words = ui.column().classes("w-full")
        if console.monitor is None:
            ui.label("Start with --monitor to see connections.")
        self._connections = _table(_CONNECTIONS, "spark-connections")
        self._connections.set_visibility(console.monitor is not None)

    async def look(self) -> None:
        """Show what there is now."""
        await self._look_at_runs()
        await self._look_at_reads()
        await self._look_at_connections()
        while await self._look_at_writes() and not self._writes.is_deleted:
            pass

    async def _look_at_runs(self) -> None:
        if self._logs is None:
            return
        found = await answered(self._runs_words, self._logs.look(), clears=True)
        if found is None:
            return
        self._runs = found
        self._run_table.rows = [_run(each) for each in found.rows]
        with self._runs_words:
            for words in found.words:
                refusal(words)

    def _open(self, chosen: Any) -> None:
        for each in self._runs.rows:
            if each.run == chosen:
                error = cut(printable(text_without_secrets(each.error)))
                self._close.text = error or "It has not failed."

    async def _look_at_reads(self) -> None:
        folder = self._console.settings.checkpoints
        if folder:
            asked = checkpoints_in(self._console.api, folder)
            found = await answered(self._reads_words, asked, clears=True)
            self._reads.rows = [_read(each, self._runs) for each in found or ()]

    async def _look_at_writes(self) -> bool:
        """Show what is known of the ledger by now; return whether there is more to read."""
        found = await answered(self._writes_words, self._ledger.look(), clears=True)
        if found is None:
            return False
        self._read_so_far.value = found.share
        self._read_so_far.set_visibility(found.share < 1)
        self._writes.rows = [_write(each, self._runs) for each in found.rows]
        if found.is_cut:
            with self._writes_words:
                refusal("The ledger holds more than is looked at here.")
        return found.share < 1

    async def _look_at_connections(self) -> None:
        monitor = self._console.monitor
        if monitor is None:
            return
        asked = monitor.connections("cid", 0, _CONNECTIONS_MAX)
        found = await answered(self._words, asked, clears=True)
        if found is None:
            return
        ours = [each for each in found.rows if each.language.startswith(LIBRARY)]
        self._connections.rows = [_connection(each) for each in ours]
        if found.total > len(found.rows):
            with self._words:
                refusal(f"Only {count(len(found.rows))} of {count(found.total)} are looked at.")


def _table(columns: list[dict[str, Any]], mark: str) -> ui.table:
    table = ui.table(columns=columns, rows=[], row_key="key", pagination=25)
    table.classes("w-full").mark(mark)
    if columns[0]["name"] == "stream":
        link_cells(table, "stream")
    return table


def _read(row: QueryPosition, runs: QueryRuns) -> dict[str, Any]:
    last_error = runs.last_error(row.query)
    failed = f"failed last with {text_without_secrets(last_error)}" if last_error else ""
    return {
        "key": f"{row.folder} {row.stream}",
        "stream": printable(row.stream),
        "address": stream_address(row.stream),
        "query": printable(runs.named(row.query)),
        "batch": row.batch,
        "next": row.next,
        "lag": row.lag,
        "rate": row.rate,
        "changed": when(row.changed),
        "words": printable("; ".join(filter(None, (row.words, failed)))),
    }


def _run(row: QueryRun) -> dict[str, Any]:
    state = "failed" if row.error else "stopped" if row.has_ended else "no end is noted"
    return {
        "key": row.run,
        "name": printable(row.name) or "without a name",
        "state": state,
        "error": printable(text_without_secrets(row.error.partition("\n")[0]))[:300],
        "began": when(row.began),
        "last_batch": when(row.last_batch),
        "query": printable(row.query),
    }


def _write(row: LedgerWrite, runs: QueryRuns) -> dict[str, Any]:
    return {
        "key": f"{row.kind} {row.name} {row.stream}",
        "stream": printable(row.stream),
        "address": stream_address(row.stream),
        "kind": row.kind,
        "name": printable(runs.named(row.name) if row.kind == "query" else row.name),
        "batch": row.batch,
        "rows": row.rows,
        "rate": row.rate,
        "written": when(row.written),
        "words": "" if row.begun is None else f"batch {row.begun} was begun and is not done",
    }


def _connection(row: ConnectedClient) -> dict[str, Any]:
    return {
        "key": row.cid,
        "name": printable(row.name),
        "place": row.place,
        "account": row.account,
        "uptime": row.uptime,
        "idle": row.idle,
        "in_messages": row.in_messages,
        "out_messages": row.out_messages,
        "out_bytes": row.out_bytes,
        "pending": row.pending_bytes,
    }
