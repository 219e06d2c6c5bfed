"""Connections with layers on a real loop: both layers at once, failures, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.limits import TURN_READ_BYTES
from jetstream_server.config.options import TlsOptions
from jetstream_server.net.deflating import BYTES_OF_TURN
from jetstream_server.net.layered_connection import LayeredConnection
from jetstream_server.net.listener_terms import ListenerTerms
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.tls_layer import TlsLayer
from jetstream_server.net.unwrapping import (
    INFLATED_BYTES_OF_STEP,
    STEPS_MIN,
    STEPS_OF_SHARE_MIN,
    STEPS_OF_TURN,
    Unwrapping,
)
from jetstream_server.net.websocket_frames import FrameReader
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.node.listener import Listener
from jetstream_server.node.session import Session
from websockets.asyncio.client import connect

Play = Callable[[ListenerTerms, Callable[[Any], Awaitable[None]]], None]


@pytest.fixture
def play(running: Any, on_loop: Any) -> Play:
    """Return what plays a scene with a server of that terms."""

    def play_(terms: ListenerTerms, scene: Callable[[Any], Awaitable[None]]) -> None:
        async def main() -> None:
            async with running(terms=terms) as server:
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
        async with connect(uri, ssl=pki.client_context(), max_size=None, open_timeout=60) as client:
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
            assert session.tls.version == "1.3"
        while server.node.sessions:
            await asyncio.sleep(0.01)

    play(ListenerTerms(Listener(tls_required=True), secure, websocket=WebsocketRules()), scene)


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

    listener = Listener(tls_required=True)
    play(ListenerTerms(listener, secure, 100 * MILLISECOND, websocket=websocket), scene)


def test_garbage_where_tls_begins(play: Play, secure: ssl.SSLContext) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await reader.readline()).startswith(b"INFO")
        writer.write(b"\x16\x03\x01\x00\x10 this is no handshake at all")
        assert b"PONG" not in await reader.read()  # an alert, and the end
        writer.close()
        assert not server.node.sessions

    play(ListenerTerms(Listener(tls_required=True), secure, 5 * SECOND), scene)


def test_the_end_of_the_server_is_said(play: Play) -> None:
    async def scene(server: Any) -> None:
        async with connect(f"ws://localhost:{server.port}") as client:
            await client.recv()
            for connection in list(server.pump.connections.values()):
                connection.close()
            await client.wait_closed()
            assert client.close_code == 1001

    play(ListenerTerms(Listener(), websocket=WebsocketRules()), scene)


class Handshaken:
    """A client's side of TLS on a stream."""

    def __init__(self, pki: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.arrived, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = pki.client_context()
        self.tls = context.wrap_bio(self.arrived, self.leaving, server_hostname="localhost")
        self.reader, self.writer = reader, writer

    async def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.writer.write(self.leaving.read())
                self.arrived.write(await self.reader.read(1 << 16))

    async def until(self, end: bytes) -> bytes:
        plain = b""
        while not plain.endswith(end):
            try:
                plain += self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self.arrived.write(await self.reader.read(1 << 16))
        return plain


def ws_frame(first: int, data: bytes) -> bytes:
    is_short = len(data) < 126
    size = bytes([0x80 | len(data)]) if is_short else b"\xff" + len(data).to_bytes(8, "big")
    return bytes([first]) + size + bytes(4) + data


async def upgraded(server: Any, more: bytes = b"") -> Any:
    """Return a client's ends behind an upgrade; INFO is read where it is not compressed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        + more
        + b"\r\n"
    )
    await reader.readuntil(b"\r\n\r\n")
    if not more:
        await reader.readuntil(b" \r\n")
    return reader, writer


def test_very_many_frames_are_for_several_turns(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand frames that hold next to nothing count as much as what is read."""
    receive, shares = FrameReader.receive, []

    def counted(reader: FrameReader, data: bytes) -> bytes:
        plain = receive(reader, data)
        shares.append((turns[0], len(plain)))
        return plain

    turns = [0]
    monkeypatch.setattr(FrameReader, "receive", counted)

    async def scene(server: Any) -> None:
        run = server.node.run

        def turn(now: int) -> None:
            turns[0] += 1
            run(now)

        monkeypatch.setattr(server.node, "run", turn)
        reader, writer = await upgraded(server)
        words = b'CONNECT {"verbose":false}\r\nPUB a 30000\r\n' + b"x" * 30_000 + b"\r\nPING\r\n"
        pieces = [ws_frame(0, words[at : at + 1]) for at in range(1, len(words) - 1)]
        writer.write(ws_frame(2, words[:1]) + b"".join(pieces) + ws_frame(0x80, words[-1:]))
        await reader.readuntil(b"PONG\r\n")
        writer.close()
        assert server.node.stats.traffic.in_msgs + server.node.traffic().in_msgs >= 1

    play(ListenerTerms(Listener(), websocket=WebsocketRules()), scene)
    # A step for the head of each, and one for what it holds.
    assert max(size for _, size in shares) <= STEPS_OF_TURN // 2 + 1
    assert max(Counter(turn for turn, _ in shares).values()) <= 2


def count_turns(server: Any, turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have turns counted, as those in which unwrapping begins anew."""
    begin = server.pump.unwrapping.begin

    def turn() -> None:
        turns[0] += 1
        begin()

    monkeypatch.setattr(server.pump.unwrapping, "begin", turn)


def test_very_many_records_are_for_several_turns(
    play: Play, secure: ssl.SSLContext, pki: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred clients with a byte in each record kept everybody waiting for three seconds."""
    receive, shares, turns = TlsLayer.receive, [], [0]

    def counted(layer: TlsLayer, data: bytes) -> bytes:
        plain = receive(layer, data)
        shares.append((turns[0], len(plain)))
        return plain

    monkeypatch.setattr(TlsLayer, "receive", counted)

    async def scene(server: Any) -> None:
        count_turns(server, turns, monkeypatch)
        clients = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            assert (await reader.readline()).startswith(b"INFO")
            client = Handshaken(pki, reader, writer)
            await client.shake_hands()
            clients.append(client)
        words = b'CONNECT {"verbose":false}\r\nPUB a 9000\r\n' + b"x" * 9000 + b"\r\nPING\r\n"
        for client in clients:
            for at in range(len(words)):
                client.tls.write(words[at : at + 1])
            client.writer.write(client.leaving.read())
        for client in clients:
            assert await client.until(b"PONG\r\n") == b"PONG\r\n"
            client.writer.close()
        assert server.node.traffic().in_msgs + server.node.stats.traffic.in_msgs >= 3

    play(ListenerTerms(Listener(tls_required=True), secure, 5 * SECOND), scene)
    in_turns: Counter[int] = Counter()
    for turn, size in shares:
        in_turns[turn] += size
    assert sum(in_turns.values()) > 27_000
    assert max(in_turns.values()) <= STEPS_OF_TURN + 3 * STEPS_MIN


def test_a_request_in_very_many_records_is_granted(
    play: Play, secure: ssl.SSLContext, pki: Any
) -> None:
    async def scene(server: Any) -> None:
        server.pump.unwrapping = Unwrapping(1, server.pump.wake)  # never time but for the least
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Handshaken(pki, reader, writer)
        await client.shake_hands()
        words = (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        words += ws_frame(0x82, b'CONNECT {"verbose":false}\r\nPING\r\n')
        for at in range(len(words)):
            client.tls.write(words[at : at + 1])
        writer.write(client.leaving.read())
        assert (await client.until(b"PONG\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.close()

    terms = ListenerTerms(Listener(tls_required=True), secure, websocket=WebsocketRules())
    play(terms, scene)


def test_last_words_before_a_goodbye_of_tls_count(
    play: Play, secure: ssl.SSLContext, pki: Any
) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await reader.readline()
        client = Handshaken(pki, reader, writer)
        await client.shake_hands()
        client.tls.write(b'CONNECT {"verbose":false}\r\nPUB a 3\r\nbye\r\nPING\r\n')
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        writer.write(client.leaving.read())
        client.arrived.write(await reader.read())
        assert client.tls.read() == b"PONG\r\n"
        with pytest.raises(ssl.SSLZeroReturnError):
            client.tls.read()
        writer.close()
        assert not server.node.sessions
        assert server.node.stats.traffic.in_msgs == 1

    play(ListenerTerms(Listener(tls_required=True), secure, 30 * SECOND), scene)


def test_last_words_before_a_goodbye_of_websocket_count(play: Play) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await upgraded(server)
        said = b'CONNECT {"verbose":false}\r\nPUB a 3\r\nbye\r\nPING\r\n'
        writer.write(ws_frame(0x82, said) + ws_frame(0x88, b"\x03\xe8"))
        assert await reader.read() == b"\x82\x06PONG\r\n\x88\x02\x03\xe8"
        writer.close()
        assert server.node.stats.traffic.in_msgs == 1

    play(ListenerTerms(Listener(), websocket=WebsocketRules()), scene)


def test_nothing_is_said_in_clear_where_tls_may_begin(
    play: Play, secure: ssl.SSLContext, pki: Any
) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await reader.readline()).startswith(b"INFO")
        (session,) = server.node.sessions.values()
        session.send(b"PING\r\n")  # as it does after two seconds
        server.pump.wake()
        client = Handshaken(pki, reader, writer)
        await client.shake_hands()  # which anything in clear would spoil
        writer.write(client.leaving.read())
        assert await client.until(b"PING\r\n") == b"PING\r\n"
        writer.close()

    play(ListenerTerms(Listener(tls_required=True), secure, 30 * SECOND), scene)


def test_info_comes_first_even_for_who_begins_tls_at_once(
    play: Play, secure: ssl.SSLContext
) -> None:
    class Transport(asyncio.Transport):
        written = b""

        def write(self, data: Any) -> None:
            self.written += data

        def get_write_buffer_size(self) -> int:
            return 0

        def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
            pass

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            pass

    async def scene(server: Any) -> None:
        terms = ListenerTerms(Listener(tls_required=True), secure, 5 * SECOND)
        connection, transport = LayeredConnection(server.pump, terms), Transport()
        connection.connection_made(transport)
        leaving = ssl.MemoryBIO()
        hello = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="x")
        with contextlib.suppress(ssl.SSLWantReadError):
            hello.do_handshake()
        connection.data_received(leaving.read())  # in the same turn
        info, _, rest = transport.written.partition(b"\r\n")
        assert info.startswith(b"INFO {") and rest.startswith(b"\x16")
        connection.connection_lost(None)

    play(ListenerTerms(Listener()), scene)


def test_a_client_in_clear_hears_what_was_held(play: Play, secure: ssl.SSLContext) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await reader.readline()
        (session,) = server.node.sessions.values()
        session.send(b"PING\r\n")
        server.pump.wake()
        writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert await reader.readuntil(b"PONG\r\n") == b"PING\r\nPONG\r\n"
        writer.close()

    play(ListenerTerms(Listener(tls_available=True), secure), scene)


def test_a_flood_of_pings_is_cut_off(play: Play, until: Any) -> None:
    """The session knows nothing of them, and yet their answers may fill the memory."""

    async def scene(server: Any) -> None:
        _, writer = await upgraded(server)
        writer.transport.pause_reading()
        (connection,) = server.pump.connections.values()
        pings = ws_frame(0x89, bytes(125)) * 4000
        most = 0
        with contextlib.suppress(ConnectionError):
            while server.node.sessions:
                writer.write(pings)
                await writer.drain()
                most = max(most, connection._transport.get_write_buffer_size())
        assert most < server.node.options.max_pending + 4 * len(pings)
        assert [each.reason for each in server.node.closed] == ["Slow Consumer (Pending Bytes)"]
        assert server.node.stats.slow_consumers == 1
        writer.close()

    play(ListenerTerms(Listener(), websocket=WebsocketRules()), scene)


def test_what_inflates_is_taken_in_turns_and_nothing_is_lost(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(server: Any) -> None:
        deflate = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
        reader, writer = await upgraded(server, deflate)
        (session,) = server.node.sessions.values()
        fed: list[int] = []
        feed = Session.feed

        def noted(session: Session, data: bytes) -> None:
            fed.append(len(data))
            feed(session, data)

        monkeypatch.setattr(Session, "feed", noted)
        body = bytes(1_000_000)
        message = b"PUB a %d\r\n%b\r\n" % (len(body), body)
        deflater = zlib.compressobj(9, wbits=-15)
        data = (deflater.compress(message) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
        connect_first = ws_frame(0x82, b'CONNECT {"verbose":false}\r\n')
        writer.write(connect_first + ws_frame(0xC2, data) * 10 + ws_frame(0x82, b"PING\r\n"))
        await reader.readuntil(b"PONG\r\n")
        assert session.traffic.in_msgs == 10
        assert max(fed) < 2 * TURN_READ_BYTES
        writer.close()

    play(ListenerTerms(Listener(), websocket=WebsocketRules(is_compressing=True)), scene)


def test_a_message_that_inflates_too_far(play: Play) -> None:
    async def scene(server: Any) -> None:
        reader, writer = await upgraded(server, b"Sec-WebSocket-Extensions: permessage-deflate\r\n")
        deflater = zlib.compressobj(9, wbits=-15)
        message = b"PUB a 1000000\r\n%b\r\n" % bytes(1_000_000)
        data = deflater.compress(message * 20) + deflater.flush(zlib.Z_SYNC_FLUSH)
        writer.write(ws_frame(0xC2, data))
        assert (await reader.read()).endswith(b"\x88\x1a\x03\xf1maximum payload exceeded")
        writer.close()
        assert [each.reason for each in server.node.closed] == ["Read Error"]
        assert server.node.stats.traffic.in_msgs == 1

    play(ListenerTerms(Listener(), websocket=WebsocketRules(is_compressing=True)), scene)


def test_who_is_too_many_hears_it(running: Any, on_loop: Any) -> None:
    async def main() -> None:
        terms = ListenerTerms(Listener(), websocket=WebsocketRules())
        async with running(terms=terms) as server:
            server.node.options = replace(server.node.options, max_connections=0)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.close()
            reader, writer = await upgraded(server)
            said = await reader.read()
            assert said.startswith(b"-ERR 'maximum connections exceeded'\r\n")
            assert said.endswith(b"\x03\xf0Maximum Connections Exceeded")
            writer.close()

    on_loop(main())


def test_who_vanishes_in_a_handshake(
    play: Play, secure: ssl.SSLContext, pki: Any, until: Any
) -> None:
    async def scene(server: Any) -> None:
        leaving = ssl.MemoryBIO()
        tls = pki.client_context().wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = leaving.read()
        for cut in (0, 1, len(hello) // 2, len(hello)):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await reader.readline()
            writer.write(hello[:cut])
            if cut == len(hello):
                await reader.read(1)
            writer.close()
        await until(lambda: not server.node.sessions)
        assert not server.pump.connections
        assert {each.reason for each in server.node.closed} == {"TLS Handshake Failure"}

    play(ListenerTerms(Listener(tls_required=True), secure, 30 * SECOND), scene)


def test_all_clients_share_what_a_turn_compresses(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty clients with a megabyte each kept everybody waiting for a second."""
    add_frame, compressed = WebsocketLayer._add_frame, []

    def counted(layer: WebsocketLayer, data: bytes, extensions: list[Any]) -> None:
        compressed.append(len(data) if extensions else 0)
        add_frame(layer, data, extensions)

    monkeypatch.setattr(WebsocketLayer, "_add_frame", counted)

    async def scene(server: Any) -> None:
        turned = server.pump.deflating.begin
        server.pump.deflating.begin = lambda: None
        uri = f"ws://127.0.0.1:{server.port}/"
        clients = [await connect(uri, max_size=None) for _ in range(4)]
        said = Random(1).randbytes(300_000)
        for client in clients:
            await client.send(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n')
        for _ in range(2):
            compressed.clear()
            await clients[0].send(b"PUB a %d\r\n%b\r\n" % (len(said), said))
            for client in clients:
                heard = b""
                while not heard.endswith(said + b"\r\n"):
                    heard += await client.recv()
            assert BYTES_OF_TURN * 3 // 4 < sum(compressed) <= BYTES_OF_TURN
            turned()
        for client in clients:
            await client.close()

    play(ListenerTerms(Listener(), websocket=WebsocketRules(is_compressing=True)), scene)


def test_who_comes_new_does_not_wait_for_what_a_crowd_inflates(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred clients had a little inflated each in every turn, which took 40 ms of it."""
    receive, inflated, turns = FrameReader.receive, Counter[int](), [0]

    def counted(reader: FrameReader, data: bytes) -> bytes:
        plain = receive(reader, data)
        inflated[turns[0]] += 0 if data else len(plain)
        return plain

    monkeypatch.setattr(FrameReader, "receive", counted)

    async def scene(server: Any) -> None:
        count_turns(server, turns, monkeypatch)
        deflate = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
        crowd = [await upgraded(server, deflate) for _ in range(90)]
        reader, writer = await upgraded(server)
        writer.write(ws_frame(0x82, b'CONNECT {"verbose":false}\r\nPING\r\n'))
        await reader.readuntil(b"PONG\r\n")
        message = b'CONNECT {"verbose":false}\r\nPUB a 900000\r\n%b\r\nPING\r\n' % bytes(900_000)
        deflater = zlib.compressobj(9, wbits=-15)
        data = (deflater.compress(message) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
        for _, one in crowd:
            one.write(ws_frame(0xC2, data))
        while turns[0] not in inflated:
            await asyncio.sleep(0)
        before = turns[0]
        writer.write(ws_frame(0x82, b"PING\r\n"))
        await reader.readuntil(b"PONG\r\n")
        assert turns[0] <= before + 10, "it goes around among the crowd in some 60"
        for one, _ in crowd:
            await one.readuntil(b"PONG\r\n")
        for one in (writer, *(each for _, each in crowd)):
            one.close()

    play(ListenerTerms(Listener(), websocket=WebsocketRules(is_compressing=True)), scene)
    assert max(inflated.values()) <= (STEPS_OF_TURN + STEPS_OF_SHARE_MIN) * INFLATED_BYTES_OF_STEP
    assert sum(inflated.values()) > 80 * 900_000, "all but what came first"


def test_what_is_held_for_somebody_who_is_gone_is_forgotten(play: Play) -> None:
    async def scene(server: Any) -> None:
        deflate = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
        _, writer = await upgraded(server, deflate)
        (connection,) = server.pump.connections.values()
        went_on: list[None] = []
        connection.unwrap = lambda: went_on.append(None)
        server.pump.unwrapping.put_off(connection)
        connection.connection_lost(None)
        server.pump.unwrapping.turned()
        assert not went_on
        writer.close()

    play(ListenerTerms(Listener(), websocket=WebsocketRules(is_compressing=True)), scene)
