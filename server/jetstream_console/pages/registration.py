"""Which page is where."""

from __future__ import annotations

from nicegui import ui

from jetstream_console.console import Console
from jetstream_console.pages import connections, overview, stream, streams


def add_pages(console: Console) -> None:
    """Have the web server show the pages of a console."""

    @ui.page("/")
    def of_overview() -> None:
        overview.show(console)

    @ui.page("/streams")
    def of_streams() -> None:
        streams.show(console)

    @ui.page("/streams/{name}")
    def of_stream(name: str) -> None:
        stream.show(console, name)

    @ui.page("/connections")
    def of_connections() -> None:
        connections.show(console)
