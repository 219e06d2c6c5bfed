"""Bars: what they say, and that their button and a closed tab stop what is under way."""

from __future__ import annotations

from jetstream_console.asking.progress import TransferProgress
from jetstream_console.pages.progress_bar import ProgressBar
from nicegui import ui
from nicegui.testing import user_simulation

from tests.console.conftest import until


def only(user, marker):
    [element] = user.find(marker).elements
    return element


def test_a_bar_shows_one_action_after_another_and_stops_them(run):
    async def work():
        async with user_simulation(lambda: None) as user:
            bars = []

            @ui.page("/bar")
            def page() -> None:
                bars.append(ProgressBar())

            await user.open("/bar")
            [bar] = bars
            bar.stop()
            said, drawn = only(user, "progress-said"), only(user, "progress")
            for end in ("", "Damaged."):
                progress = TransferProgress(2048)
                progress.move(1024)
                bar.watch(progress)
                await until(lambda: said.text == "1.0 KiB of 2.0 KiB")
                assert drawn.value == 0.5 and not progress.is_stopped
                user.find("stop").click()
                await until(lambda progress=progress: progress.is_stopped)  # type: ignore[misc]
                progress.end(end)
                wanted = end or "That is all."
                await until(lambda wanted=wanted: said.text.endswith(wanted))  # type: ignore[misc]
            progress = TransferProgress(1)
            bar.watch(progress)
            for handler in user.client.disconnect_handlers:
                user.client.safe_invoke(handler)
            assert progress.is_stopped

    run(work())
