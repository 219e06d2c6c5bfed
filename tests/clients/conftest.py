"""Each client test runs on the bundled server and on the genuine one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from jetstream_spark.embedded import JetStreamServer
from tests import nursery, patient_client
from tests.ports import free_port

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
        client = await patient_client.connect(url)
        try:
            await session(client)
        finally:
            stream_manager = client.jsm()
            for info in await stream_manager.streams_info():
                await stream_manager.delete_stream(info.config.name)
            await client.close()

    return lambda session: asyncio.run(asyncio.wait_for(main(session), 60))


class Served:
    """A server process with a configuration file of its own."""

    def __init__(self, command: list[str], folder: Path, text: str) -> None:
        path = folder / "server.conf"
        path.write_text(text.replace("$STORE", str(folder / "store")))
        flags = ["-a", "127.0.0.1", "-p", str(free_port()), "-c", str(path)]
        self.process = nursery.start([*command, *flags])
        self.lines: list[str] = []
        self.port = self.websocket_port = 0
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"Listening for (client|websocket).*:(\d+)$", line.strip()):
                if match[1] == "client":
                    self.port = int(match[2])
                else:
                    self.websocket_port = int(match[2])
            if "Server is ready" in line:
                threading.Thread(target=self._read, daemon=True).start()
                return
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def stop(self) -> None:
        """End it; what it logged is in `lines` afterwards."""
        self.process.terminate()
        self.process.wait()


@pytest.fixture(params=["bundled", "genuine"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Served]]:
    """Return what starts either server with a configuration."""
    command = nursery.BUNDLED
    if request.param == "genuine":
        command = [request.getfixturevalue("genuine_binary")]
    started: list[Served] = []

    def start(text: str) -> Served:
        started.append(Served(command, tmp_path, text))
        return started[-1]

    yield start
    for server in started:
        server.stop()
