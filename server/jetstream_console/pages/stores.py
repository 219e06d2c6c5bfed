"""All object stores in a table."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from jetstream_console.asking.object_stores import Store, all_stores
from jetstream_console.console import Console
from jetstream_console.pages.columns import LINK_CELL, column
from jetstream_console.pages.frame import answered, frame, load, refusal
from jetstream_console.showing.quantities import count, limit, size, span_ns, when

_COLUMNS = [
    column("name", "Store"),
    column("bytes", "Size", "size"),
    column("most", "At most"),
    column("age", "Kept for"),
    column("last", "Last written"),
    column("kind", "Kind"),
    column("description", "Description"),
]


def store_address(store: str) -> str:
    """Return where the page of an object store is."""
    return f"/stores/{quote(store, safe='')}"


def object_address(store: str, place: str) -> str:
    """Return where the page of an object is."""
    return f"{store_address(store)}/object?{urlencode({'at': place})}"


def content_address(store: str, place: str, progress: str = "") -> str:
    """Return where the content of an object is downloaded.

    Args:
        progress: under which name somebody watches it.
    """
    asked = {"at": place} | ({"progress": progress} if progress else {})
    return f"{store_address(store)}/content?{urlencode(asked)}"


def show(console: Console) -> None:
    """Build the page."""
    rows: list[Store] = []
    with frame(console, "Objects"):
        said = ui.column().classes("w-full")
        with ui.row().classes("items-center gap-4 w-full"):
            wanted = ui.input("Filter by name").props("clearable dense").mark("filter")
            again = ui.button("Look again", icon="refresh").props("flat")
            totals = ui.label().mark("totals")
        table = ui.table(columns=_COLUMNS, rows=[], row_key="name", pagination=25)
        table.classes("w-full").mark("store-table").add_slot("body-cell-name", LINK_CELL)

    def fill() -> None:
        needle = (wanted.value or "").lower()
        seen = [row for row in rows if needle in row.name.lower()]
        table.rows = [_row(each) for each in seen]
        totals.text = (
            f"{count(len(seen))} of {count(len(rows))} stores: "
            f"{size(sum(each.bytes for each in seen))}"
        )

    async def look() -> None:
        said.clear()
        found = await answered(said, all_stores(console.api))
        if found is None:
            return
        rows[:] = found.rows
        if found.unseen:
            with said:
                refusal(f"{count(found.unseen)} streams are not looked at; some may be stores.")
        fill()

    wanted.on_value_change(fill)
    again.on_click(look)
    load(said, look)


def kind_of(store: Store) -> str:
    """Return what kind of a store it is, in a few words."""
    origin = f"mirror of {store.origin}" if store.origin else ""
    replicas = f"{store.replicas} replicas" if store.replicas > 1 else ""
    sealed = "sealed" if store.is_sealed else ""
    return ", ".join(filter(None, (store.storage, replicas, origin, sealed)))


def _row(store: Store) -> dict[str, Any]:
    return {
        "name": store.name,
        "address": store_address(store.name),
        "bytes": store.bytes,
        "most": limit(store.bytes_max),
        "age": span_ns(store.age_max_ns) if store.age_max_ns else "ever",
        "last": when(store.last_time),
        "kind": kind_of(store),
        "description": store.description,
    }
