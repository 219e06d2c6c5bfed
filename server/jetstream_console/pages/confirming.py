"""Asks before something is destroyed: who does it writes its name."""

from __future__ import annotations

from nicegui import ui


async def confirmed(name: str, consequence: str) -> bool:
    """Ask for the name of what is to be destroyed, and return whether it was given.

    Args:
        consequence: what will be lost, in a sentence.
    """
    with ui.dialog() as dialog, ui.card():
        ui.label(consequence)
        written = ui.input(f"Write '{name}' to go on").mark("confirm-name")
        with ui.row():
            yes = ui.button("Destroy", color="negative", on_click=lambda: dialog.submit(True))
            yes.mark("confirm")
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat")
        yes.bind_enabled_from(written, "value", lambda value: value == name)
    try:
        # A button that is not enabled is the browser's word; the name is looked at here.
        return bool(await dialog) and written.value == name
    finally:
        dialog.clear()
