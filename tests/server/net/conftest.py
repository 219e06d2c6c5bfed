"""A node on a real loop, with sockets and a disk that tests hold back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random

import pytest
from jetstream_server.base.clock import MINUTE, SECOND, SystemClock
from jetstream_server.config.options import ServerOptions
from jetstream_server.net import listening, readiness
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.pump import Pump
from jetstream_server.net.upgrading_connection import protocol_for
from jetstream_server.net.watched_socket import WatchedSocket
from jetstream_server.node import pings
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.node import Node

OPTIONS = ServerOptions(
    server_name="n1",
    host="127.0.0.1",
    max_pending=8 << 20,
    max_connections=100,
    write_deadline_ns=10 * MINUTE,
)


class Running:
    """A node served on a free port."""

    def __init__(self, commit=None, terms=None, **options) -> None:
        if terms is not None and terms.tls_timeout_ns >= SECOND:  # which no test waits for
            terms = replace(terms, tls_timeout_ns=10 * MINUTE)
        self.terms = terms
        self.errors: list[BaseException] = []
        self.node = Node(
            replace(OPTIONS, **options),
            Authenticator([]),
            Random(1),
            lambda level, text: None,
            port=0,
        )
        self.commit = commit

    async def __aenter__(self) -> Running:
        self.pump = Pump(self.node, self.commit, SystemClock(), self.errors.append)
        self.socket = listening.bind("127.0.0.1", -1)
        self.port = listening.address_of(self.socket)[1]
        self.servers = await listening.serve(self.socket, self._connection)
        return self

    def _connection(self) -> asyncio.BaseProtocol:
        if self.terms is None:
            reader = ClientConnection(self.pump)
        else:
            reader = protocol_for(self.pump, self.terms)
        return WatchedSocket(self.pump.readiness, reader, may_step_aside=True)

    async def __aexit__(self, *unused) -> None:
        self.close()
        await self.pump.stop()
        for connection in list(self.pump.connections.values()):
            connection.close()
        await asyncio.sleep(0)
        assert not self.errors

    def close(self) -> None:
        """Take no more clients."""
        for server in self.servers:
            server.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a client's ends after the handshake."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
        assert await reader.readline() == b"PONG\r\n"
        return reader, writer


@pytest.fixture(autouse=True)
def no_client_is_read_from_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sockets watched as they are where clients are many; elsewhere they are few."""
    monkeypatch.setattr(readiness, "READ_BY_LOOP_MAX", 0)


@pytest.fixture(autouse=True)
def no_first_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no client asked whether it is there two seconds after its CONNECT."""
    monkeypatch.setattr(pings, "FIRST_PING_NS", 10 * MINUTE)


@pytest.fixture
def options() -> ServerOptions:
    """Return the options of a node."""
    return OPTIONS


@pytest.fixture
def running() -> type[Running]:
    """Return the maker of served nodes."""
    return Running


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Coroutine[None, None, None]]:
    """Return what waits for a condition, on however busy a machine; `on_loop` has an end."""

    async def wait(is_true: Callable[[], object]) -> None:
        while not is_true():
            await asyncio.sleep(0.001)

    return wait


@pytest.fixture
def on_loop() -> Callable[..., None]:
    """Run a coroutine, with an end."""

    def run(coroutine) -> None:
        asyncio.run(asyncio.wait_for(coroutine, 110))

    return run
