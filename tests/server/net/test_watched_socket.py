"""A socket that is read from when it is said to have something: between a loop and a connection."""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop
from jetstream_server.base.clock import SystemClock
from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain
from jetstream_server.net import listening, readiness
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.departures import PARTS_OF_TURN
from jetstream_server.net.loop_errors import contain_callbacks
from jetstream_server.net.readiness import Readiness
from jetstream_server.net.watched_socket import WatchedSocket

from tests.planted import plant

OnLoop = Callable[..., None]
Until = Callable[[Callable[[], object]], Coroutine[None, None, None]]
_RESET = struct.pack("ii", 1, 0)


class HearingConnection(asyncio.BufferedProtocol):
    """What a connection hears of its socket."""

    def __init__(self, *, stays_open: bool = False, length: int = 100) -> None:
        self.stays_open = stays_open
        self.place = memoryview(bytearray(length))
        self.read = b""
        self.reads = 0
        self.heard: list[str] = []
        self.lost: Exception | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.heard.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.place

    def buffer_updated(self, nbytes: int) -> None:
        self.read += self.place[:nbytes]
        self.reads += 1

    def eof_received(self) -> bool:
        self.heard.append("eof")
        return self.stays_open

    def reset_received(self, error: OSError) -> bool:
        assert isinstance(error, OSError)
        self.heard.append("reset")
        return self.stays_open

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")


class ServedSockets:
    """Connections on a port, and the other ends of them."""

    def __init__(self, *connections: HearingConnection, steps_aside: bool = False) -> None:
        self._connections = iter(connections)
        self._steps_aside = steps_aside
        self.readiness = Readiness(asyncio.get_running_loop(), SystemClock(), ())
        self.sockets: list[WatchedSocket] = []

    async def __aenter__(self) -> ServedSockets:
        self._listener = listening.bind("127.0.0.1", -1)
        self.address = ("127.0.0.1", listening.address_of(self._listener)[1])
        self._servers = await listening.serve(self._listener, self._watched)
        return self

    def _watched(self) -> WatchedSocket:
        reader: Any = next(self._connections)
        made = WatchedSocket(self.readiness, reader, may_step_aside=self._steps_aside)
        self.sockets.append(made)
        return made

    async def __aexit__(self, *unused: object) -> None:
        for each in self._servers:
            each.close()
        self.readiness.close()
        self._listener.close()
        for watched in self.sockets:
            watched.abort()
        await asyncio.sleep(0)

    @property
    def watched(self) -> int:
        return len(self.readiness._watched)


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    """Run a coroutine on either kind of loop, with an end."""

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        ended = asyncio.wait_for(coroutine, 110)
        if request.param == "asyncio":
            asyncio.run(ended)
        else:
            uvloop.run(ended)

    return run


def test_what_comes_is_read_into_where_the_connection_says(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        connection = HearingConnection(length=7)
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                said = b"".join(b"%d," % number for number in range(100))
                other.sendall(said)
                await until(lambda: connection.read == said)
                assert connection.reads >= len(said) / 7
                connection.transport.write(b"heard")
                assert other.recv(100) == b"heard"
                assert connection.transport is served.sockets[0]

    on_loop(main())


def test_who_is_lost_is_held_by_nobody(on_loop: OnLoop, until: Until) -> None:
    """A connection and its socket hold each other until then, and no collector looks at them."""

    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address):
                await until(lambda: connection.heard == ["made"])
            await until(lambda: connection.heard[-1] == "lost")
            watched = connection.transport
            await asyncio.sleep(0)
            assert connection not in gc.get_referents(watched)

    on_loop(main())


def test_the_loop_reads_no_more_as_soon_as_it_is_taken_over(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                await until(lambda: served.watched)
                inner = served.sockets[0]._inner
                assert not inner.is_reading()
                served.readiness.close()
                other.sendall(b"x")
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not connection.read

    on_loop(main())


def test_a_socket_steps_aside_as_long_as_clients_are_few(
    on_loop: OnLoop, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "READ_BY_LOOP_MAX", 1)

    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection, steps_aside=True) as served:
            with socket.create_connection(served.address) as other:
                other.sendall(b"x")
                await until(lambda: connection.read)
                assert not served.watched
                assert connection.transport is served.sockets[0]._inner
                assert connection.transport.get_protocol() is connection
                connection.transport.abort()
                await until(lambda: connection.heard == ["made", "lost"])

    on_loop(main())


def test_who_may_not_step_aside_is_watched_however_few_there_are(
    on_loop: OnLoop, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "READ_BY_LOOP_MAX", 1)

    async def main() -> None:
        async with ServedSockets(HearingConnection()) as served:
            with socket.create_connection(served.address):
                await until(lambda: served.watched == 1)

    on_loop(main())


