"""A bar that shows how far something has come, and a button that stops it."""

from __future__ import annotations

from nicegui import ui

from jetstream_console.asking.progress import TransferProgress
from jetstream_console.showing.quantities import size

_EVERY_S = 0.2


class ProgressBar:
    """Shows one long action after another; a tab that is closed stops the one under way."""

    def __init__(self) -> None:
        self._progress: TransferProgress | None = None
        with ui.row().classes("items-center gap-4 w-full no-wrap"):
            self._bar = ui.linear_progress(0, show_value=False).mark("progress")
            self._stop = ui.button("Stop", on_click=self.stop).props("flat").mark("stop")
        self._stop.disable()
        self._said = ui.label().mark("progress-said")
        self._timer = ui.timer(_EVERY_S, self._look, active=False)
        ui.context.client.on_disconnect(self.stop)

    def watch(self, progress: TransferProgress) -> None:
        """Show this one from now on."""
        self._progress = progress
        self._stop.enable()
        self._timer.activate()

    def stop(self) -> None:
        """Stop what is under way, if anything is."""
        if self._progress is not None:
            self._progress.stop()

    def _look(self) -> None:
        progress = self._progress
        if progress is None:
            return
        self._bar.value = progress.share
        self._said.text = f"{size(progress.done)} of {size(progress.whole)}"
        if progress.is_over:
            self._said.text += f". {progress.words or 'That is all.'}"
            self._stop.disable()
            self._timer.deactivate()
