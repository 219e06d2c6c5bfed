"""Which page is where."""

from __future__ import annotations

from nicegui import app, ui
from starlette.responses import Response

from jetstream_console.console import Console
from jetstream_console.pages import (
    connections,
    consumer,
    downloads,
    messages,
    overview,
    publish,
    stream,
    streams,
)


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

    @ui.page("/streams/{name}/messages")
    def of_messages(name: str) -> None:
        messages.show(console, name)

    @app.get("/streams/{name}/messages/{sequence}/payload")
    async def of_payload(name: str, sequence: int) -> Response:
        return await downloads.payload(console, name, sequence)

    @ui.page("/streams/{stream_name}/consumers/{name}")
    def of_consumer(stream_name: str, name: str) -> None:
        consumer.show(console, stream_name, name)

    @ui.page("/publish")
    def of_publish() -> None:
        publish.show(console)

    @ui.page("/connections")
    def of_connections() -> None:
        connections.show(console)
