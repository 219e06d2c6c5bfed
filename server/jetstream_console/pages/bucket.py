"""One bucket: its keys in pages, what is written while somebody watches, and new keys."""

from __future__ import annotations

from collections import deque
from typing import Any

from nicegui import ui

from jetstream_console.asking.buckets import (
    Bucket,
    Entry,
    EntryReader,
    EntryWriter,
    bucket_detail,
    checked_pattern,
    new_key,
)
from jetstream_console.asking.errors import AskingError, UnreachableError
from jetstream_console.asking.watch import Watch
from jetstream_console.console import Console
from jetstream_console.pages.buckets import key_address
from jetstream_console.pages.columns import column, link_cells
from jetstream_console.pages.frame import answered, facts, frame, load, refusal, stream_address
from jetstream_console.pages.written_rows import WrittenRows
from jetstream_console.showing.payload import preview, printable
from jetstream_console.showing.quantities import count, kept_for, limit, size, when

PAGE = 50
WATCHED_MAX = 200
_WATCH_S = 0.5
_KEYS = [
    column("key", "Key"),
    column("value", "Value"),
    column("size", "Size", "size"),
    column("revision", "Revision", "count"),
    column("written", "Written"),
]


def show(console: Console, name: str) -> None:
    """Build the page."""
    with frame(console, name, ("Buckets", "/buckets")) as page:
        place = ui.column().classes("w-full")

    async def look() -> None:
        bucket = await answered(place, bucket_detail(console.api, name), clears=True)
        if bucket is None:
            return
        with place:
            _state(bucket)
            _keys(EntryReader(console.api, bucket), name)
            with ui.expansion("Watch", icon="visibility").classes("w-full"):
                Watching(console, bucket)
            if console.is_writable:
                with ui.expansion("New key", icon="add").classes("w-full"):
                    _new(EntryWriter(console.api, bucket), name)

    load(page, look)


def _state(bucket: Bucket) -> None:
    ui.link("Its stream", stream_address(bucket.stream))
    with ui.card().classes("w-full"):
        facts(
            {
                "Keys, with deleted ones": count(bucket.keys),
                "Entries": f"{count(bucket.entries)}, at most {count(bucket.history)} of a key",
                "Size": f"{size(bucket.bytes)} of {limit(bucket.bytes_max)}",
                "Kept for": kept_for(bucket.age_max_ns),
                "Storage": bucket.storage,
                "Mirror of": bucket.origin or "none",
                "Description": bucket.description or "none",
            }
        )


def _keys(reader: EntryReader, bucket: str) -> None:
    WrittenRows(
        noun="key",
        search=lambda: ui.input("Keys, as in orders.*.new or >", value=">").mark("pattern"),
        columns=_KEYS,
        row=lambda entry: _row(bucket, entry),
        end=reader.end,
        ask=lambda end, wanted, gone: reader.keys(end, wanted.strip(), PAGE, gone),
    )


class Watching:
    """Shows what is written from now on, while its switch is on and the page is open."""

    def __init__(self, console: Console, bucket: Bucket) -> None:
        self._api = console.api
        self._bucket = bucket
        self._reader = EntryReader(console.api, bucket)
        self._watch: Watch | None = None
        self._rows: deque[dict[str, Any]] = deque(maxlen=WATCHED_MAX)
        self._seen = self._skipped = 0
        with ui.row().classes("items-center gap-4"):
            self._pattern = ui.input("Keys to watch", value=">").mark("watch-pattern")
            self._switch = ui.switch("Watch", on_change=self._turn).mark("watching")
            self._said = ui.label().mark("watch-said")
        self._words = ui.column().classes("w-full")
        self._table = ui.table(columns=_KEYS, rows=[], row_key="number", pagination=25)
        link_cells(self._table.classes("w-full").mark("watch-table"), "key")
        self._timer = ui.timer(_WATCH_S, self._look, active=False)

    async def _turn(self) -> None:
        self._watch = None
        self._timer.deactivate()
        if not self._switch.value:
            return
        self._words.clear()
        try:
            subject = self._bucket.prefix + checked_pattern(self._pattern.value.strip())
            self._watch = Watch(self._api, self._bucket.stream, subject)
        except AskingError as error:
            self._end(str(error))
            return
        self._said.text = ""
        await self._look()
        self._timer.activate()

    async def _look(self) -> None:
        watch = self._watch
        if watch is None:
            return
        try:
            came = await watch.look()
        except UnreachableError as error:
            # It goes on where it was once the servers are back.
            if watch is self._watch:
                self._away(str(error))
            return
        except AskingError as error:
            if watch is self._watch:
                self._end(str(error))
            return
        if watch is not self._watch:
            return
        if self._words.default_slot.children:
            self._words.clear()
        self._said.text = self._said.text or "Watching."
        if not (came.messages or came.skipped or came.is_remade):
            return
        for message in came.messages:
            self._seen += 1
            row = _row(self._bucket.name, self._reader.entry(message))
            self._rows.appendleft(row | {"number": self._seen})
        self._skipped += came.skipped
        self._table.rows = list(self._rows)
        self._said.text = f"{count(self._seen)} seen"
        if self._skipped:
            self._said.text += f"; {count(self._skipped)} revisions came too fast to be shown"
        if came.is_remade:
            self._said.text += "; the bucket was made anew"

    def _end(self, words: str) -> None:
        self._watch = None
        self._timer.deactivate()
        self._switch.value = False
        self._away(words)

    def _away(self, words: str) -> None:
        self._words.clear()
        with self._words:
            refusal(words)


def _new(writer: EntryWriter, bucket: str) -> None:
    key = ui.input("Key").classes("w-full max-w-xl").mark("new-key")
    value = ui.textarea("Value").classes("w-full max-w-xl font-mono").mark("new-value")
    button = ui.button("Create").mark("create")
    place = ui.column().classes("w-full")

    async def create() -> None:
        place.clear()
        name = (key.value or "").strip()
        button.disable()
        try:
            revision = await answered(place, _created(name), changes=True)
        finally:
            button.enable()
        if revision is not None:
            with place, ui.row().props("role=status"):
                ui.label(f"Written as revision {revision}:").mark("done")
                ui.link(name, key_address(bucket, name))

    async def _created(name: str) -> int:
        text = (value.value or "").encode("utf-8", "replace")
        return await writer.create(new_key(name), text)

    button.on_click(create)


def _row(bucket: str, entry: Entry) -> dict[str, Any]:
    # A name that is not UTF-8 was changed on its way here, and leads to nothing.
    revision = entry.revision if "�" in entry.key else 0
    return {
        "key": printable(entry.key),
        "address": key_address(bucket, entry.key, revision),
        "value": f"({entry.gone})" if entry.gone else preview(entry.message.payload),
        "size": len(entry.message.payload),
        "revision": entry.revision,
        "written": when(entry.message.time),
    }
