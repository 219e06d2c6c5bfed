"""Which page is where."""

from __future__ import annotations

from nicegui import app, ui
from starlette.responses import Response

from jetstream_console.console import Console
from jetstream_console.pages import (
    advisories,
    bucket,
    bucket_key,
    buckets,
    connections,
    consumer,
    downloads,
    messages,
    overview,
    publish,
    queries,
    server,
    store,
    stored_object,
    stores,
    stream,
    streams,
)


def add_pages(console: Console) -> None:
    """Have the web server show the pages of a console."""
    _add_streams(console)
    _add_buckets_and_objects(console)
    _add_server(console)


def _add_streams(console: Console) -> None:
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


def _add_buckets_and_objects(console: Console) -> None:
    @ui.page("/buckets")
    def of_buckets() -> None:
        buckets.show(console)

    @ui.page("/buckets/{bucket_name}")
    def of_bucket(bucket_name: str) -> None:
        bucket.show(console, bucket_name)

    @ui.page("/buckets/{bucket_name}/key")
    def of_key(bucket_name: str, name: str, revision: int = 0) -> None:
        bucket_key.show(console, bucket_name, name, revision)

    @ui.page("/stores")
    def of_stores() -> None:
        stores.show(console)

    @ui.page("/stores/{store_name}")
    def of_store(store_name: str) -> None:
        store.show(console, store_name)

    @ui.page("/stores/{store_name}/object")
    def of_object(store_name: str, at: str) -> None:
        stored_object.show(console, store_name, at)

    @app.get("/stores/{store_name}/content")
    async def of_content(store_name: str, at: str, progress: str = "") -> Response:
        return await stored_object.content(console, store_name, at, progress)


def _add_server(console: Console) -> None:
    @ui.page("/queries")
    def of_queries() -> None:
        queries.show(console)

    @ui.page("/connections")
    def of_connections() -> None:
        connections.show(console)

    @ui.page("/advisories")
    def of_advisories() -> None:
        advisories.show(console)

    @ui.page("/server")
    def of_server() -> None:
        server.show(console)
