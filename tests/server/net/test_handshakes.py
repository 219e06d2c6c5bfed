"""Handshakes of TLS take turns, in their order, and nothing that arrives meanwhile is lost."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.config.options import TlsOptions
from jetstream_server.net.handshakes import (
    UNITS_OF_QUESTION,
    UNITS_OF_TLS,
    UNITS_OF_TURN,
    UNITS_OF_UPGRADE,
    Handshakes,
)
from jetstream_server.net.listener_terms import ListenerTerms
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.tls_layer import TlsLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.node.listener import Listener

STEPS_OF_TURN = UNITS_OF_TURN // UNITS_OF_UPGRADE


class Shaking:
    """A connection that notes what it is given."""

    def __init__(self, step_units: int = UNITS_OF_UPGRADE) -> None:
        self.step_units = step_units
        self.taken: list[bytes] = []
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def go_on(self, data: bytes) -> None:
        assert self.is_read
        self.taken.append(data)


def test_those_beyond_a_turn_wait_in_their_order() -> None:
    woken: list[None] = []
    handshakes = Handshakes(lambda: woken.append(None))
    those = [Shaking() for _ in range(2 * STEPS_OF_TURN + 3)]
    taken = [handshakes.takes(one, b"hello") for one in those]
    assert taken == [True] * STEPS_OF_TURN + [False] * (STEPS_OF_TURN + 3)
    assert [one.is_read for one in those] == taken
    handshakes.turned()
    assert not any(one.taken for one in those), "those before it have left no time"
    woken.clear()
    handshakes.turned()
    assert [len(one.taken) for one in those] == [0] * 16 + [1] * 16 + [0] * 3
    assert woken, "the rest is for another turn"
    assert not handshakes.takes(Shaking(), b"hello"), "who comes now comes after them"
    woken.clear()
    handshakes.turned()
    assert [one.taken for one in those[STEPS_OF_TURN:]] == [[b"hello"]] * (STEPS_OF_TURN + 3)
    assert not woken


def test_what_takes_long_takes_more_of_a_turn() -> None:
    handshakes = Handshakes(lambda: None)
    those = [Shaking(UNITS_OF_TLS) for _ in range(14)]
    assert [handshakes.takes(one, b"hello") for one in those] == [True] * 6 + [False] * 8
    questions = [Shaking(UNITS_OF_QUESTION) for _ in range(9)]
    assert [handshakes.takes(one, b"GET") for one in questions] == [False] * 9
    heard = [
        (handshakes.turned(), sum(bool(one.taken) for one in those + questions))[1]
        for _ in range(4)
    ]
    assert heard == [0, 6, 6 + 2 + 6, 17], "the last of a turn may be worth more than is left"


def test_what_comes_while_one_waits_is_kept_with_it() -> None:
    handshakes = Handshakes(lambda: None)
    for _ in range(STEPS_OF_TURN):
        handshakes.takes(Shaking(), b"hello")
    late, gone = Shaking(), Shaking()
    handshakes.takes(gone, b"hello")
    assert not handshakes.takes(late, b"hel")
    late.resume_reading()  # by somebody who had another reason not to read
    assert not handshakes.takes(late, b"lo")
    assert not late.is_read
    handshakes.forget(gone)
    handshakes.turned()
    handshakes.turned()
    assert late.taken == [b"hello"] and late.is_read
    assert not gone.taken
    assert handshakes.takes(late, b"more")


@pytest.mark.parametrize("websocket", [None, WebsocketRules()], ids=["plain", "websocket"])
def test_many_who_greet_at_once_get_through(
    running: Any,
    on_loop: Callable[[Awaitable[None]], None],
    pki: Any,
    monkeypatch: pytest.MonkeyPatch,
    websocket: WebsocketRules | None,
) -> None:
    server_side = make_context(TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server")))
    terms = ListenerTerms(
        Listener(tls_required=True), server_side, 30 * SECOND, websocket=websocket
    )
    steps: Counter[int] = Counter()
    turns, shake_hands = [0], TlsLayer._shake_hands

    def counted(layer: TlsLayer) -> bool:
        steps[turns[0]] += 1
        return shake_hands(layer)

    monkeypatch.setattr(TlsLayer, "_shake_hands", counted)

    async def main() -> None:
        async with running(terms=terms) as server:
            turn = server.node.run

            def counting(now: int) -> None:
                turns[0] += 1
                turn(now)

            server.node.run = counting
            clients = [await _Client.come(server.port, pki, websocket) for _ in range(50)]
            for client in clients:
                client.greet()
            for client in clients:
                await client.get_through()
                client.writer.close()

    on_loop(main())
    # Those that arrive between two turns, and those that waited for the second one.
    assert max(steps.values()) <= STEPS_OF_TURN, steps
    assert sum(steps.values()) >= 100


class _Client:
    """One that greets when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pki: Any):
        self.reader, self.writer = reader, writer
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = pki.client_context()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname="localhost")
        self._asks = b'CONNECT {"verbose":false}\r\nPING\r\n'
        self._answer = b"PONG\r\n"

    @classmethod
    async def come(cls, port: int, pki: Any, websocket: WebsocketRules | None) -> _Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = cls(reader, writer, pki)
        if websocket is None:
            await reader.readline()
        else:
            client._asks = (
                b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            client._answer = b"INFO {"
        return client

    def greet(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.writer.write(self._leaving.read())

    async def get_through(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._arrived.write(await self.reader.read(1 << 16))
        self._tls.write(self._asks)
        self.writer.write(self._leaving.read())
        plain = b""
        while self._answer not in plain:
            try:
                plain += self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self._arrived.write(await self.reader.read(1 << 16))


def test_a_turn_has_something_to_do_if_its_time_was_taken_or_somebody_waits() -> None:
    handshakes, one = Handshakes(lambda: None), Shaking()
    assert not handshakes.is_used
    handshakes.takes(one, b"hello")
    assert handshakes.is_used
    handshakes.turned()
    assert not handshakes.is_used
    handshakes.put_off(one)
    assert handshakes.is_used
    handshakes.turned()
    assert one.taken == [b""] and not handshakes.is_used
