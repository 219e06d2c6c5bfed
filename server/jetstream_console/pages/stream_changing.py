"""What changes a stream, each time only after its name was written."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from typing import Any

from nicegui import ui

from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.messages import MessageReader
from jetstream_console.asking.stream_changes import (
    Difference,
    delete_message,
    delete_stream,
    differences,
    parse_config,
    purge_stream,
    update_stream,
)
from jetstream_console.asking.streams import stream_detail
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.confirming import confirmed
from jetstream_console.pages.frame import answered, refusal
from jetstream_console.showing.payload import printable
from jetstream_console.showing.quantities import count, size
from jetstream_console.showing.redaction import HIDDEN, with_secrets, without_secrets

_DIFFERENCES = [
    column("field", "Field"),
    column("before", "Now"),
    column("after", "Then"),
]


class Removing:
    """Removes messages, or the stream."""

    def __init__(self, console: Console, name: str) -> None:
        self._api = console.api
        self._name = name
        with ui.row().classes("items-center gap-4"):
            self._pattern = ui.input("Subjects, empty for all").classes("w-56")
            self._pattern.mark("purge-subjects")
            self._before = ui.number("Before sequence", min=1, precision=0).mark("purge-before")
            self._keep = ui.number("Keep the newest", min=1, precision=0).mark("purge-keep")
            ui.button("Purge", color="negative", on_click=self._purge)
        with ui.row().classes("items-center gap-4"):
            self._sequence = ui.number("Sequence", min=1, precision=0).mark("doomed")
            button = ui.button("Delete message", color="negative", on_click=self._delete_message)
            button.bind_enabled_from(self._sequence, "value", bool)
        ui.button("Delete stream", color="negative", on_click=self._delete)
        self._place = ui.column().classes("w-full")

    async def _purge(self) -> None:
        pattern = (self._pattern.value or "").strip()
        before, keep = int(self._before.value or 0), int(self._keep.value or 0)
        some = [
            f"of '{pattern}'" if pattern else "",
            f"before {count(before)}" if before else "",
            f"except the newest {count(keep)}" if keep else "",
        ]
        which = " ".join(filter(None, some)) or "of the stream"
        if await confirmed(self._name, f"All messages {which} are removed."):
            await self._say(self._purged(pattern, before, keep))

    async def _purged(self, pattern: str, before: int, keep: int) -> str:
        gone = await purge_stream(self._api, self._name, pattern, before, keep)
        return f"{count(gone)} messages were removed."

    async def _delete_message(self) -> None:
        self._place.clear()
        sequence = int(self._sequence.value or 0)
        found = await answered(self._place, MessageReader(self._api, self._name).at(sequence))
        if found is None:
            return
        what = f"{size(found.size)}, of '{printable(found.subject)}'"
        if await confirmed(self._name, f"Message {sequence} is removed: {what}."):
            await self._say(self._message_deleted(sequence))

    async def _message_deleted(self, sequence: int) -> str:
        await delete_message(self._api, self._name, sequence)
        return f"Message {sequence} was removed."

    async def _delete(self) -> None:
        if await confirmed(self._name, "The stream is removed with its messages and consumers."):
            await self._say(self._deleted())

    async def _deleted(self) -> str:
        await delete_stream(self._api, self._name)
        return "The stream was deleted."

    async def _say(self, asked: Awaitable[str]) -> None:
        self._place.clear()
        said = await answered(self._place, asked, changes=True)
        if said is not None:
            with self._place:
                ui.label(said).mark("done").props("role=status")


class Configuring:
    """Changes the configuration, as it was read when this was opened, and shows first what that
    changes."""

    def __init__(self, console: Console, name: str) -> None:
        self._api = console.api
        self._name = name
        self._seen: Mapping[str, Any] = {}
        with ui.row().classes("items-center gap-4"):
            ui.button("Read it", on_click=self._read).props("flat")
            compare = ui.button("Compare", on_click=self._compare)
            apply = ui.button("Apply", color="negative", on_click=self._apply)
        self._text = ui.textarea("Configuration").classes("w-full font-mono").props("autogrow")
        self._text.mark("new-config")
        for each in (compare, apply):
            each.bind_enabled_from(self._text, "value", bool)
        self._place = ui.column().classes("w-full")

    async def _read(self) -> None:
        self._place.clear()
        found = await answered(self._place, stream_detail(self._api, self._name))
        if found is not None:
            self._seen = found.config
            self._write(found.config)

    def _write(self, config: Mapping[str, Any]) -> None:
        self._text.value = json.dumps(without_secrets(config), indent=2, sort_keys=True)

    def _changes(self) -> tuple[dict[str, Any], tuple[Difference, ...]] | None:
        self._place.clear()
        try:
            wanted = with_secrets(parse_config(self._text.value or ""), self._seen)
            if HIDDEN in json.dumps(wanted) and HIDDEN not in json.dumps(self._seen):
                words = "stands for what is hidden: leave it where it was, or write it anew."
                raise RefusedError(f"'{HIDDEN}' {words}")
            changes = differences(self._seen, wanted)
            if not changes:
                raise RefusedError("Nothing is different.")
        except RefusedError as error:
            with self._place:
                refusal(str(error))
            return None
        return wanted, changes

    def _compare(self) -> None:
        found = self._changes()
        if found is not None:
            self._show(found[1])

    async def _apply(self) -> None:
        found = self._changes()
        if found is None:
            return
        wanted, changes = found
        self._show(changes)
        fields = ", ".join(each.field for each in changes)
        lost = f"Lower limits remove messages at once. Changed: {fields}."
        if not await confirmed(self._name, lost):
            return
        self._place.clear()
        asked = update_stream(self._api, self._name, self._seen, wanted)
        made = await answered(self._place, asked, changes=True)
        if made is None:
            return
        self._seen = made
        self._write(made)
        with self._place:
            ui.label("It was changed.").mark("done").props("role=status")
            others = differences(wanted, made)
            if others:
                ui.label("The server made something else of:")
                self._table(others)

    def _show(self, changes: tuple[Difference, ...]) -> None:
        with self._place:
            self._table(changes)

    def _table(self, changes: tuple[Difference, ...]) -> None:
        rows = [_row(each) for each in changes]
        table = ui.table(columns=_DIFFERENCES, rows=rows, row_key="field")
        table.classes("w-full").mark("difference-table")


def _row(change: Difference) -> dict[str, str]:
    values = {"before": change.before, "after": change.after}
    found = {name: _shown(change.field, each) for name, each in values.items()}
    return found | {"field": printable(change.field)}


def _shown(field: str, written: str) -> str:
    """Return the JSON of a value without secrets, wherever in it they are."""
    try:
        value = json.loads(written)
    except ValueError:
        return written  # there is none
    [shown] = without_secrets({field: value}).values()
    return written if shown == value else json.dumps(shown, ensure_ascii=False)
