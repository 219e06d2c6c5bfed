"""One object store: its objects in pages; where changes are allowed files are put into it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from nicegui import ui
from nicegui.elements.upload_files import FileUpload, LargeFileUpload
from nicegui.events import UploadEventArguments

from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.object_stores import (
    ObjectPage,
    ObjectReader,
    ObjectWriter,
    Store,
    StoredObject,
    place_of,
    store_detail,
)
from jetstream_console.asking.progress import TransferProgress
from jetstream_console.console import Console
from jetstream_console.pages.columns import column, link_cells
from jetstream_console.pages.confirming import confirmed
from jetstream_console.pages.frame import answered, facts, frame, load, refusal, stream_address
from jetstream_console.pages.progress_bar import ProgressBar
from jetstream_console.pages.stores import kind_of, object_address
from jetstream_console.showing.payload import printable
from jetstream_console.showing.quantities import count, limit, size, span_ns, when

PAGE = 50
FILE_BYTES_MAX = 2 << 30
_OBJECTS = [
    column("name", "Object"),
    column("size", "Size", "size"),
    column("modified", "Written"),
    column("digest", "Digest"),
    column("what", "What"),
]


def show(console: Console, name: str) -> None:
    """Build the page."""
    with frame(console, name, ("Objects", "/stores")) as page:
        place = ui.column().classes("w-full")

    async def look() -> None:
        store = await answered(place, store_detail(console.api, name), clears=True)
        if store is None:
            return
        with place:
            _state(store)
            ObjectPages(ObjectReader(console.api, store), name)
            if console.is_writable:
                with ui.expansion("Upload", icon="upload").classes("w-full"):
                    Uploading(console, store)

    load(page, look)


def _state(store: Store) -> None:
    ui.link("Its stream", stream_address(store.stream))
    with ui.card().classes("w-full"):
        facts(
            {
                "Size": f"{size(store.bytes)} of {limit(store.bytes_max)}",
                "Kept for": span_ns(store.age_max_ns) if store.age_max_ns else "good",
                "Kind": kind_of(store),
                "Description": store.description or "none",
            }
        )


class ObjectPages:
    """Objects, the last written first."""

    def __init__(self, reader: ObjectReader, store: str) -> None:
        self._reader = reader
        self._store = store
        self._page: ObjectPage | None = None
        with ui.row().classes("items-center gap-4"):
            self._needle = ui.input("Text in their names").mark("needle")
            self._needle.on("keydown.enter", self._show_newest)
            self._shows_gone = ui.checkbox("with deleted ones").mark("shows-gone")
            ui.button("Show objects", on_click=self._show_newest)
            older = ui.button("Older", icon="chevron_left", on_click=self._show_older)
            older.props("flat")
            self._said = ui.label().mark("objects-said")
        self._place = ui.column().classes("w-full")
        load(self._place, self._show_newest)

    async def _show_newest(self) -> None:
        end = await answered(self._place, self._reader.end(), clears=True)
        if end is not None:
            await self._show(end)

    async def _show_older(self) -> None:
        if self._page is not None and self._page.has_more:
            await self._show(self._page.start)
        else:
            self._said.text = "There are none that were written before."

    async def _show(self, end: int) -> None:
        asked = self._reader.objects(end, self._needle.value or "", PAGE, self._shows_gone.value)
        page = await answered(self._place, asked, clears=True)
        if page is None:
            return
        self._page = page
        more = ", there may be more" if page.has_more else ""
        self._said.text = f"{count(len(page.objects))} objects{more}"
        rows = [_row(self._store, each) for each in page.objects]
        with self._place:
            table = ui.table(columns=_OBJECTS, rows=rows, row_key="revision")
            link_cells(table.classes("w-full").mark("object-table"), "name")


class Uploading:
    """Puts a file of the browser's machine into the store; shows how far it is, and stops."""

    def __init__(self, console: Console, store: Store) -> None:
        self._console = console
        self._store = store
        self._progress: TransferProgress | None = None
        self._name = ui.input("Name of the object, if not that of the file")
        self._name.classes("w-full max-w-xl").mark("object-name")
        self._upload = ui.upload(
            label="Files", max_file_size=FILE_BYTES_MAX, on_upload=self._take, auto_upload=True
        ).mark("chosen-file")
        self._bar = ProgressBar()
        self._place = ui.column().classes("w-full")

    async def _take(self, event: UploadEventArguments) -> None:
        if self._progress is not None and not self._progress.is_over:
            self._refuse("Another file is under way.")
            return
        self._place.clear()
        self._progress = progress = TransferProgress(event.file.size())
        self._bar.watch(progress)
        try:
            progress.end(await self._put(event.file, progress))
        except AskingError as error:
            progress.end("It was not put.")
            self._refuse(str(error))
        finally:
            progress.end("")
            if isinstance(event.file, LargeFileUpload):
                # By itself it goes when what refers to it is collected, which may be much later.
                event.file._path.unlink(missing_ok=True)
            if not self._upload.is_deleted:
                self._upload.reset()

    async def _put(self, file: FileUpload, progress: TransferProgress) -> str:
        name = (self._name.value or "").strip() or file.name
        name = name.encode("utf-8", "replace").decode()
        writer = ObjectWriter(self._console.api, self._store, self._console.leftovers)
        before = await ObjectReader(self._console.api, self._store).find_named(name)
        is_there = before is not None and not before.is_gone
        if is_there and not await confirmed(name, "What the object holds now is replaced."):
            raise RefusedError("The name was not given.")
        content = cast(AsyncGenerator[bytes, None], file.iterate())
        # It has the file open until it is closed, or collected, which may be much later.
        async with aclosing(content):
            pieces = progress.until_stopped(content)
            left = await writer.put(name, pieces, before, progress.move)
        with self._place, ui.row().props("role=status"):
            ui.label("Put:").mark("done")
            ui.link(printable(name), object_address(self._store.name, place_of(name)))
        return left

    def _refuse(self, words: str) -> None:
        if not self._place.is_deleted:
            with self._place:
                refusal(words)


def _row(store: str, found: StoredObject) -> dict[str, Any]:
    info = found.info
    row: dict[str, Any] = {
        "name": printable(found.name),
        "address": object_address(store, found.place),
        "revision": found.revision,
        "modified": when(found.modified),
    }
    if info is None:
        return row | {"size": None, "digest": "", "what": printable(found.words)}
    kind = "deleted" if info.is_deleted else f"link to {info.link}" if info.link else "object"
    what = ", ".join(filter(None, (kind, info.description)))
    return row | {"size": info.size, "digest": info.digest, "what": printable(what)}
