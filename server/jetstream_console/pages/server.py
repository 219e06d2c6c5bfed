"""The server as it shows itself: who the console is there, its configuration and state, and each
account's; never a secret."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui

from jetstream_console.asking.answers import part, text
from jetstream_console.asking.monitor import Monitor
from jetstream_console.asking.user import User, user
from jetstream_console.console import Console
from jetstream_console.pages.frame import answered, facts, frame, load
from jetstream_console.showing.payload import cut, printable
from jetstream_console.showing.redaction import without_secrets


def show(console: Console) -> None:
    """Build the page."""
    with frame(console, "Server") as page:
        who = ui.column().classes("w-full")
        if console.monitor is None:
            ui.label("The configuration is shown by monitoring only: start with --monitor.")
        else:
            with ui.expansion("Configuration and state", icon="settings", value=True).classes(
                "w-full"
            ):
                whole = ui.column().classes("w-full")
            with ui.expansion("An account", icon="people").classes("w-full"):
                _account(console.monitor)

    async def look() -> None:
        found = await answered(who, user(console.api), clears=True)
        if found is not None:
            with who:
                _who(found)
        if console.monitor is not None:
            varz = await answered(whole, console.monitor.varz(), clears=True)
            if varz is not None:
                with whole:
                    _shown(varz).mark("varz")

    load(page, look)


def _who(found: User) -> None:
    with ui.card().classes("w-full"):
        facts(
            {
                "Connected as": printable(found.name) or "nobody in particular",
                "Account": printable(found.account),
                "May publish": printable(found.publish),
                "May subscribe": printable(found.subscribe),
            }
        )


def _account(monitor: Monitor) -> None:
    with ui.row().classes("items-center gap-4"):
        name = ui.input("Account", value="$G").mark("which")
        button = ui.button("Show account").props("flat")
    place = ui.column().classes("w-full")

    async def look() -> None:
        asked = monitor.account((name.value or "").strip())
        found = await answered(place, asked, clears=True)
        if found is not None:
            detail = part(found, "account_detail")
            with place:
                ui.label(printable(text(detail, "account_name"))).classes("font-medium")
                _shown(detail).mark("account-detail")

    button.on_click(look)
    name.on("keydown.enter", look)


def _shown(answer: dict[str, Any]) -> ui.label:
    written = json.dumps(without_secrets(answer), indent=2, ensure_ascii=False)
    label = ui.label(cut(printable(written)))
    return label.classes("whitespace-pre-wrap break-all font-mono text-sm")
