"""One consumer in detail; where changes are allowed it is paused, resumed, reset, deleted."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from nicegui import ui

from jetstream_console.asking.consumers import (
    Consumer,
    consumer_detail,
    delete_consumer,
    pause_consumer,
    reset_consumer,
)
from jetstream_console.asking.errors import AskingError
from jetstream_console.console import Console
from jetstream_console.pages.confirming import confirmed
from jetstream_console.pages.frame import (
    REFRESH_S,
    answered,
    facts,
    figures,
    frame,
    load,
    refusal,
    stream_address,
)
from jetstream_console.showing.payload import printable
from jetstream_console.showing.quantities import count, when
from jetstream_console.showing.redaction import without_secrets

_FOREVER_S = 100 * 365 * 86_400


def consumer_address(stream: str, name: str) -> str:
    """Return where the page of a consumer is."""
    return f"{stream_address(stream)}/consumers/{quote(name, safe='')}"


def show(console: Console, stream: str, name: str) -> None:
    """Build the page."""
    with frame(console, name, ("Streams", "/streams"), (stream, stream_address(stream))) as page:
        place = ui.column().classes("w-full")
        if console.is_writable:
            Changing(console, stream, name)
        with ui.expansion("Configuration", icon="settings").classes("w-full"):
            config = ui.label().classes("whitespace-pre-wrap font-mono text-sm").mark("config")

    async def look() -> None:
        try:
            found = await consumer_detail(console.api, stream, name)
        except AskingError as error:
            place.clear()
            with place:
                refusal(str(error))
            return
        place.clear()
        with place:
            _state(found)
        shown = without_secrets(found.config)
        text = json.dumps(shown, indent=2, ensure_ascii=False, sort_keys=True)
        config.text = printable(text)

    load(page, look)
    ui.timer(REFRESH_S, look, immediate=False)


def _state(found: Consumer) -> None:
    waiting = "listened to" if found.is_bound else "nobody listens"
    figures(
        {
            "Lag": f"{count(found.pending)} messages",
            "Unacknowledged": count(found.unacknowledged),
            "Redelivered": count(found.redelivered),
            "Waiting pulls": count(found.waiting_pulls) if found.is_pull else waiting,
            "Delivered up to": count(found.delivered_sequence),
            "Acknowledged up to": count(found.floor_sequence),
        }
    )
    with ui.card().classes("w-full"):
        facts(
            {
                "Filters": ", ".join(found.filters) or "all",
                "Last active": when(found.last_active),
                "Paused until": when(found.paused_until),
            }
        )


class Changing:
    """What changes a consumer."""

    def __init__(self, console: Console, stream: str, name: str) -> None:
        self._api = console.api
        self._stream = stream
        self._name = name
        with ui.row().classes("items-center gap-4"):
            self._minutes = ui.number("Minutes; empty: until resumed", min=0)
            self._minutes.classes("w-64").mark("minutes")
            ui.button("Pause", on_click=self._pause)
            ui.button("Resume", on_click=self._resume).props("flat")
            self._sequence = ui.number("From sequence; empty: after its floor", min=1, precision=0)
            self._sequence.classes("w-80").mark("reset-sequence")
            ui.button("Reset", on_click=self._reset)
            ui.button("Delete", color="negative", on_click=self._delete)
        self._place = ui.column().classes("w-full")

    async def _pause(self) -> None:
        seconds = 60 * self._minutes.value if self._minutes.value else _FOREVER_S
        until = datetime.now(UTC) + timedelta(seconds=min(seconds, _FOREVER_S))
        asked = pause_consumer(self._api, self._stream, self._name, until)
        await self._say(asked, f"Paused until {when(until)}.")

    async def _resume(self) -> None:
        past = datetime.now(UTC) - timedelta(days=1)
        asked = pause_consumer(self._api, self._stream, self._name, past)
        await self._say(asked, "It goes on.")

    async def _reset(self) -> None:
        sequence = int(self._sequence.value or 0)
        lost = "What it has acknowledged is delivered again from there on."
        if await confirmed(self._name, lost):
            asked = reset_consumer(self._api, self._stream, self._name, sequence)
            await self._say(asked, "It was reset.")

    async def _delete(self) -> None:
        if await confirmed(self._name, "The consumer is removed, and with it how far it was."):
            asked = delete_consumer(self._api, self._stream, self._name)
            await self._say(asked, "It was deleted.")

    async def _say(self, asked: Awaitable[None], words: str) -> None:
        self._place.clear()

        async def done() -> str:
            await asked
            return words

        said = await answered(self._place, done(), changes=True)
        if said is not None:
            with self._place:
                ui.label(said).mark("done").props("role=status")