def test_an_end_that_the_loop_has_found_is_not_told_of_again(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        connection = HearingConnection(stays_open=True)
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                other.shutdown(socket.SHUT_WR)  # before it is accepted
                await until(lambda: "eof" in connection.heard)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert connection.heard == ["made", "eof"] and not served.watched

    on_loop(main())


def test_what_a_connection_raises_cuts_it_off(on_loop: OnLoop, until: Until) -> None:
    class Failing(HearingConnection):
        def buffer_updated(self, nbytes: int) -> None:
            if self.place[:nbytes] == b"bad":
                raise ValueError("planted")
            super().buffer_updated(nbytes)

    async def main() -> None:
        first, second, told = Failing(), HearingConnection(), list[object]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))
        async with ServedSockets(first, second) as served:
            with socket.create_connection(served.address) as bad:
                await until(lambda: served.watched)
                with socket.create_connection(served.address) as good:
                    await until(lambda: served.watched == 2)
                    bad.sendall(b"bad")
                    good.sendall(b"good")
                    await until(lambda: "lost" in first.heard and second.read == b"good")
                    assert [str(each) for each in told] == ["planted"]
                    assert served.watched == 1

    on_loop(main())


def test_nobody_is_watched_where_there_are_no_such_sets(
    on_loop: OnLoop, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection) as served:
            monkeypatch.setattr(Readiness, "is_available", False)
            with socket.create_connection(served.address) as other:
                other.sendall(b"x")
                await until(lambda: connection.read)
                assert not served.watched

    on_loop(main())


@pytest.mark.parametrize("stays_open", [False, True])
def test_who_ends_its_side_is_heard_of_once(
    on_loop: OnLoop, until: Until, stays_open: bool
) -> None:
    async def main() -> None:
        connection = HearingConnection(stays_open=stays_open)
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                await until(lambda: served.watched)
                other.sendall(b"last")
                other.shutdown(socket.SHUT_WR)
                await until(lambda: "eof" in connection.heard)
                assert connection.read == b"last"
                if stays_open:
                    connection.transport.pause_reading()
                    connection.transport.resume_reading()
                    for _ in range(20):
                        await asyncio.sleep(0)
                    assert connection.heard == ["made", "eof"] and not served.watched
                    connection.transport.write(b"heard")
                    assert other.recv(100) == b"heard"
                    connection.transport.close()
                await until(lambda: "lost" in connection.heard)
                assert connection.heard == ["made", "eof", "lost"] and not served.watched

    on_loop(main())


@pytest.mark.parametrize("stays_open", [False, True])
def test_who_is_reset_is_heard_of_once(on_loop: OnLoop, until: Until, stays_open: bool) -> None:
    async def main() -> None:
        connection = HearingConnection(stays_open=stays_open)
        async with ServedSockets(connection) as served:
            other = socket.create_connection(served.address)
            await until(lambda: served.watched)
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            other.close()
            await until(lambda: "reset" in connection.heard)
            if stays_open:
                for _ in range(20):
                    await asyncio.sleep(0)
                assert connection.heard == ["made", "reset"] and not served.watched
                connection.transport.close()
            await until(lambda: "lost" in connection.heard)
            assert connection.heard == ["made", "reset", "lost"] and not served.watched

    on_loop(main())


