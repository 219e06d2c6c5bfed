"""A payload to look at: as JSON where it is some, as text, as hex."""

from __future__ import annotations

from nicegui import ui

from jetstream_console.showing.payload import HEX_BYTES, SHOWN_BYTES, as_hex, as_json, as_text
from jetstream_console.showing.quantities import size


def show_payload(payload: bytes) -> None:
    """Show a payload, as much of it as fits a page."""
    structured = as_json(payload)
    ways = {"JSON": structured} if structured is not None else {}
    ways |= {"Text": as_text(payload), "Hex": as_hex(payload)}
    with ui.tabs().props("dense align=left") as tabs:
        for name in ways:
            ui.tab(name)
    with ui.tab_panels(tabs, value=next(iter(ways))).classes("w-full"):
        for name, text in ways.items():
            with ui.tab_panel(name):
                ui.label(text).classes("whitespace-pre-wrap break-all font-mono text-sm").mark(
                    f"as-{name.lower()}"
                )
                shown = HEX_BYTES if name == "Hex" else SHOWN_BYTES
                if len(payload) > shown:
                    ui.label(f"The first {size(shown)} of {size(len(payload))}.")
