"""Who has not come through yet: gone without a trace, cut off in time, or let in."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.config.options import TlsOptions
from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain
from jetstream_server.net.layered_connection import LayeredConnection
from jetstream_server.net.listener_terms import ListenerTerms
from jetstream_server.net.loop_errors import contain_callbacks
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.tls_layer import TlsLayer
from jetstream_server.net.upgrading_connection import UpgradingConnection
from jetstream_server.net.websocket_frames import FrameReader
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.node.listener import Listener
from jetstream_server.node.session import Session

from tests.planted import plant
from tests.server.net.plug import Plug

Scene = Callable[[Any], Awaitable[None]]
HEAD = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PLAIN = ListenerTerms(Listener(), websocket=WebsocketRules(), tls_timeout_ns=30 * SECOND)


def frame(data: bytes) -> bytes:
    assert len(data) < 126
    return bytes([0x82, 0x80 | len(data)]) + bytes(4) + data


def secure(pki: Any, **more: Any) -> ListenerTerms:
    options = TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"), **more)
    return ListenerTerms(
        Listener(tls_required=True),
        make_context(options),
        30 * SECOND,
        pinned_certs=options.pinned_certs,
        websocket=WebsocketRules(),
    )


@pytest.fixture
def play(running: Any, on_loop: Any) -> Callable[[ListenerTerms, Scene], None]:
    """Return what plays a scene with a server of that terms."""

    def play_(terms: ListenerTerms, scene: Scene) -> None:
        async def main() -> None:
            async with running(terms=terms) as server:
                await scene(server)
                node = server.node
                assert not node.sessions and not server.pump.connections

        on_loop(main())

    return play_


def test_who_goes_away_leaves_nothing(play: Any, until: Any) -> None:
    async def scene(server: Any) -> None:
        random = Random(1)
        for _ in range(40):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(HEAD[: random.randrange(len(HEAD) - 1)])
            if random.random() < 0.5:
                await asyncio.sleep(0)
            if random.random() < 0.5:
                writer.transport.abort()
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD)
        await reader.readuntil(b"INFO ")
        (session,) = server.node.sessions.values()
        assert session.cid == 1  # nobody was a client before
        writer.close()
        await until(lambda: not server.node.sessions)
        assert server.node.stats.total_connections == 1
        assert len(list(server.node.closed)) == 1

    play(PLAIN, scene)


def _is_poison(connection: object, data: bytes) -> bool:
    return b"poison" in data


@pytest.mark.parametrize("waits", [False, True])
def test_a_handshake_that_trips_costs_its_connection(
    play: Any, until: Any, monkeypatch: Any, waits: bool
) -> None:
    plant(monkeypatch, UpgradingConnection, "_take", _is_poison)

    async def scene(server: Any) -> None:
        server.node.containment = containment = Containment(lambda level, text: None)
        contain_callbacks(
            asyncio.get_running_loop(), containment, server.pump.clock, server.errors.append
        )
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        if waits:  # behind others, so that it goes on in another turn
            server.pump.handshakes._left = 0
        clients[0][1].write(b"GET /poison HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert await clients[0][0].read() == b""
        clients[1][1].write(HEAD)
        await clients[1][0].readuntil(b"INFO ")
        assert containment.counts[Domain.CONNECTION] == containment.total == 1
        clients[1][1].close()
        await until(lambda: not server.node.sessions)

    play(PLAIN, scene)


def test_what_trips_behind_a_handshake_costs_its_connection(
    play: Any, until: Any, monkeypatch: Any
) -> None:
    plant(monkeypatch, LayeredConnection, "_take", _is_poison)

    async def scene(server: Any) -> None:
        # A session is given its node's when it begins.
        server.node.containment = containment = Containment(lambda level, text: None)
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        for reader, writer in clients:
            writer.write(HEAD)
            await reader.readuntil(b"INFO ")
        first, _ = server.pump.connections.values()
        first.go_on(frame(b"poison"))
        assert b"Internal Server Error" in await clients[0][0].read()
        clients[1][1].write(frame(b"PING\r\n"))
        await clients[1][0].readuntil(b"PONG\r\n")
        assert containment.counts[Domain.CONNECTION] == containment.total == 1
        for _, writer in clients:
            writer.close()
        await until(lambda: not server.node.sessions)

    play(PLAIN, scene)


@pytest.mark.parametrize("ending", ["eof_received", "reset_received"])
def test_who_has_ended_or_is_reset_is_closed_when_there_is_time(play: Any, ending: str) -> None:
    async def scene(server: Any) -> None:
        departures = server.pump.departures
        for keeps in (True, False):
            connection, plug = UpgradingConnection(server.pump, PLAIN, WebsocketRules()), Plug()
            closed: list[Plug] = []
            plug.close = partial(closed.append, plug)  # type: ignore[method-assign]
            connection.connection_made(plug)  # type: ignore[arg-type]
            departures.keep_sockets, departures._left = keeps, 0
            error = [ConnectionResetError()] if ending == "reset_received" else []
            assert getattr(connection, ending)(*error) is keeps
            assert not closed, "there is no time"
            departures.turned()
            assert closed == [plug] * keeps
            connection.connection_lost(None)

    play(PLAIN, scene)


def test_who_goes_away_within_tls(play: Any, until: Any, pki: Any) -> None:
    async def scene(server: Any) -> None:
        leaving = ssl.MemoryBIO()
        client = pki.client_context().wrap_bio(
            ssl.MemoryBIO(), leaving, server_hostname="localhost"
        )
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        hello = leaving.read()
        for cut in (0, 1, 5, len(hello) // 2, len(hello)):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(hello[:cut])
            if cut == len(hello):
                assert await reader.read(1)  # the server's half of the handshake
            writer.close()
        assert server.node.stats.total_connections == 0

    play(secure(pki), scene)


def test_the_time_is_limited(play: Any) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD[:30])
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.readexactly(1)
        writer.close()

    rules = WebsocketRules()
    play(ListenerTerms(Listener(), websocket=rules, tls_timeout_ns=50 * MILLISECOND), scene)


def test_who_came_through_has_all_the_time(
    play: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(server: Any) -> None:
        loop = asyncio.get_running_loop()
        later, timers = loop.call_later, []

        def noted(delay: float, act: Callable[..., None], *given: Any) -> asyncio.TimerHandle:
            handle = later(delay, act, *given)
            timers.append((delay, lambda: handle.cancelled() or act(*given)))
            return handle

        monkeypatch.setattr(loop, "call_later", noted)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD)
        await reader.readuntil(b"INFO ")
        limits = [ends for delay, ends in timers if delay == server.terms.tls_timeout_ns / SECOND]
        assert limits
        for ends in limits:  # the time is over
            ends()
        writer.write(frame(b"CONNECT {}\r\nPING\r\n"))
        await reader.readuntil(b"PONG\r\n")
        writer.close()
        await until(lambda: not server.node.sessions)

    play(PLAIN, scene)


def test_a_refusal_is_heard(play: Any) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD.replace(b"13", b"12"))
        assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        writer.close()
        assert server.node.stats.total_connections == 0

    play(PLAIN, scene)


def test_frames_behind_the_request(play: Any, until: Any) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for byte in HEAD + frame(b"CONNECT {}\r\n"):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.write(frame(b"PING\r\n"))
        await reader.readuntil(b"PONG\r\n")
        writer.close()
        other, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD + frame(b"CONNECT {}\r\nPING\r\n") + b"\x82\x00")  # not masked
        said = await other.read()
        assert b"PONG\r\n" in said and said.endswith(b"\x03\xeamask bit missing")
        writer.close()
        await until(lambda: not server.node.sessions)

    play(PLAIN, scene)


def test_a_lame_duck_lets_nobody_in(play: Any) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD[:-2])
        await asyncio.sleep(0)
        server.node.enter_lame_duck(server.pump.clock.now())
        writer.write(HEAD[-2:])
        assert await reader.read() == b""
        writer.close()

    play(PLAIN, scene)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_pins_hold_for_requests_that_come_with_the_handshake(
    play: Any, until: Any, pki: Any, is_pinned: bool
) -> None:
    import hashlib

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509 import load_der_x509_certificate

    key = load_der_x509_certificate(pki.der("client")).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pin = hashlib.sha256(spki).hexdigest() if is_pinned else "0" * 64

    async def scene(server: Any) -> None:
        arrived, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = pki.client_context("client").wrap_bio(
            arrived, leaving, server_hostname="localhost"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(leaving.read())
                arrived.write(await reader.read(1 << 16))
        client.write(HEAD)
        writer.write(leaving.read())  # the end of the handshake and the request at once
        if is_pinned:
            plain = b""
            while b"INFO " not in plain:
                arrived.write(await reader.read(1 << 16))
                with contextlib.suppress(ssl.SSLWantReadError):
                    while True:  # a record at a time, of which several may come at once
                        plain += client.read(1 << 16)
        else:
            await reader.read()
            assert server.node.stats.total_connections == 0
        writer.close()
        await until(lambda: not server.node.sessions)

    play(secure(pki, ca_file=pki.cert("ca"), is_verifying=True, pinned_certs=(pin,)), scene)


def test_nothing_of_a_connection_stays_in_memory(play: Any, until: Any, pki: Any) -> None:
    """Whatever it has come to: objects that nobody frees are a leak of every reconnect."""
    kinds = (UpgradingConnection, LayeredConnection, TlsLayer, WebsocketLayer, FrameReader, Session)

    def living() -> dict[int, object]:
        gc.collect()
        return {id(each): each for each in gc.get_objects() if isinstance(each, kinds)}

    async def scene(server: Any) -> None:
        before = living()  # of other tests
        for number in range(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            if number % 3 == 0:
                writer.write(HEAD[:20])
            else:
                said = HEAD + frame(b"CONNECT {}\r\nSUB a 1\r\nPUB a 9\r\nhalf")
                writer.write(said)
                await reader.readuntil(b"INFO ")
            if number % 2:
                writer.transport.abort()
            writer.close()
        await until(lambda: not server.node.sessions)
        del reader, writer
        await until(lambda: living().keys() <= before.keys())

    play(PLAIN, scene)
