"""Each client test runs on the bundled server and on the genuine one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import nats
import pytest
from nats.aio.client import Client

from jetstream_spark.embedded import JetStreamServer

Session = Callable[[Client], Awaitable[None]]


@pytest.fixture(scope="session")
def bundled_url() -> Iterator[str]:
    """Start the bundled server."""
    with JetStreamServer() as server:
        yield server.url


@pytest.fixture(params=["bundled", "genuine"])
def run(request: pytest.FixtureRequest) -> Callable[[Session], None]:
    """Return what runs a coroutine with a connected client, streams removed afterwards."""
    if request.param == "bundled":
        url = request.getfixturevalue("bundled_url")
    else:
        url = request.getfixturevalue("genuine").url

    async def main(session: Session) -> None:
        client = await nats.connect(url)
        try:
            await session(client)
        finally:
            stream_manager = client.jsm()
            for info in await stream_manager.streams_info():
                await stream_manager.delete_stream(info.config.name)
            await client.close()

    return lambda session: asyncio.run(asyncio.wait_for(main(session), 60))
