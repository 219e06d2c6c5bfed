"""One key of a bucket: its value, its history; where changes are allowed it is written, deleted,
purged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from jetstream_console.asking.buckets import (
    Bucket,
    Entry,
    EntryReader,
    EntryWriter,
    bucket_detail,
)
from jetstream_console.console import Console
from jetstream_console.pages.buckets import bucket_address, key_address
from jetstream_console.pages.columns import column, link_cells
from jetstream_console.pages.confirming import confirmed
from jetstream_console.pages.frame import answered, facts, frame, load, payload_address
from jetstream_console.pages.payloads import show_payload
from jetstream_console.showing.payload import SHOWN_BYTES, as_editable, preview, printable
from jetstream_console.showing.quantities import count, size, when

PAGE = 50
_HISTORY = [
    column("revision", "Revision"),
    column("what", "What"),
    column("value", "Value"),
    column("size", "Size", "size"),
    column("written", "Written"),
]


def show(console: Console, bucket_name: str, key: str, revision: int) -> None:
    """Build the page.

    Args:
        revision: which one to show; 0 for the newest.
    """
    trail = (("Buckets", "/buckets"), (bucket_name, bucket_address(bucket_name)))
    with frame(console, printable(key), *trail) as page:
        top = ui.column().classes("w-full")
        below = ui.column().classes("w-full")

    async def look() -> None:
        bucket = await answered(top, bucket_detail(console.api, bucket_name), clears=True)
        if bucket is None:
            return
        reader = EntryReader(console.api, bucket)
        asked = reader.at(key, revision) if revision else reader.latest(key)
        entry = await answered(top, asked, clears=True)
        if entry is not None:
            with top:
                _entry(bucket, entry)
        below.clear()
        with below:
            if console.is_writable and entry is not None:
                Editing(EntryWriter(console.api, bucket), bucket.name, entry)
            with ui.expansion("History", icon="history", value=True).classes("w-full"):
                History(reader, bucket.name, key)

    load(page, look)


def _entry(bucket: Bucket, entry: Entry) -> None:
    with ui.card().classes("w-full"):
        facts(
            {
                "Revision": count(entry.revision),
                "Written": when(entry.message.time),
                "Size": size(len(entry.message.payload)),
                "Value": f"none: {entry.gone}" if entry.gone else "as below",
            }
        )
    if not entry.gone:
        address = payload_address(bucket.stream, entry.revision)
        ui.link("Download", address).props("download").mark("download")
        show_payload(entry.message.payload)


class Editing:
    """Changes a key, each time only if its newest entry is the one that is shown."""

    def __init__(self, writer: EntryWriter, bucket: str, entry: Entry) -> None:
        self._writer = writer
        self._bucket = bucket
        self._entry = entry
        text = "" if entry.gone else as_editable(entry.message.payload)
        with ui.expansion("Edit", icon="edit").classes("w-full"):
            if text is None:
                ui.label(
                    f"The value is not text, or larger than {size(SHOWN_BYTES)}: "
                    "what is written here replaces it."
                )
            self._value = ui.textarea("Value", value=text or "").classes("w-full font-mono")
            self._value.mark("edited")
            with ui.row().classes("items-center gap-4"):
                ui.button("Update", on_click=self._update)
                put = ui.button("Put", on_click=self._put).props("flat")
                put.tooltip("Writes, whatever others have written meanwhile")
                ui.button("Delete", color="negative", on_click=self._delete)
                ui.button("Purge", color="negative", on_click=self._purge)
            self._place = ui.column().classes("w-full")

    @property
    def _text(self) -> bytes:
        return (self._value.value or "").encode("utf-8", "replace")

    async def _update(self) -> None:
        key, revision = self._entry.key, self._entry.revision
        await self._say(lambda: self._writer.update(key, self._text, revision))

    async def _put(self) -> None:
        if await confirmed(self._entry.key, "The value is replaced, whoever has written it."):
            await self._say(lambda: self._writer.put(self._entry.key, self._text))

    async def _delete(self) -> None:
        key, revision = self._entry.key, self._entry.revision
        if await confirmed(key, "The key is marked as deleted; its history stays."):
            await self._say(lambda: self._writer.delete(key, revision))

    async def _purge(self) -> None:
        key, revision = self._entry.key, self._entry.revision
        if await confirmed(key, "The key is removed, and its history with it."):
            await self._say(lambda: self._writer.purge(key, revision))

    async def _say(self, write: Callable[[], Awaitable[int]]) -> None:
        self._place.clear()
        revision = await answered(self._place, write(), changes=True)
        if revision is not None:
            with self._place, ui.row().classes("items-center gap-2").props("role=status"):
                ui.label(f"Written as revision {count(revision)}.").mark("done")
        with self._place:
            ui.link("Look again", key_address(self._bucket, self._entry.key))


class History:
    """The entries of a key, the newest first."""

    def __init__(self, reader: EntryReader, bucket: str, key: str) -> None:
        self._reader = reader
        self._bucket = bucket
        self._key = key
        self._place = ui.column().classes("w-full")
        load(self._place, self._look)

    async def _look(self) -> None:
        end = await answered(self._place, self._reader.end(), clears=True)
        if end is None:
            return
        asked = self._reader.history(self._key, end, PAGE)
        page = await answered(self._place, asked, clears=True)
        if page is None:
            return
        with self._place:
            rows = [self._row(each) for each in page.rows]
            table = ui.table(columns=_HISTORY, rows=rows, row_key="revision", pagination=10)
            link_cells(table.classes("w-full").mark("history-table"), "revision")
            if page.has_more:
                ui.label(f"The last {count(len(rows))}; the others are in its stream.")

    def _row(self, entry: Entry) -> dict[str, object]:
        return {
            "revision": entry.revision,
            "address": key_address(self._bucket, self._key, entry.revision),
            "what": entry.gone or "written",
            "value": preview(entry.message.payload),
            "size": len(entry.message.payload),
            "written": when(entry.message.time),
        }
