"""All key-value buckets in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from jetstream_console.asking.buckets import Bucket, all_buckets
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.frame import answered, frame, load, refusal
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.showing.quantities import count, limit, size, span_ns, when

_COLUMNS = [
    column("name", "Bucket"),
    column("keys", "Keys, with deleted ones", "count"),
    column("entries", "Entries", "count"),
    column("bytes", "Size", "size"),
    column("most", "At most"),
    column("history", "History", "count"),
    column("age", "Kept for"),
    column("last", "Last written"),
    column("kind", "Kind"),
    column("description", "Description"),
]


def bucket_address(bucket: str) -> str:
    """Return where the page of a bucket is."""
    return f"/buckets/{quote(bucket, safe='')}"


def key_address(bucket: str, key: str, revision: int = 0) -> str:
    """Return where the page of a key is, at one of its revisions or at the newest."""
    asked = {"name": key} | ({"revision": str(revision)} if revision else {})
    return f"{bucket_address(bucket)}/key?{urlencode(asked)}"


def show(console: Console) -> None:
    """Build the page."""
    rows: list[Bucket] = []
    with frame(console, "Buckets"):
        said = ui.column().classes("w-full")
        with ui.row().classes("items-center gap-4 w-full"):
            wanted = ui.input("Filter by name").props("clearable dense").mark("filter")
            again = ui.button("Look again", icon="refresh").props("flat")
            totals = ui.label().mark("totals")
        table = PagedTable(_COLUMNS, _CELLS)
        table.element.mark("bucket-table")

    def fill() -> None:
        needle = (wanted.value or "").lower()
        seen = [row for row in rows if needle in row.name.lower()]
        table.fill(seen)
        totals.text = (
            f"{count(len(seen))} of {count(len(rows))} buckets: "
            f"{size(sum(each.bytes for each in seen))}"
        )

    async def look() -> None:
        found = await answered(said, all_buckets(console.api), clears=True)
        if found is None:
            return
        rows[:] = found.rows
        if found.unseen:
            with said:
                refusal(f"{count(found.unseen)} streams are not looked at; some may be buckets.")
        fill()

    wanted.on_value_change(fill)
    again.on_click(look)
    load(said, look)


def _kind(bucket: Bucket) -> str:
    origin = f"mirror of {bucket.origin}" if bucket.origin else ""
    replicas = f"{bucket.replicas} replicas" if bucket.replicas > 1 else ""
    return ", ".join(filter(None, (bucket.storage, replicas, origin)))


_CELLS: Mapping[str, Callable[[Bucket], Any]] = {
    "name": lambda bucket: bucket.name,
    "address": lambda bucket: bucket_address(bucket.name),
    "keys": lambda bucket: bucket.keys,
    "entries": lambda bucket: bucket.entries,
    "bytes": lambda bucket: bucket.bytes,
    "most": lambda bucket: limit(bucket.bytes_max),
    "history": lambda bucket: bucket.history,
    "age": lambda bucket: span_ns(bucket.age_max_ns) if bucket.age_max_ns else "good",
    "last": lambda bucket: when(bucket.last_time),
    "kind": _kind,
    "description": lambda bucket: bucket.description,
}
