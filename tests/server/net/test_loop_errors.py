"""What callbacks of the loop raise is contained."""

from __future__ import annotations

import asyncio

from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.loop_errors import contain_callbacks
from jetstream_server.node.session import Session

from tests.planted import plant


async def opened(server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    server.node.containment = server.containment = Containment(lambda level, text: None)
    server.failures = []
    loop, clock = asyncio.get_running_loop(), server.pump.clock
    contain_callbacks(loop, server.containment, clock, server.failures.append)
    return await server.connect()


async def is_well(witness: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
    reader, writer = witness
    writer.write(b"PING\r\n")
    return await reader.readline() == b"PONG\r\n"


def test_a_timer_of_a_connection(running, on_loop, monkeypatch, until):
    async def talk() -> None:
        async with running() as server:
            witness = await opened(server)
            client = await server.connect()
            connection = list(server.pump.connections.values())[-1]
            plant(monkeypatch, ClientConnection, "_check_progress")
            asyncio.get_running_loop().call_soon(connection._check_progress, 0)
            assert await client[0].readline() == b"-ERR 'Internal Server Error'\r\n"
            assert await client[0].read() == b""
            assert await is_well(witness)
            assert server.containment.counts[Domain.CONNECTION] == 1

    on_loop(talk())


def test_bytes_of_a_client(running, on_loop, monkeypatch):
    async def talk() -> None:
        async with running() as server:
            witness = await opened(server)
            client = await server.connect()
            session = list(server.pump.connections)[-1]
            plant(monkeypatch, Session, "feed", lambda self, data: self is session)
            client[1].write(b"PING\r\n")
            assert await client[0].read() == b"-ERR 'Internal Server Error'\r\n"
            assert await is_well(witness)
            assert server.containment.counts[Domain.CONNECTION] == 1

    on_loop(talk())


def test_who_cannot_even_be_told_is_cut_off(running, on_loop, monkeypatch):
    async def talk() -> None:
        async with running() as server:
            witness = await opened(server)
            client = await server.connect()
            connection = list(server.pump.connections.values())[-1]
            plant(
                monkeypatch, ClientConnection, "write_output", lambda self, *_: self is connection
            )
            client[1].write(b"PING\r\n")
            assert await client[0].read() == b""
            assert await is_well(witness)
            assert connection._session not in server.pump.connections

    on_loop(talk())


def test_what_is_of_nobody_is_counted_and_logged_once(running, on_loop, monkeypatch):
    """Of a library's callbacks the table knows nothing; each was a traceback beside the log."""

    async def talk() -> None:
        async with running() as server:
            witness = await opened(server)
            log: list[str] = []
            server.containment._note = lambda level, text: log.append(text)
            loop = asyncio.get_running_loop()
            said: list[dict[str, object]] = []
            monkeypatch.setattr(loop, "default_exception_handler", said.append)
            for _ in range(3):
                loop.call_soon(lambda: 1 / 0)
            loop.call_exception_handler({"message": "no exception"})
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [each["message"] for each in said] == ["no exception"]
            assert server.containment.counts[Domain.REQUEST] == server.containment.total == 3
            assert len(log) == 1 and "ZeroDivisionError" in log[0]
            assert await is_well(witness)

    on_loop(talk())


def test_what_is_not_contained_is_logged_by_the_loop(running, on_loop, monkeypatch):
    async def talk() -> None:
        async with running() as server:
            await opened(server)
            contain_callbacks(
                asyncio.get_running_loop(), Containment(), server.pump.clock, server.failures.append
            )
            said: list[dict[str, object]] = []
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "default_exception_handler", said.append)
            loop.call_soon(lambda: 1 / 0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [type(each["exception"]) for each in said] == [ZeroDivisionError]

    on_loop(talk())


def test_without_memory_the_server_is_told_to_end(running, on_loop, monkeypatch):
    async def talk() -> None:
        async with running() as server:
            await opened(server)
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "default_exception_handler", lambda context: None)
            error = MemoryError()
            loop.call_exception_handler({"message": "no memory", "exception": error})
            assert server.failures == [error] and server.containment.total == 0

    on_loop(talk())