def test_who_is_paused_is_not_read_from_until_it_reads_on(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                await until(lambda: served.watched)
                connection.transport.pause_reading()
                assert served.watched, "as most read on before there is anything"
                connection.transport.resume_reading()
                other.sendall(b"a")
                await until(lambda: connection.read == b"a")
                connection.transport.pause_reading()
                other.sendall(b"b")
                await until(lambda: not served.watched)
                assert connection.read == b"a"
                connection.transport.resume_reading()
                await until(lambda: connection.read == b"ab")
                assert served.watched == 1

    on_loop(main())


def test_who_is_paused_before_it_is_taken_over_stays_so(on_loop: OnLoop, until: Until) -> None:
    class Early(HearingConnection):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.transport.pause_reading()

    async def main() -> None:
        connection = Early(length=1)
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                other.sendall(b"abc")
                for count in range(1, 4):
                    while connection.reads < count:
                        await asyncio.sleep(0)
                    for _ in range(20):
                        await asyncio.sleep(0)
                    assert connection.read == b"abc"[:count]
                    connection.transport.resume_reading()

    on_loop(main())


def test_what_is_paused_and_reads_on_before_it_is_taken_over_is_read(
    on_loop: OnLoop, until: Until
) -> None:
    class Early(HearingConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.pause_reading()
            self.transport.resume_reading()

    async def main() -> None:
        connection = Early()
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                other.sendall(b"x")
                await until(lambda: connection.read == b"x")

    on_loop(main())


def test_who_is_closed_from_here_is_read_from_no_more(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                await until(lambda: served.watched)
                other.sendall(b"x")
                connection.transport.close()
                assert connection.transport.is_closing()
                await until(lambda: "lost" in connection.heard)
                assert not connection.read and not served.watched

    on_loop(main())


def test_another_connection_takes_what_comes_from_then_on(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        first, second = HearingConnection(), HearingConnection()
        async with ServedSockets(first) as served:
            with socket.create_connection(served.address) as other:
                other.sendall(b"a")
                await until(lambda: first.read == b"a")
                first.transport.set_protocol(second)
                other.sendall(b"b")
                await until(lambda: second.read == b"b")
                first.transport.abort()
                await until(lambda: second.heard == ["lost"])
                assert first.heard == ["made"] and first.read == b"a"

    on_loop(main())


def test_a_full_socket_is_told_of(on_loop: OnLoop, until: Until) -> None:
    async def main() -> None:
        connection = HearingConnection()
        async with ServedSockets(connection) as served:
            with socket.create_connection(served.address) as other:
                await until(lambda: served.watched)
                transport = connection.transport
                transport.set_write_buffer_limits(high=1000)
                transport.write(bytes(20_000_000))
                assert connection.heard == ["made", "pause"]
                assert transport.get_write_buffer_size() > 1000
                other.setblocking(False)
                taken = 0
                while taken < 20_000_000:
                    try:
                        taken += len(other.recv(1 << 20))
                    except BlockingIOError:
                        await asyncio.sleep(0)
                await until(lambda: connection.heard == ["made", "pause", "resume"])
                assert transport.get_write_buffer_size() == 0

    on_loop(main())


def test_who_cannot_be_watched_ends_alone(
    on_loop: OnLoop, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system watches no more than so many sockets for one user."""

    async def main() -> None:
        first, second = HearingConnection(), HearingConnection()
        async with ServedSockets(first, second) as served:
            with socket.create_connection(served.address) as well:
                await until(lambda: served.watched)
                watch = served.readiness.watch
                full = OSError(errno.ENOSPC, "No space left on device")

                def refuse(*unused: object) -> None:
                    raise full

                monkeypatch.setattr(served.readiness, "watch", refuse)
                with socket.create_connection(served.address) as other:
                    await until(lambda: second.heard == ["made", "reset", "lost"])
                    with pytest.raises(ConnectionError):
                        assert not other.recv(1)
                        raise ConnectionResetError
                first.transport.pause_reading()
                well.sendall(b"a")
                await until(lambda: not served.watched)
                first.transport.resume_reading()
                await until(lambda: first.heard == ["made", "reset", "lost"])
                monkeypatch.setattr(served.readiness, "watch", watch)

    on_loop(main())


def test_a_read_that_goes_wrong_unforeseen_costs_its_connection(
    on_loop: OnLoop, until: Until, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running() as served:
            containment = Containment(lambda level, text: None)
            served.node.containment = containment
            loop = asyncio.get_running_loop()
            failures: list[BaseException] = []
            contain_callbacks(loop, containment, served.pump.clock, failures.append)
            reader, writer = await served.connect()
            other = await served.connect()
            last = list(served.pump.connections.values())[-1]
            plant(monkeypatch, ClientConnection, "get_buffer", lambda self, hint: self is last)
            other[1].write(b"PING\r\n")
            await until(lambda: len(served.pump.connections) == 1)
            writer.write(b"PING\r\n")
            assert await reader.readline() == b"PONG\r\n"
            assert containment.counts[Domain.CONNECTION] == 1 and not failures
            assert len(served.pump.readiness._watched) == 1

    on_loop(main())


def test_a_crowd_that_is_reset_is_told_of_in_looks_and_leaves_in_turns(
    on_loop: OnLoop, until: Until, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand were closed by the loop in one go, which took up to 90 ms."""
    monkeypatch.setattr(readiness, "SOCKETS_OF_LOOK_MAX", 50)
    monkeypatch.setattr(readiness, "ENDED_OF_LOOK", 20)  # of those that a full look has put off
    count = 6 * PARTS_OF_TURN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * count)), hard))

    async def main() -> None:
        async with running(max_connections=1000) as served:
            witness = await served.connect()
            crowd = [await served.connect() for _ in range(count)]
            pump = served.pump
            heard, busy, most = list[int](), list[bool](), 0
            reset_received, turned = ClientConnection.reset_received, pump.departures.turned

            def counted(self: ClientConnection, error: OSError) -> bool:
                heard[-1] += 1
                return reset_received(self, error)

            def turns(*, is_busy: bool) -> None:
                nonlocal most
                most = max(most, len(pump.departures._waiting))
                assert is_busy or heard[-1] < 70
                busy.append(is_busy)
                heard.append(0)
                turned(is_busy=is_busy)

            monkeypatch.setattr(ClientConnection, "reset_received", counted)
            heard.append(0)
            pump.departures.turned = turns
            for _, writer in crowd:
                own = writer.transport.get_extra_info("socket")
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
            witness[1].write(b"PING\r\n")
            assert await witness[0].readline() == b"PONG\r\n"
            await until(lambda: len(served.node.sessions) == 1)
            assert sum(heard) == count and max(heard) < 70
            assert busy.count(True) <= len(crowd) // 50 + 1 and not busy[-1]
            assert most < count, "the first had left before the last was told of"
            assert [each.reason for each in served.node.closed] == ["Read Error"] * count

    on_loop(main())


def test_a_turn_forgets_that_the_look_before_it_was_full(on_loop: OnLoop, running: Any) -> None:
    async def main() -> None:
        async with running() as served:
            pump = served.pump
            pump.readiness.is_behind = True
            pump._turn()
            assert not pump.readiness.is_behind
            await served.connect()
            assert pump.readiness._epoll is not None
        assert pump.readiness._epoll is None, "the set is given back at the end"

    on_loop(main())
