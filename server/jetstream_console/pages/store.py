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
    ObjectReader,
    ObjectWriter,
    Store,
    StoredObject,
    place_of,
    store_detail,
)
from jetstream_console.asking.progress import TransferProgress
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.confirming import confirmed
from jetstream_console.pages.frame import answered, facts, frame, load, refusal, stream_address
from jetstream_console.pages.progress_bar import ProgressBar
from jetstream_console.pages.stores import kind_of, object_address
from jetstream_console.pages.written_rows import WrittenRows
from jetstream_console.showing.payload import printable
from jetstream_console.showing.quantities import kept_for, limit, size, when

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
            _objects(ObjectReader(console.api, store), name)
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
                "Kept for": kept_for(store.age_max_ns),
                "Kind": kind_of(store),
                "Description": store.description or "none",
            }
        )


def _objects(reader: ObjectReader, store: str) -> None:
    WrittenRows(
        noun="object",
        search=lambda: ui.input("Text in their names").mark("needle"),
        columns=_OBJECTS,
        row=lambda found: _row(store, found),
        end=reader.end,
        ask=lambda end, wanted, gone: reader.objects(end, wanted, PAGE, gone),
    )


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
