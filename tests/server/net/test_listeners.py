"""Where clients come in, which listeners there are, and what the log says of them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
from random import Random

import pytest
from jetstream_server.base.clock import SystemClock
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import ServerOptions, TlsOptions, WebsocketOptions
from jetstream_server.net import readiness
from jetstream_server.net.listeners import Listeners
from jetstream_server.net.pump import Pump
from jetstream_server.net.watched_socket import WatchedSocket
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.listener import Listener
from jetstream_server.node.node import Node


@pytest.fixture
def opened(options, on_loop):
    """Open the listeners of these options for a scene; returns the log."""

    def open_(given: ServerOptions, scene) -> list[str]:
        said: list[str] = []

        async def main() -> None:
            with contextlib.closing(
                Listeners(given, lambda *line: said.append(" ".join(line)))
            ) as listeners:
                node = Node(options, Authenticator([]), Random(1), lambda level, text: None, port=0)
                errors: list[BaseException] = []
                pump = Pump(node, None, SystemClock(), errors.append)
                await listeners.open(pump)
                await scene(listeners, node)
                for connection in list(pump.connections.values()):
                    connection.close()
                await pump.stop()
                assert not errors

        on_loop(main())
        return said

    return open_


def options_of(**more) -> ServerOptions:
    return ServerOptions(host="127.0.0.1", port=-1, **more)


async def first_line(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    line = await reader.readline()
    writer.close()
    return line


def test_clients_come_in_until_it_is_shut(opened):
    ports: list[int] = []

    async def scene(listeners: Listeners, node: Node) -> None:
        ports.append(listeners.port)
        assert (await first_line(listeners.port)).startswith(b"INFO {")
        listeners.shut()
        with pytest.raises(ConnectionRefusedError):
            await first_line(listeners.port)

    said = opened(options_of(), scene)
    assert said == [f"INF Listening for client connections on 127.0.0.1:{ports[0]}"]


def test_where_descriptors_are_few_sockets_of_those_who_leave_do_not_stay_open(opened, monkeypatch):
    kept: list[tuple[bool, bool]] = []

    async def scene(listeners: Listeners, node: Node) -> None:
        looked = Listeners._look_for_room

        def looking(self, bound, pump) -> bool:
            has_room = looked(self, bound, pump)
            kept.append((pump.departures.keep_sockets, pump.readiness.may_put_off))
            return has_room

        monkeypatch.setattr(Listeners, "_look_for_room", looking)
        await first_line(listeners.port)
        found = listeners._descriptors
        found.limit = found.reserved + found.next_number(0) + 8
        await first_line(listeners.port)

    opened(options_of(), scene)
    assert kept == [(True, True), (False, False)]


def test_only_clients_without_websocket_may_be_read_from_by_the_loop(opened, monkeypatch, until):
    """Who has yet to ask for WebSocket is no client, and would not count as one of few."""
    monkeypatch.setattr(readiness, "READ_BY_LOOP_MAX", 1000)
    made: list[WatchedSocket] = []
    begin = WatchedSocket.__init__

    def noted(self, *others, **named):
        begin(self, *others, **named)
        made.append(self)

    monkeypatch.setattr(WatchedSocket, "__init__", noted)

    async def scene(listeners: Listeners, node: Node) -> None:
        ports = (listeners.port, int(listeners.websocket_url.rpartition(":")[2]))
        for number, port in enumerate(ports, 1):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda number=number: len(made) == number)
            writer.close()
        assert [each._may_step_aside for each in made] == [True, False]

    opened(
        options_of(websocket=WebsocketOptions(host="127.0.0.1", port=-1, is_without_tls=True)),
        scene,
    )


def test_websocket_has_a_door_of_its_own(opened):
    urls: list[str] = []

    async def scene(listeners: Listeners, node: Node) -> None:
        urls.append(listeners.websocket_url)
        port = int(listeners.websocket_url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 4")
        writer.close()

    websocket = WebsocketOptions(host="127.0.0.1", port=-1, is_without_tls=True)
    said = opened(options_of(websocket=websocket), scene)
    assert said[0] == f"INF Listening for websocket clients on {urls[0]}"
    assert urls[0].startswith("ws://127.0.0.1:")
    assert said[1].startswith("WRN Websocket not configured with TLS.")


@pytest.mark.parametrize(("is_plain_allowed", "word"), [(False, "required"), (True, "available")])
def test_tls_is_told_of(opened, pki, is_plain_allowed, word):
    async def scene(listeners: Listeners, node: Node) -> None:
        assert (b'"tls_required":true' in await first_line(listeners.port)) != is_plain_allowed

    tls = TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"))
    said = opened(options_of(tls=tls, is_plain_allowed=is_plain_allowed), scene)
    assert said[1:] == [f"INF TLS {word} for client connections"]


def test_who_connects_after_a_renewal_sees_the_new_certificate(opened, pki, tmp_path):
    cert, key = tmp_path / "cert", tmp_path / "key"

    def put(name: str) -> None:
        shutil.copy(pki.cert(name), cert)
        shutil.copy(pki.key(name), key)

    put("server")
    websocket = WebsocketOptions(
        host="127.0.0.1", port=-1, tls=TlsOptions(cert_file=str(cert), key_file=str(key))
    )
    options = options_of(websocket=websocket)

    async def scene(listeners: Listeners, node: Node) -> None:
        port = int(listeners.websocket_url.rpartition(":")[2])
        before = await shown_certificate(port, pki)
        assert before == pki.der("server")
        put("client")
        assert await shown_certificate(port, pki) == before
        listeners.adopt(listeners.terms(options, Listener("127.0.0.1", listeners.port)), node)
        assert await shown_certificate(port, pki) == pki.der("client")
        assert [listener.certificate for listener in node.listeners] == [pki.der("client")]
        key.write_text("nonsense")
        with pytest.raises(ConfigError):
            listeners.terms(options, Listener("127.0.0.1", listeners.port))

    opened(options, scene)


async def shown_certificate(port: int, pki) -> bytes | None:
    context = pki.client_context()
    context.check_hostname = False
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown


def test_clients_that_wait_for_info_are_warned_of(opened, pki):
    async def scene(listeners: Listeners, node: Node) -> None:
        assert listeners.port

    tls = TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"), greets_after_ns=-1)
    assert opened(options_of(tls=tls), scene)[-1] == (
        'WRN Clients that are not using "TLS Handshake First" option will fail to connect'
    )


def test_a_port_in_use_is_refused_and_given_back():
    said: list[str] = []
    with contextlib.closing(Listeners(options_of(), lambda *line: None)) as taken:
        again = ServerOptions(host="127.0.0.1", port=taken.port)
        with pytest.raises(ConfigError, match="address already in use"):
            Listeners(again, lambda level, text: said.append(text))
    Listeners(again, lambda level, text: said.append(text)).close()
    assert not said


def test_the_table_of_descriptors_is_large_before_anybody_comes():
    """In a process with threads it took 10 to 20 ms, three times for a thousand clients, to have it
    grow."""
    script = (
        "from jetstream_server.config.options import ServerOptions\n"
        "from jetstream_server.net.listeners import Listeners\n"
        "import resource\n"
        "made = Listeners(ServerOptions(host='127.0.0.1', port=-1), print)\n"
        "size = open('/proc/self/status').read().partition('FDSize:')[2].split()[0]\n"
        "print(size, resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
        "made.close()\n"
    )
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    size, limit = map(int, ran.stdout.split())
    assert size >= min(limit, 1 << 16)
