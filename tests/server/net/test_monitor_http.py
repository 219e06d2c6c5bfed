"""Monitoring over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections import Counter
from http.client import IncompleteRead
from random import Random

import h11
import pytest
import uvloop
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.monitor import long_view
from jetstream_server.monitor.routes import MonitoringAnswer
from jetstream_server.net import listening, monitor_http, readiness
from jetstream_server.net.departures import PARTS_OF_TURN
from jetstream_server.net.loop_errors import contain_callbacks
from jetstream_server.net.monitor_http import MonitorHttp
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.planted import PlantedError, plant


def fetch(port: int, path: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


@pytest.mark.parametrize(
    ("path", "status", "found"),
    [
        ("/healthz", 200, b'"ok"'),
        ("/varz", 200, b'"server_name": "n1"'),
        ("/connz", 200, b'"num_connections": 1'),
        ("/connz?limit=abc", 400, b"Error decoding int for 'limit'"),
        ("/jsz", 200, b'"streams": 0'),
        ("/metrics", 200, b"gnatsd_varz_connections{"),
        ("/", 200, b"varz"),
        ("/stacksz", 200, b"MainThread"),
        ("/debug/vars", 200, b'"memstats"'),
        ("/raftz", 404, b"No Raft nodes registered"),
        ("/nope", 404, b"404 page not found\n"),
        ("/varz/", 404, b"404 page not found\n"),
    ],
)
def test_paths(running, on_loop, path, status, found):
    async def main():
        async with running() as served:
            client = await served.connect()
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            monitor = MonitorHttp(served.pump, listener)
            port = listening.address_of(listener)[1]
            await monitor.start()
            got = await asyncio.to_thread(fetch, port, path)
            await monitor.stop()
            client[1].close()
            assert got[0] == status
            assert found in got[2]
            if status == 200 and path not in ("/", "/metrics", "/stacksz"):
                assert got[1].startswith("application/json")
                json.loads(got[2])

    on_loop(main())


def test_a_base_path(running, on_loop):
    async def main():
        async with running() as served:
            served.pump.node.options = ServerOptions(http_base_path="/nats/")
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            monitor = MonitorHttp(served.pump, listener)
            port = listening.address_of(listener)[1]
            await monitor.start()
            answers = [
                await asyncio.to_thread(fetch, port, path)
                for path in ("/nats/healthz", "/nats", "/healthz")
            ]
            await monitor.stop()
            assert [status for status, _, _ in answers] == [200, 200, 404]
            assert b'href="/nats/varz"' in answers[1][2]

    on_loop(main())


def test_clients_are_heard_while_a_long_page_is_made(running, on_loop, monkeypatch):
    heard, passed = [], [0]

    def in_steps(*given):
        for _ in range(20):
            heard.append(passed[0])
            yield
        return MonitoringAnswer({"last": [{}] * 20_000})

    async def others():
        while True:
            passed[0] += 1
            await asyncio.sleep(0)

    async def main():
        async with running() as served:
            monkeypatch.setattr(monitor_http, "answer_in_steps", in_steps)
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            monitor = MonitorHttp(served.pump, listener)
            await monitor.start()
            task = asyncio.create_task(others())
            port = listening.address_of(listener)[1]
            status, _, body = await asyncio.to_thread(fetch, port, "/subsz")
            task.cancel()
            await monitor.stop()
            assert status == 200 and len(json.loads(body)["last"]) == 20_000

    on_loop(main())
    assert sorted({*heard}) == heard and len(heard) == 20


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_page_is_made_as_its_reader_takes_it(running, on_loop, monkeypatch, fails):
    """One of 195 megabytes took 850 in memory."""
    view, sizes = {"streams": [{"text": "<" * 120_000} for _ in range(40)]}, []

    def in_steps(*given):
        yield
        return MonitoringAnswer(view)

    def noted(value, **how):
        piece = encode(value, **how)
        sizes.append(len(piece))
        if fails and len(sizes) == 3:
            raise RuntimeError("a bug")
        return piece

    async def main():
        async with running() as served:
            incidents = []
            contain = served.node.containment.contain
            served.node.containment.contain = lambda error, now: incidents.append(error)
            monkeypatch.setattr(monitor_http, "answer_in_steps", in_steps)
            monkeypatch.setattr(long_view, "encode", noted)
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            monitor = MonitorHttp(served.pump, listener)
            await monitor.start()
            port = listening.address_of(listener)[1]
            if fails:
                with pytest.raises(IncompleteRead):
                    await asyncio.to_thread(fetch, port, "/jsz")
            else:
                status, kind, body = await asyncio.to_thread(fetch, port, "/jsz")
                assert (status, kind) == (200, "application/json")
                assert body == encode(view, indented=True)
                assert len(sizes) == 1 + 40
            await monitor.stop()
            served.node.containment.contain = contain
            assert len(incidents) == fails

    on_loop(main())
    assert max(sizes) < 1_000_000


def test_nothing_is_imported_for_the_first_long_page():
    """That kept clients waiting for 30 ms."""
    script = textwrap.dedent("""
        import asyncio, sys
        from types import SimpleNamespace
        from jetstream_server.config.options import ServerOptions
        from jetstream_server.net import listening, monitor_http

        async def page():
            yield b""

        async def sent(message):
            pass

        async def main():
            pump = SimpleNamespace(node=SimpleNamespace(options=ServerOptions()))
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            monitor = monitor_http.MonitorHttp(pump, listener)
            await monitor.start()
            while not monitor._server.started:
                await asyncio.sleep(0)
            before = {*sys.modules}
            response = monitor_http.StreamingResponse(page())
            await response({"type": "http"}, asyncio.Event().wait, sent)
            print(*sys.modules.keys() - before)
            await monitor.stop()

        asyncio.run(main())
    """)
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == []


def test_those_who_came_in_a_long_turn_come_in_together(running, monkeypatch):
    made: list[object] = []

    connection_made = H11Protocol.connection_made

    def counted(connection, transport) -> None:
        made.append(transport)
        connection_made(connection, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", counted)

    async def main():
        async with running() as served:
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            address = listening.address_of(listener)
            monitor = MonitorHttp(served.pump, listener)
            await monitor.start()
            await asyncio.to_thread(fetch, address[1], "/healthz")
            made.clear()
            with contextlib.ExitStack() as clients:
                for _ in range(listening.ACCEPTED_AT_ONCE):
                    clients.enter_context(socket.create_connection(address, 60))
                for _ in range(4):
                    await asyncio.sleep(0)
                assert len(made) == listening.ACCEPTED_AT_ONCE
            await monitor.stop()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, 60)

    uvloop.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_many_questions_at_once_take_turns(running, on_loop, monkeypatch, fails):
    """A thousand of them kept clients waiting for 100 ms; and one that fails costs its own."""
    heard: Counter[int] = Counter()
    turns, data_received = [0], H11Protocol.data_received

    def counted(connection, data) -> None:
        heard[turns[0]] += 1
        if fails and sum(heard.values()) == 30:
            raise RuntimeError("a bug")
        data_received(connection, data)

    monkeypatch.setattr(H11Protocol, "data_received", counted)

    async def main():
        async with running() as served:
            turn = served.node.run
            incidents = []
            contain = served.node.containment.contain
            served.node.containment.contain = lambda error, now: incidents.append(error)

            def counting(now):
                turns[0] += 1
                turn(now)

            served.node.run = counting
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            host, port = listening.address_of(listener)
            monitor = MonitorHttp(served.pump, listener)
            await monitor.start()
            clients = [await asyncio.open_connection(host, port) for _ in range(50)]
            for _, writer in clients:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answers = [await reader.read() for reader, _ in clients]
            for _, writer in clients:
                writer.close()
            await monitor.stop()
            served.node.containment.contain = contain
            assert sum(b"200 OK" in answer for answer in answers) == 50 - fails
            assert len(incidents) == fails

    on_loop(main())
    assert max(heard.values()) <= 16, heard


@pytest.mark.parametrize("is_reset", [False, True])
def test_connections_that_end_together_are_closed_in_turns(
    running, on_loop, until, monkeypatch, is_reset
):
    """Ten thousand that were reset kept clients waiting for 64 to 139 ms."""
    lost: list[int] = []
    count = 3 * PARTS_OF_TURN

    def counted(self, exc):
        lost[-1] += 1
        forget(self, exc)

    forget = H11Protocol.connection_lost
    monkeypatch.setattr(H11Protocol, "connection_lost", counted)
    # However few clients there are: those who only ask monitoring are none.
    monkeypatch.setattr(readiness, "READ_BY_LOOP_MAX", 2 * count)

    async def main():
        async with running() as served:
            listener = listening.bind("127.0.0.1", -1, "monitor port")
            monitor = MonitorHttp(served.pump, listener)
            port = listening.address_of(listener)[1]
            await monitor.start()
            crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
            await until(lambda: len(served.pump.readiness._watched) == count)
            turned = served.pump.departures.turned

            def turns(*, is_busy):
                lost.append(0)
                turned(is_busy=is_busy)

            served.pump.departures.turned = turns
            lost.append(0)
            for _, writer in crowd:
                if is_reset:
                    own = writer.transport.get_extra_info("socket")
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            await until(lambda: sum(lost) == count)
            assert max(lost) <= PARTS_OF_TURN
            await monitor.stop()

    on_loop(main())


_CHUNKED = b"POST /varz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
_QUESTION = b"GET /varz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@contextlib.asynccontextmanager
async def monitored(served):
    listener = listening.bind("127.0.0.1", -1, "monitor port")
    monitor = MonitorHttp(served.pump, listener)
    await monitor.start()
    yield listening.address_of(listener)
    await monitor.stop()


async def _head(reader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
    return head


@pytest.mark.parametrize("others", [0, 60])
def test_a_body_that_is_none_behind_an_answer_ends_its_connection(
    running, on_loop, caplog, capfd, others
):
    """It was refused once more, which HTTP does not allow, and that ended the process if it had to
    wait for its turn behind others."""

    async def main():
        async with running() as served, monitored(served) as address:
            reader, writer = await asyncio.open_connection(*address)
            clients = [await asyncio.open_connection(*address) for _ in range(others)]
            writer.write(_CHUNKED)
            assert b"200 OK" in await _head(reader)
            for _, other in clients:
                other.write(_QUESTION)
            writer.write(b"ZZ\r\n")
            assert await reader.read() == b""
            assert all([b"200 OK" in await each.read() for each, _ in clients])

    on_loop(main())
    assert not caplog.records and capfd.readouterr().err == ""


def test_what_is_no_http_is_refused_without_a_word_in_the_log(running, on_loop, caplog, capfd):
    async def main():
        async with running() as served, monitored(served) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"bad bad\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
            # The same as a second question, and in the body of one that is not answered yet.
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /varz HTTP/1.1\r\nHost: x\r\n\r\n")
            await _head(reader)
            writer.write(b"bad bad\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
            reader, writer = await asyncio.open_connection(*address)
            writer.write(_CHUNKED + b"ZZ\r\n")
            await reader.read()

    on_loop(main())
    assert not caplog.records and capfd.readouterr().err == ""


def test_who_can_be_told_nothing_any_more_does_not_keep_the_server_from_its_end(
    running, on_loop, monkeypatch, until
):
    """The end of all connections was an error then, and the exit code another one."""

    async def main():
        async with running() as served:
            broken: list[monitor_http._Http] = []
            made = monitor_http._Http.connection_made

            def noted(self, transport):
                broken.append(self)
                made(self, transport)

            monkeypatch.setattr(monitor_http._Http, "connection_made", noted)
            async with monitored(served) as address:
                ends = [await asyncio.open_connection(*address) for _ in range(2)]
                await until(lambda: len(broken) == 2)
                for each in broken:
                    with pytest.raises(h11.LocalProtocolError):
                        each.conn.send(h11.EndOfMessage())
                    assert each.conn.our_state is h11.ERROR
                broken[1].timeout_keep_alive_handler()
                assert await ends[1][0].read() == b""

    on_loop(main())


@pytest.mark.parametrize("others", [0, 60])
def test_a_question_that_trips_costs_its_connection(running, on_loop, monkeypatch, others):
    taken = H11Protocol.data_received

    def tripping(connection, data):
        if b"poison" in data:
            raise PlantedError("a question")
        taken(connection, data)

    monkeypatch.setattr(H11Protocol, "data_received", tripping)

    async def main():
        async with running() as served:
            log: list[str] = []
            containment = Containment(lambda level, text: log.append(text))
            served.node.containment = containment
            loop, failures = asyncio.get_running_loop(), []
            contain_callbacks(loop, containment, served.pump.clock, failures.append)
            async with monitored(served) as address:
                clients = [await asyncio.open_connection(*address) for _ in range(others + 1)]
                for _, writer in clients[:-1]:
                    writer.write(_QUESTION)
                clients[-1][1].write(b"GET /poison HTTP/1.1\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    assert await clients[-1][0].read() == b""
                assert all([b"200 OK" in await each.read() for each, _ in clients[:-1]])
            assert containment.counts[Domain.CONNECTION] == 1 and len(log) == 1
            assert not failures

    on_loop(main())


def test_whatever_trips_behind_the_answer_is_contained(running, on_loop, monkeypatch):
    async def main():
        async with running() as served:
            served.node.containment = containment = Containment(lambda level, text: None)
            async with monitored(served) as address:
                plant(monkeypatch, Starlette, "__call__")
                reader, writer = await asyncio.open_connection(*address)
                writer.write(_QUESTION)
                assert (await reader.read()).startswith(b"HTTP/1.1 500 Internal Server Error")
            assert containment.counts[Domain.REQUEST] == 1

    on_loop(main())


_LINES = [
    b"GET /varz HTTP/1.1\r\n", b"POST /varz HTTP/1.1\r\n", b"HEAD / HTTP/1.1\r\n",
    b"GET /healthz HTTP/1.0\r\n", b"GET /%ff%00?limit=%ff HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n",
    b"GET http://x/varz HTTP/1.1\r\n", b"CONNECT x:1 HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n",
    b"Host: x\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: x\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b": x\r\n", b"X: " + b"y" * 9000 + b"\r\n",
    b"\r\n", b"\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"ZZ\r\n", b"f" * 20 + b"\r\n",
    b"\xff\xfe\r\n", b"\x16\x03\x01\x02\x00", b"hello", b"a" * 70_000,
]  # fmt: skip
# So that most begin as requests do, and go on.
_BEGINNINGS = [
    b"", _CHUNKED, _QUESTION, b"GET /connz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    b"POST /varz HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_asked_costs_only_who_asks(running, on_loop, caplog, capfd, seed):
    """Pieces of HTTP in any order and any cut, of forty at once. Nothing is contained here: an
    exception that anybody could bring about would fail."""
    random = Random(seed)

    async def ask(address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        said = random.choice(_BEGINNINGS)
        said += b"".join(random.choices(_LINES, k=random.randrange(8)))
        with contextlib.suppress(OSError):  # it may have been cut off
            while said:
                size = random.choice((1, 20, len(said), len(said)))
                writer.write(said[:size])
                said = said[size:]
                for _ in range(random.randrange(4)):
                    await asyncio.sleep(0)
            if random.random() < 0.3:
                writer.transport.abort()
                return
            writer.write_eof()
            await reader.read()
        writer.close()

    async def main():
        async with running() as served, monitored(served) as address:
            witness = await served.connect()
            for _ in range(5):
                async with asyncio.timeout(60):
                    await asyncio.gather(*(ask(address) for _ in range(40)))
                    reader, writer = await asyncio.open_connection(*address)
                    writer.write(_QUESTION)
                    assert b"200 OK" in await reader.read()
                    witness[1].write(b"PING\r\n")
                    assert await witness[0].readline() == b"PONG\r\n"

    on_loop(main())
    # The clients of this test are on the same loop, which says so when they write on to nobody.
    said = [each for each in caplog.records if "socket.send() raised" not in each.message]
    assert not said and capfd.readouterr().err == ""
