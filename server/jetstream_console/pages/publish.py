"""A message written by hand; only where changes are allowed."""

from __future__ import annotations

from nicegui import ui

from jetstream_console.asking.publishing import Stored, headers_of, publish
from jetstream_console.console import Console
from jetstream_console.pages.frame import answered, frame


def show(console: Console) -> None:
    """Build the page."""
    with frame(console, "Publish"):
        if not console.is_writable:
            return
        subject = ui.input("Subject").classes("w-full max-w-xl").mark("subject")
        headers = ui.textarea("Headers, one a line: Name: value").classes("w-full max-w-xl")
        headers.mark("headers")
        payload = ui.textarea("Payload").classes("w-full max-w-xl font-mono").mark("payload")
        button = ui.button("Publish").mark("send")
        place = ui.column().classes("w-full")

    async def send() -> None:
        place.clear()
        button.disable()
        try:
            stored = await answered(place, _sent(), changes=True)
        finally:
            button.enable()
        if stored is not None:
            kind = "It was there already" if stored.is_duplicate else "Stored"
            with place:
                said = ui.label(f"{kind}: {stored.stream}, sequence {stored.sequence}.")
                said.mark("done").props("role=status")

    async def _sent() -> Stored:
        found = headers_of(headers.value or "")
        text = (payload.value or "").encode("utf-8", "replace")
        return await publish(console.link, (subject.value or "").strip(), text, found)

    button.on_click(send)
