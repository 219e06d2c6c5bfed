"""Messages of a stream: read in pages, or searched for, and each looked at closely."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from nicegui import ui

from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.messages import Message, MessageReader, Page
from jetstream_console.asking.search import SearchStep, Wanted, search
from jetstream_console.console import Console
from jetstream_console.pages.frame import (
    answered,
    facts,
    frame,
    load,
    payload_address,
    refusal,
    stream_address,
)
from jetstream_console.pages.payloads import show_payload
from jetstream_console.showing.payload import preview, printable
from jetstream_console.showing.quantities import count, size, when

PAGE = 50
_STARTS = {
    "newest": "the newest",
    "oldest": "the oldest",
    "sequence": "a sequence",
    "time": "a time (UTC)",
    "last": "only the last of a subject",
}


def show(console: Console, stream: str) -> None:
    """Build the page."""
    trail = (("Streams", "/streams"), (stream, stream_address(stream)))
    with frame(console, "Messages", *trail):
        try:
            reader = MessageReader(console.api, stream)
        except RefusedError as error:
            refusal(str(error))
            return
        with ui.expansion("Search", icon="search").classes("w-full"):
            Searching(reader, stream)
        MessagePages(reader, stream)


class MessagePages:
    """Pages of messages, from a place that somebody chooses."""

    def __init__(self, reader: MessageReader, stream: str) -> None:
        self._reader = reader
        self._stream = stream
        self._page: Page | None = None
        self._newest_first = True
        with ui.row().classes("items-center gap-4"):
            self._start = ui.select(_STARTS, value="newest", label="Begin with").classes("w-48")
            self._start.mark("start")
            self._value = ui.input("Sequence, time or subject").classes("w-64").mark("value")
            self._value.bind_enabled_from(
                self._start, "value", lambda value: value not in ("newest", "oldest")
            )
            self._pattern = ui.input("Subjects", value=">").mark("read-subjects")
            ui.button("Show", on_click=self._show)
        for each in (self._value, self._pattern):
            each.on("keydown.enter", self._show)
        with ui.row().classes("items-center gap-2"):
            self._older = ui.button("Older", icon="chevron_left", on_click=self._show_older)
            self._newer = ui.button("Newer", icon="chevron_right", on_click=self._show_newer)
            for button in (self._older, self._newer):
                button.props("flat")
            self._said = ui.label().mark("page-said")
        self._words = ui.column().classes("w-full")
        self._place = ui.column().classes("w-full gap-0")
        load(self._place, self._show)

    async def _show(self) -> None:
        newest_first = self._start.value == "newest"
        page = await answered(self._place, self._first(), clears=True)
        if page is not None:
            self._newest_first = newest_first
            self._fill(page)

    async def _show_older(self) -> None:
        await self._turn(self._page.start if self._page else 1, is_back=True)

    async def _show_newer(self) -> None:
        await self._turn(self._page.end if self._page else 1, is_back=False)

    async def _turn(self, position: int, is_back: bool) -> None:
        pattern = self._pattern.value.strip()
        asked = self._reader.before if is_back else self._reader.after
        page = await answered(self._words, asked(position, pattern, PAGE), clears=True)
        if page is None:
            return
        if page.messages:
            self._fill(page)
        else:
            self._said.text = f"There are none {'before' if is_back else 'after'}."

    async def _first(self) -> Page:
        start, value = self._start.value, (self._value.value or "").strip()
        pattern = self._pattern.value.strip()
        if start == "newest":
            _, end = await self._reader.bounds()
            return await self._reader.before(end, pattern, PAGE)
        if start == "last":
            found = await self._reader.last_of(value)
            return Page((found,), found.sequence, found.sequence + 1, True)
        first = 1
        if start == "sequence":
            if not value.isdecimal() or len(value) > 20:
                raise RefusedError(f"'{printable(value)}' is no sequence.")
            first = min(int(value), 2**64 - 2)
        elif start == "time":
            first = await self._reader.first_at(_time(value))
        return await self._reader.after(first, pattern, PAGE)

    def _fill(self, page: Page) -> None:
        self._page = page
        self._words.clear()
        self._place.clear()
        messages = page.messages
        self._said.text = (
            f"{count(len(messages))} messages, {messages[0].sequence} to {messages[-1].sequence}"
            if messages
            else "There are none."
        )
        with self._place:
            for message in reversed(messages) if self._newest_first else messages:
                show_message(self._stream, message)


class Searching:
    """A search that shows how far it has come, and ends when it is stopped or nobody is looking."""

    def __init__(self, reader: MessageReader, stream: str) -> None:
        self._reader = reader
        self._stream = stream
        self._task: asyncio.Task[None] | None = None
        with ui.row().classes("items-center gap-4"):
            self._needle = ui.input("Text").mark("needle")
            self._pattern = ui.input("Subjects", value=">").mark("search-subjects")
            self._start = ui.number("From sequence", value=1, min=1, precision=0).mark("from")
            self._in_subject = ui.checkbox("in subjects", value=True)
            self._in_payload = ui.checkbox("in payloads", value=True)
            self._minds_case = ui.checkbox("Aa")
            self._begin = ui.button("Search", on_click=self._search).mark("begin-search")
            self._end = ui.button("Stop", on_click=self.stop).props("flat").mark("end-search")
        self._end.disable()
        self._bar = ui.linear_progress(0, show_value=False).mark("progress")
        self._said = ui.label().mark("search-said")
        self._place = ui.column().classes("w-full gap-0")
        self._needle.on("keydown.enter", self._search)
        ui.context.client.on_disconnect(self.stop)

    def stop(self) -> None:
        """End the search, if one is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _search(self) -> None:
        if self._task is not None and not self._task.done():
            return
        self._place.clear()
        self._begin.disable()
        self._end.enable()
        wanted = Wanted(
            self._pattern.value.strip(),
            self._needle.value or "",
            self._in_subject.value,
            self._in_payload.value,
            self._minds_case.value,
        )
        self._task = asyncio.create_task(self._go(wanted, int(self._start.value or 1)))
        await asyncio.wait({self._task})
        if not self._begin.is_deleted:
            self._begin.enable()
            self._end.disable()

    async def _go(self, wanted: Wanted, start: int) -> None:
        found = 0
        try:
            async for step in search(self._reader, wanted, start):
                found += len(step.found)
                self._show(step, found)
        except AskingError as error:
            with self._place:
                refusal(str(error))
        except asyncio.CancelledError:
            if not self._said.is_deleted:
                self._said.text += " Stopped."
            raise

    def _show(self, step: SearchStep, found: int) -> None:
        self._bar.value = step.share
        self._said.text = f"{count(found)} found among {count(step.looked_at)}."
        if step.is_full:
            self._said.text += f" That is enough; go on from sequence {step.position}."
        elif step.share == 1:
            self._said.text += " That is all."
        with self._place:
            for message in step.found:
                show_message(self._stream, message)


def show_message(stream: str, message: Message) -> None:
    """Show a message as a line that can be opened."""
    caption = f"{when(message.time)} · {size(message.size)} · {preview(message.payload)}"
    head = f"{message.sequence} · {printable(message.subject)}"
    line = ui.expansion(head, caption=caption).classes("w-full border-b break-words")
    line.mark("message")

    def fill() -> None:
        if line.value and not line.default_slot.children:
            with line:
                _close(stream, message)

    line.on_value_change(fill)


def _close(stream: str, message: Message) -> None:
    address = payload_address(stream, message.sequence)
    ui.link("Download", address).props("download").mark("download")
    if message.headers:
        with ui.card():
            facts([(printable(name), printable(value)) for name, value in message.headers])
    show_payload(message.payload)


def _time(text: str) -> datetime:
    """Return the moment that somebody wrote, in UTC unless told otherwise.

    Raises:
        RefusedError: it is not a time.
    """
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        words = f"'{printable(text)}' is no time; write it as 2026-11-23 or 2026-11-23T04:05:06."
        raise RefusedError(words) from None
