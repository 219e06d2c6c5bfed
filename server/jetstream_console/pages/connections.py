"""Clients of the server and its accounts, as its monitoring shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from jetstream_console.asking.answers import Answer, number, part, text
from jetstream_console.asking.monitor import ConnectedClient, Monitor
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.frame import answered, frame, load
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.showing.quantities import count

ROWS_MAX = 1_024
_SORTS = {
    "cid": "oldest",
    "msgs_from": "messages from them",
    "msgs_to": "messages to them",
    "bytes_from": "bytes from them",
    "bytes_to": "bytes to them",
    "pending": "bytes that wait",
    "subs": "subscriptions",
    "idle": "idle",
}
_CONNECTIONS = [
    column("cid", "Number", "count"),
    column("name", "Name"),
    column("account", "Account"),
    column("user", "User"),
    column("place", "From"),
    column("language", "Library"),
    column("uptime", "Up"),
    column("idle", "Idle"),
    column("rtt", "Round trip"),
    column("subscriptions", "Subscriptions", "count"),
    column("pending_bytes", "Waits", "size"),
    column("in_messages", "Messages in", "count"),
    column("out_messages", "Messages out", "count"),
    column("in_bytes", "Bytes in", "size"),
    column("out_bytes", "Bytes out", "size"),
]
_ACCOUNTS = [
    column("account", "Account"),
    column("connections", "Connections", "count"),
    column("subscriptions", "Subscriptions", "count"),
    column("in_messages", "Messages in", "count"),
    column("in_bytes", "Bytes in", "size"),
    column("out_messages", "Messages out", "count"),
    column("out_bytes", "Bytes out", "size"),
    column("slow", "Too slow", "count"),
]


def show(console: Console) -> None:
    """Build the page."""
    with frame(console, "Connections") as page:
        if console.monitor is None:
            ui.label("Clients are known to the monitoring of a server only: start with --monitor.")
            return
        with ui.row().classes("items-center gap-4"):
            sort = ui.select(_SORTS, value="cid", label="First come").classes("w-56").mark("sort")
            again = ui.button("Look again", icon="refresh").props("flat")
            said = ui.label().mark("connections-said")
        place = ui.column().classes("w-full")
        below = ui.column().classes("w-full")

    monitor: Monitor = console.monitor

    async def look() -> None:
        asked = monitor.connections(sort.value, 0, ROWS_MAX)
        found = await answered(place, asked, clears=True)
        if found is None:
            said.text = ""
        else:
            said.text = f"{count(len(found.rows))} of {count(found.total)} connections"
            with place:
                table = PagedTable(_CONNECTIONS, _CONNECTION_CELLS)
                table.element.mark("connection-table")
                table.fill(found.rows)
        accounts = await answered(below, monitor.accounts(), clears=True)
        if accounts is not None:
            with below:
                ui.label("Accounts").classes("text-lg")
                by_account = PagedTable(_ACCOUNTS, _ACCOUNT_CELLS)
                by_account.element.mark("account-table")
                by_account.fill(accounts)

    sort.on_value_change(look)
    again.on_click(look)
    load(page, look)


def _client_cell(field: str) -> Callable[[ConnectedClient], Any]:
    return lambda client: getattr(client, field)


_CONNECTION_CELLS: Mapping[str, Callable[[ConnectedClient], Any]] = {
    each["name"]: _client_cell(each["name"]) for each in _CONNECTIONS
} | {"rtt": lambda client: client.rtt or "–"}
_ACCOUNT_CELLS: Mapping[str, Callable[[Answer], Any]] = {
    "account": lambda answer: text(answer, "acc"),
    "connections": lambda answer: number(answer, "conns"),
    "subscriptions": lambda answer: number(answer, "num_subscriptions"),
    "in_messages": lambda answer: number(part(answer, "received"), "msgs"),
    "in_bytes": lambda answer: number(part(answer, "received"), "bytes"),
    "out_messages": lambda answer: number(part(answer, "sent"), "msgs"),
    "out_bytes": lambda answer: number(part(answer, "sent"), "bytes"),
    "slow": lambda answer: number(answer, "slow_consumers"),
}
