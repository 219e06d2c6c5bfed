"""Connections with layers on a real loop: both layers at once, failures, and the end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.config.options import TlsOptions
from jetstream_server.net.entrance import Entrance
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.websocket_layer import WebsocketRules
from jetstream_server.node.door import Door
from websockets.asyncio.client import connect

Play = Callable[[Entrance, Callable[[Any], Awaitable[None]]], None]


@pytest.fixture
def play(running: Any, on_loop: Any) -> Play:
    """Return what plays a scene with a server of that entrance."""

    def play_(entrance: Entrance, scene: Callable[[Any], Awaitable[None]]) -> None:
        async def main() -> None:
            async with running(entrance=entrance) as server:
                await scene(server)

        on_loop(main())

    return play_


@pytest.fixture
def secure(pki: Any) -> ssl.SSLContext:
    """Return a server's side of TLS."""
    return make_context(TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server")))


def test_websocket_on_tls(play: Play, secure: ssl.SSLContext, pki: Any) -> None:
    async def scene(server: Any) -> None:
        uri = f"wss://localhost:{server.port}"
        async with connect(uri, ssl=pki.client_context(), max_size=None) as client:
            assert (await client.recv()).startswith(b"INFO {")
            await client.send(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n')
            assert await client.recv() == b"PONG\r\n"
            body = b"x" * 300_000
            await client.send(b"PUB a %d\r\n%b\r\n" % (len(body), body))
            arrived = b""
            while len(arrived) < len(body):
                arrived += await client.recv()
            assert arrived == b"MSG a 1 300000\r\n%b\r\n" % body
            (session,) = server.node.sessions.values()
            assert session.tls_version == "1.3"
        while server.node.sessions:
            await asyncio.sleep(0.01)

    play(Entrance(Door(tls_required=True), secure, websocket=WebsocketRules()), scene)


@pytest.mark.parametrize("websocket", [None, WebsocketRules()])
def test_who_never_begins_is_cut_off(
    play: Play, secure: ssl.SSLContext, websocket: WebsocketRules | None
) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        said = await reader.read()
        assert said.startswith(b"INFO") if websocket is None else said == b""
        writer.close()
        assert not server.node.sessions

    door = Door(tls_required=True)
    play(Entrance(door, secure, 100 * MILLISECOND, websocket=websocket), scene)


def test_garbage_where_tls_begins(play: Play, secure: ssl.SSLContext) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await reader.readline()).startswith(b"INFO")
        writer.write(b"\x16\x03\x01\x00\x10 this is no handshake at all")
        assert b"PONG" not in await reader.read()  # an alert, and the end
        writer.close()
        assert not server.node.sessions

    play(Entrance(Door(tls_required=True), secure, 5 * SECOND), scene)


def test_the_end_of_the_server_is_said(play: Play) -> None:
    async def scene(server: Any) -> None:
        async with connect(f"ws://localhost:{server.port}") as client:
            await client.recv()
            for connection in list(server.pump.connections.values()):
                connection.close()
            await client.wait_closed()
            assert client.close_code == 1001

    play(Entrance(Door(), websocket=WebsocketRules()), scene)
