"""All object stores in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from jetstream_console.asking.object_stores import Store, all_stores
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.frame import answered, frame, load, refusal
from jetstream_console.pages.paged_table import PagedTable
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
        table = PagedTable(_COLUMNS, _CELLS)
        table.element.mark("store-table")

    def fill() -> None:
        needle = (wanted.value or "").lower()
        seen = [row for row in rows if needle in row.name.lower()]
        table.fill(seen)
        totals.text = (
            f"{count(len(seen))} of {count(len(rows))} stores: "
            f"{size(sum(each.bytes for each in seen))}"
        )

    async def look() -> None:
        found = await answered(said, all_stores(console.api), clears=True)
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


_CELLS: Mapping[str, Callable[[Store], Any]] = {
    "name": lambda store: store.name,
    "address": lambda store: store_address(store.name),
    "bytes": lambda store: store.bytes,
    "most": lambda store: limit(store.bytes_max),
    "age": lambda store: span_ns(store.age_max_ns) if store.age_max_ns else "good",
    "last": lambda store: when(store.last_time),
    "kind": kind_of,
    "description": lambda store: store.description,
}
