"""One stream in detail: state, config, consumers, subjects, where it copies from, its copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from jetstream_console.asking.consumers import Consumer, consumers_of
from jetstream_console.asking.streams import StreamDetail, stream_detail, subjects_of
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.consumer import consumer_address
from jetstream_console.pages.frame import (
    answered,
    facts,
    figures,
    frame,
    load,
    refusal,
    stream_address,
)
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.pages.stream_changing import Configuring, Removing
from jetstream_console.showing.payload import printable
from jetstream_console.showing.quantities import count, size, span_ns, when
from jetstream_console.showing.redaction import without_secrets

_CONSUMERS = [
    column("name", "Consumer"),
    column("kind", "Kind"),
    column("filters", "Filters"),
    column("pending", "Lag", "count"),
    column("unacknowledged", "Unacknowledged", "count"),
    column("redelivered", "Redelivered", "count"),
    column("waiting", "Waiting pulls", "count"),
    column("delivered", "Delivered up to", "count"),
    column("floor", "Acknowledged up to", "count"),
    column("active", "Last active"),
]
_SUBJECTS = [column("subject", "Subject"), column("messages", "Messages", "count")]


def show(console: Console, name: str) -> None:
    """Build the page."""
    with frame(console, name, ("Streams", "/streams")) as page:
        with ui.row().classes("items-center gap-4"):
            ui.link("Messages", f"{stream_address(name)}/messages").classes("as-button")
            ui.button("Look again", icon="refresh", on_click=lambda: look()).props("flat")
        top = ui.column().classes("w-full")
        with ui.expansion("Consumers", icon="people", value=True).classes("w-full"):
            consumers = ui.column().classes("w-full")
        with ui.expansion("Subjects", icon="label").classes("w-full"):
            _subjects(console, name)
        with ui.expansion("Configuration", icon="settings").classes("w-full"):
            config = ui.label().classes("whitespace-pre-wrap font-mono text-sm").mark("config")
        if console.is_writable:
            with ui.expansion("Change the configuration", icon="edit").classes("w-full"):
                Configuring(console, name)
            with ui.expansion("Remove", icon="delete").classes("w-full"):
                Removing(console, name)

    async def look() -> None:
        detail = await answered(top, stream_detail(console.api, name), clears=True)
        if detail is None:
            consumers.clear()
            return
        with top:
            _state(detail)
        shown = without_secrets(detail.config)
        text = json.dumps(shown, indent=2, ensure_ascii=False, sort_keys=True)
        config.text = printable(text)
        found = await answered(consumers, consumers_of(console.api, name), clears=True)
        if found is None:
            return
        with consumers:
            table = PagedTable(_CONSUMERS, _CONSUMER_CELLS)
            table.element.mark("consumer-table")
            table.fill(found.rows)
            if found.total > len(found.rows):
                refusal(f"Only {count(len(found.rows))} of {count(found.total)} are looked at.")

    load(page, look)


def _state(detail: StreamDetail) -> None:
    stream = detail.stream
    figures(
        {
            "Messages": count(stream.messages),
            "Size": size(stream.bytes),
            "Subjects held": count(stream.subject_count),
            "Consumers": count(stream.consumer_count),
        }
    )
    with ui.element("div").classes("cards w-full"):
        with ui.card():
            facts(
                {
                    "First": f"{stream.first_sequence} · {when(detail.first_time)}",
                    "Last": f"{stream.last_sequence} · {when(stream.last_time)}",
                    "Removed between": count(stream.deleted),
                }
            )
        with ui.card():
            facts(
                {
                    "Subjects": ", ".join(stream.subjects) or "none",
                    "Storage": stream.storage,
                    "Retention": stream.retention,
                    "Created": when(stream.created),
                    "Description": stream.description or "none",
                }
            )
        origins = [detail.mirror] if detail.mirror else list(detail.sources)
        if origins:
            with ui.card():
                ui.label("Mirror of" if detail.mirror else "Copies from").classes("font-medium")
                for origin in origins:
                    heard = f"lag {count(origin.lag)}, heard of {span_ns(origin.silent_ns)} ago"
                    facts({origin.name: heard})
                    if origin.words:
                        refusal(origin.words)
        if detail.replicas:
            with ui.card():
                ui.label("Replicas").classes("font-medium")
                facts(
                    {
                        each.name: "leader"
                        if each.is_leader
                        else "offline"
                        if each.is_offline
                        else f"{'current' if each.is_current else 'behind'}, lag {count(each.lag)}"
                        for each in detail.replicas
                    }
                )


def _subjects(console: Console, name: str) -> None:
    with ui.row().classes("items-center gap-4"):
        pattern = ui.input("Pattern, as in orders.*.new or >", value=">").classes("w-64")
        pattern.mark("pattern")
        button = ui.button("Show subjects").props("flat")
        said = ui.label().mark("subjects-said")
    place = ui.column().classes("w-full")

    async def look() -> None:
        asked = subjects_of(console.api, name, pattern.value.strip())
        found = await answered(place, asked, clears=True)
        if found is None:
            said.text = ""
            return
        most = sorted(found.counts.items(), key=lambda entry: (-entry[1], entry[0]))
        said.text = f"{count(found.total)} subjects"
        if found.total > len(most):
            said.text += f", {count(len(most))} of them here"
        with place:
            table = PagedTable(_SUBJECTS, _SUBJECT_CELLS)
            table.element.mark("subject-table")
            table.fill(most)

    button.on_click(look)
    pattern.on("keydown.enter", look)


def _consumer_kind(row: Consumer) -> str:
    durable = "durable" if row.is_durable else "ephemeral"
    paused = f"paused until {when(row.paused_until)}" if row.paused_until else ""
    way = "pull" if row.is_pull else "push" if row.is_bound else "push, nobody listens"
    return ", ".join(filter(None, (durable, way, f"ack {row.ack_policy}", paused)))


_CONSUMER_CELLS: Mapping[str, Callable[[Consumer], Any]] = {
    "name": lambda row: row.name,
    "address": lambda row: consumer_address(row.stream, row.name),
    "kind": _consumer_kind,
    "filters": lambda row: ", ".join(row.filters) or "all",
    "pending": lambda row: row.pending,
    "unacknowledged": lambda row: row.unacknowledged,
    "redelivered": lambda row: row.redelivered,
    "waiting": lambda row: row.waiting_pulls if row.is_pull else None,
    "delivered": lambda row: row.delivered_sequence,
    "floor": lambda row: row.floor_sequence,
    "active": lambda row: when(row.last_active),
}
_SUBJECT_CELLS: Mapping[str, Callable[[tuple[str, int]], Any]] = {
    "subject": lambda row: row[0],
    "messages": lambda row: row[1],
}
