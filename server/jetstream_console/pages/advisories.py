"""Advisories as they come, while the page is open."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui

from jetstream_console.asking.advisories import DEEDS, METRICS, REQUESTS, Advisories, Advisory
from jetstream_console.asking.errors import RefusedError
from jetstream_console.console import Console
from jetstream_console.pages.columns import column, opening_cells
from jetstream_console.pages.frame import answered, frame, load
from jetstream_console.showing.payload import cut, printable
from jetstream_console.showing.quantities import count, when
from jetstream_console.showing.redaction import text_without_secrets, without_secrets

_EVERY_S = 0.5
_COLUMNS = [
    column("time", "Time"),
    column("kind", "Kind"),
    column("about", "About"),
    column("words", "What"),
    column("subject", "Subject"),
]


def show(console: Console) -> None:
    """Build the page."""
    with frame(console, "Advisories") as page:
        ui.label(
            "What servers tell from now on, while this page is open. Requests are many; "
            "those of this console are among them."
        ).classes("text-xs opacity-60")
        listening = Live(console)
    load(page, listening.begin)


class Live:
    """The newest advisories, of those kinds that were chosen."""

    def __init__(self, console: Console) -> None:
        self._advisories = Advisories(console.link)
        self._shown = -1
        self._is_refused = False
        with ui.row().classes("items-center gap-4"):
            self._wanted = ui.input("Text in them").props("clearable dense").mark("filter")
            self._requests = ui.checkbox("API requests").mark("requests")
            self._metrics = ui.checkbox("Metrics").mark("metrics")
            ui.button("Listen again", icon="refresh", on_click=self.begin).props("flat")
            self._said = ui.label().mark("advisories-said")
        self._words = ui.column().classes("w-full")
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="number", pagination=25)
        self._table.classes("w-full").mark("advisory-table")
        opening_cells(self._table, "kind", self._open)
        self._table.on(
            "rowClick",
            lambda event: self._open(event.args),
            js_handler="(event, row) => emit(row.number)",
        )
        self._close = ui.label().classes("whitespace-pre-wrap break-all font-mono text-sm")
        self._close.mark("advisory")
        self._wanted.on_value_change(self._fill)
        self._requests.on_value_change(self.begin)
        self._metrics.on_value_change(self.begin)
        self._timer = ui.timer(_EVERY_S, self._look, active=False)
        # A browser that was cut off comes back within seconds, and goes on.
        ui.context.client.on_delete(self._advisories.close)

    async def begin(self) -> None:
        """Listen to what is chosen now."""
        subjects = [DEEDS]
        subjects += [REQUESTS] if self._requests.value else []
        subjects += [METRICS] if self._metrics.value else []
        await answered(self._words, self._listen(tuple(subjects)), clears=True)
        if self._timer.is_deleted:
            await self._advisories.close()
        else:
            self._timer.activate()
            self._show()

    async def _listen(self, subjects: tuple[str, ...]) -> None:
        self._is_refused = False
        try:
            await self._advisories.open(subjects)
        except RefusedError:
            # Who asked once more would be refused once more.
            self._is_refused = True
            raise

    async def _look(self) -> None:
        self._show()
        # The connection was given up, maybe before all of this was listened to; what comes until
        # there is another is not heard.
        if not (self._advisories.is_open or self._advisories.is_changing or self._is_refused):
            await self.begin()

    def _show(self) -> None:
        if self._advisories.count != self._shown:
            self._fill()

    def _fill(self) -> None:
        self._shown = self._advisories.count
        needle = (self._wanted.value or "").lower()
        found = self._advisories.newest()
        self._table.rows = [
            row for row in map(_row, found) if needle in " ".join(map(str, row.values())).lower()
        ]
        self._said.text = f"{count(self._shown)} came"
        if self._shown > len(found):
            self._said.text += f", the last {count(len(found))} are here"

    def _open(self, chosen: Any) -> None:
        for each in self._advisories.newest():
            if each.number == chosen:
                content = without_secrets(each.content)
                text = json.dumps(content, indent=2, ensure_ascii=False)
                self._close.text = cut(printable(text))


def _row(advisory: Advisory) -> dict[str, Any]:
    return {
        "number": advisory.number,
        "time": when(advisory.time),
        "kind": advisory.kind,
        "about": printable(advisory.about),
        "words": printable(text_without_secrets(advisory.words))[:300],
        "subject": printable(advisory.subject),
    }
