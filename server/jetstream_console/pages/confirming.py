"""Asks before something is destroyed: whoever does it has to type its name."""

from __future__ import annotations

from nicegui import ui


async def confirmed(name: str, consequence: str) -> bool:
    """Ask for the name of what is to be destroyed, and return whether it was given.

    Args:
        consequence: what will be lost, in a sentence.
    """
    with ui.dialog() as dialog, ui.card():
        ui.label(consequence)
        written = ui.input(f"Write '{name}' to go on").classes("w-full").mark("confirm-name")
        with ui.row():
            yes = ui.button("Destroy", color="negative", on_click=lambda: dialog.submit(True))
            yes.mark("confirm")
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat")
        yes.bind_enabled_from(written, "value", lambda value: value == name)
    try:
        # That the button was not enabled is only the browser's word; the name is checked here.
        return bool(await dialog) and written.value == name
    finally:
        dialog.clear()
