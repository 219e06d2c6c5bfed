"""All key-value buckets in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from jetstream_console.asking.buckets import Bucket, all_buckets
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.full_list import FullList, SeenRows
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.showing.quantities import count, kept_for, limit, size, when

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

    async def ask() -> SeenRows[Bucket]:
        found = await all_buckets(console.api)
        unseen = f"{count(found.unseen)} streams are not looked at; some may be buckets."
        return SeenRows(found.rows, [unseen] if found.unseen else [])

    _LIST.show(console, _table, ask)


def _table() -> PagedTable[Bucket]:
    table = PagedTable(_COLUMNS, _CELLS)
    table.element.mark("bucket-table")
    return table


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
    "age": lambda bucket: kept_for(bucket.age_max_ns),
    "last": lambda bucket: when(bucket.last_time),
    "kind": _kind,
    "description": lambda bucket: bucket.description,
}
_LIST: FullList[Bucket] = FullList(
    title="Buckets",
    noun="buckets",
    filtered_by="Filter by name",
    texts=lambda bucket: [bucket.name],
    totals=lambda buckets: size(sum(each.bytes for each in buckets)),
)
