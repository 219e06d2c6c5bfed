"""All object stores in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from jetstream_console.asking.object_stores import Store, all_stores
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.full_list import FullList, SeenRows
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.showing.quantities import count, kept_for, limit, size, when

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

    async def ask() -> SeenRows[Store]:
        found = await all_stores(console.api)
        unseen = f"{count(found.unseen)} streams are not looked at; some may be stores."
        return SeenRows(found.rows, [unseen] if found.unseen else [])

    _LIST.show(console, _table, ask)


def _table() -> PagedTable[Store]:
    table = PagedTable(_COLUMNS, _CELLS)
    table.element.mark("store-table")
    return table


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
    "age": lambda store: kept_for(store.age_max_ns),
    "last": lambda store: when(store.last_time),
    "kind": kind_of,
    "description": lambda store: store.description,
}
_LIST: FullList[Store] = FullList(
    title="Objects",
    noun="stores",
    filtered_by="Filter by name",
    texts=lambda store: [store.name],
    totals=lambda stores: size(sum(each.bytes for each in stores)),
)
