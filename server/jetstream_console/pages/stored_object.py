"""One object: what describes it, its content as a download; where changes are allowed it is
deleted."""

from __future__ import annotations

import secrets

from nicegui import ui
from starlette.responses import PlainTextResponse, Response

from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.object_stores import (
    ObjectReader,
    ObjectWriter,
    Store,
    StoredObject,
    store_detail,
)
from jetstream_console.asking.progress import TransferProgress
from jetstream_console.console import Console
from jetstream_console.pages.confirming import confirmed
from jetstream_console.pages.frame import answered, facts, frame, load, refusal
from jetstream_console.pages.progress_bar import ProgressBar
from jetstream_console.pages.stores import content_address, store_address
from jetstream_console.pages.streamed import Streamed
from jetstream_console.showing.payload import printable
from jetstream_console.showing.quantities import count, size, when


def show(console: Console, store_name: str, place: str) -> None:
    """Build the page."""
    trail = (("Objects", "/stores"), (store_name, store_address(store_name)))
    with frame(console, "Object", *trail) as page:
        top = ui.column().classes("w-full")

    async def look() -> None:
        store = await answered(top, store_detail(console.api, store_name), clears=True)
        if store is None:
            return
        asked = ObjectReader(console.api, store).find(place)
        found = await answered(top, asked, clears=True)
        if found is None:
            return
        with top:
            _description(found)
            if found.info is not None and found.info.has_content:
                Downloading(console, store, found)
            if console.is_writable and not found.is_gone:
                Deleting(console, store, found)

    load(page, look)


async def content(console: Console, store_name: str, place: str, watched: str) -> Response:
    """Return the content of an object as a file.

    Args:
        watched: under which name a page watches how far it is; empty for none.
    """
    try:
        store = await store_detail(console.api, store_name)
        reader = ObjectReader(console.api, store)
        info = (await reader.find(place)).info
        if info is None or not info.has_content:
            raise RefusedError("It has no content.")
    except AskingError as error:
        return PlainTextResponse(str(error), 404)
    progress = console.downloads.pop(watched, None) or TransferProgress(info.size)
    progress.whole = info.size
    return Streamed(reader.content(info), info.name, progress)


def _description(found: StoredObject) -> None:
    ui.label(printable(found.name)).classes("text-lg break-all").mark("object-name")
    info = found.info
    if info is None:
        refusal(printable(found.words))
        return
    entries = {
        "Size": f"{size(info.size)}, in {count(info.chunks)} chunks",
        "Written": when(found.modified),
        "Digest": info.digest or "none",
        "Revision": count(found.revision),
        "Description": info.description or "none",
    }
    if info.is_deleted:
        entries["Content"] = "none: deleted"
    if info.link:
        entries["Link to"] = info.link
    entries |= {name: ", ".join(values) for name, values in info.headers.items()}
    with ui.card().classes("w-full"):
        facts({printable(name): printable(value) for name, value in entries.items()})


class Downloading:
    """Has the browser save the content; shows how far it is, and stops."""

    def __init__(self, console: Console, store: Store, found: StoredObject) -> None:
        self._downloads = console.downloads
        self._store = store.name
        self._found = found
        self._watched = ""
        ui.button("Download", icon="download", on_click=self._begin).mark("download")
        self._bar = ProgressBar()
        ui.context.client.on_disconnect(self._forget)

    def _begin(self) -> None:
        self._forget()
        size_now = self._found.info.size if self._found.info is not None else 0
        progress = TransferProgress(size_now)
        self._watched = secrets.token_urlsafe(16)
        self._downloads[self._watched] = progress
        self._bar.watch(progress)
        ui.download.from_url(content_address(self._store, self._found.place, self._watched))

    def _forget(self) -> None:
        """Give up what the browser has not asked for, and stop what it has."""
        self._bar.stop()
        self._downloads.pop(self._watched, None)


class Deleting:
    """Deletes the object that is shown."""

    def __init__(self, console: Console, store: Store, found: StoredObject) -> None:
        self._console = console
        self._store = store
        self._found = found
        ui.button("Delete", color="negative", on_click=self._delete)
        self._place = ui.column().classes("w-full")

    async def _delete(self) -> None:
        if not await confirmed(self._found.name, "The object is removed with all it holds."):
            return
        self._place.clear()
        left = await answered(self._place, self._deleted(), changes=True)
        if left is None:
            return
        with self._place:
            ui.label("It was deleted.").mark("done").props("role=status")
            if left:
                refusal(left)

    async def _deleted(self) -> str:
        writer = ObjectWriter(self._console.api, self._store, self._console.leftovers)
        return await writer.delete(self._found)
