"""Client sockets: partial frames, clients that do not read, clients that vanish."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from jetstream_server.base.clock import MILLISECOND, MINUTE
from jetstream_server.base.limits import OUTBOX_LOW_BYTES
from jetstream_server.net.client_connection import ClientConnection

from tests.server.net.plug import Plug


def test_frames_may_arrive_in_any_pieces(running, on_loop):
    async def main():
        async with running() as served:
            reader, writer = await served.connect()
            for byte in b"SUB a 1\r\nPUB a 5\r\nhello\r\nPING\r\n":
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert await reader.readuntil(b"PONG\r\n") == b"MSG a 1 5\r\nhello\r\nPONG\r\n"

    on_loop(main())


def test_a_refused_client_hears_why_before_the_end(running, until, on_loop):
    async def main():
        async with running() as served:
            reader, writer = await served.connect()
            writer.write(b"NOPE\r\n")
            assert await reader.read() == b"-ERR 'Unknown Protocol Operation'\r\n"
            await until(lambda: not served.node.sessions)

    on_loop(main())


def test_a_client_that_does_not_read_is_cut_off(running, until, on_loop):
    async def main():
        async with running() as served:
            slow_reader, slow = await served.connect()
            slow.write(b"SUB a 1\r\n")
            _, fast = await served.connect()
            frame = b"PUB a 100000\r\n" + b"x" * 100_000 + b"\r\n"
            for _ in range(400):
                fast.write(frame)
                await fast.drain()
                if served.node.stats.slow_consumers:
                    break
            await until(lambda: len(served.node.sessions) == 1)
            assert served.node.stats.slow_consumers == 1
            data = await slow_reader.read(-1)
            assert b"-ERR" not in data

    on_loop(main())


def test_a_client_that_takes_nothing_is_cut_off_in_time(running, until, on_loop):
    async def main():
        async with running(write_deadline_ns=100 * MILLISECOND) as served:
            slow_reader, slow = await served.connect()
            slow.write(b"SUB a 1\r\nPING\r\n")
            await slow_reader.readuntil(b"PONG\r\n")
            slow.transport.pause_reading()
            (session,) = served.node.sessions.values()
            _, fast = await served.connect()
            frame = b"PUB a 500000\r\n" + b"x" * 500_000 + b"\r\n"
            for _ in range(14):  # less than `max_pending`
                fast.write(frame)
                await fast.drain()
            await until(lambda: session.cid not in served.node.sessions)
            assert session.closing == "Slow Consumer (Write Deadline)"
            assert served.node.stats.slow_consumers == 1

    on_loop(main())


def test_a_client_that_takes_its_time_stays(running, on_loop):
    async def main():
        async with running(write_deadline_ns=MINUTE) as served:
            await served.connect()
            ((session, connection),) = served.pump.connections.items()
            before = connection._taken
            connection.write_output()
            session.send(b"PING\r\n")
            connection.write_output()
            connection.pause_writing()
            connection._check_progress(before)  # it has taken a little since
            assert not session.closing
            connection._check_progress(connection._taken)
            assert session.closing == "Slow Consumer (Write Deadline)"

    on_loop(main())


def test_the_backlog_falls_when_the_client_reads_again(running, until, on_loop):
    async def main():
        async with running(max_pending=3 * OUTBOX_LOW_BYTES) as served:
            reader, writer = await served.connect()
            writer.write(b"SUB a 1\r\nPING\r\n")
            await reader.readuntil(b"PONG\r\n")
            writer.transport.pause_reading()
            (session,) = served.node.sessions.values()
            drained = []
            served.node.drained = drained.append
            other_reader, other = await served.connect()
            sent = 0
            while session.backlog_bytes <= OUTBOX_LOW_BYTES:
                other.write(b"PUB a 500000\r\n" + b"x" * 500_000 + b"\r\nPING\r\n")
                await other_reader.readuntil(b"PONG\r\n")
                sent += 1
            assert drained == []
            writer.transport.resume_reading()
            left = sent * len(b"MSG a 1 500000\r\n" + b"x" * 500_000 + b"\r\n")
            while left:
                left -= len(await reader.read(1 << 20))
            await until(lambda: drained)
            assert drained == [session]
            assert session.backlog_bytes <= OUTBOX_LOW_BYTES
            assert not session.closing

    on_loop(main())


def test_much_that_the_socket_takes_at_once_is_said_to_have_drained(running, on_loop, monkeypatch):
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECE_BYTES", 8000)
    monkeypatch.setattr("jetstream_server.net.client_connection.OUTBOX_LOW_BYTES", 8000)

    async def main():
        async with running() as served:
            reader, _ = await served.connect()
            ((session, connection),) = served.pump.connections.items()
            drained = []
            served.node.drained = drained.append
            session.send(b"PING\r\n" * 100)
            connection.write_output()
            assert drained == []
            session.send(b"PING\r\n" * 2000)
            connection.write_output()
            assert drained == [session]
            assert await reader.readexactly(6 * 2100) == b"PING\r\n" * 2100

    on_loop(main())


def test_little_is_counted_until_it_has_left_and_waits_for_a_full_socket(running, on_loop):
    async def main():
        async with running() as served:
            plug, connection = Plug(), ClientConnection(served.pump)
            connection.connection_made(plug)
            session, drained = next(reversed(served.pump.connections)), []
            served.node.drained = drained.append
            connection.write_output()
            greeting = len(plug.written)

            def write(data: bytes, held_bytes: int) -> tuple[bytes, int]:
                plug.held_bytes = held_bytes
                session.send(data)
                connection.write_output()
                return plug.written[greeting:], session.outbox.backlog_bytes

            assert write(b"a", 0) == (b"a", 0)
            assert write(b"b", 1) == (b"ab", 1)
            connection.pause_writing()
            assert write(b"c", 1) == (b"ab", 2)
            connection.resume_writing()
            assert write(b"d", 0) == (b"abcd", 0)
            write(bytes(2 * OUTBOX_LOW_BYTES), 2 * OUTBOX_LOW_BYTES)
            assert drained == []
            assert write(b"e", 1)[1] == 1
            assert drained == [session]
            connection.connection_lost(None)

    on_loop(main())


def test_it_is_written_to_in_pieces_and_all_of_it_in_order(running, until, on_loop):
    async def main():
        async with running(max_pending=64 << 20) as served:
            reader, writer = await served.connect()
            ((session, connection),) = served.pump.connections.items()
            writer.transport.pause_reading()
            expected = [b"%03d\r\n" % number * 20_000 for number in range(300)]
            for part in expected:
                session.send(part)
            unsent = session.outbox.unsent_bytes
            assert 0 < connection.write_output() < unsent / 5
            await until(lambda: connection._is_full)
            assert connection._transport.get_write_buffer_size() < unsent / 10
            for _ in range(3):  # turns
                other_reader, other = await served.connect()
                other.write(b"PING\r\n")
                await other_reader.readuntil(b"PONG\r\n")
            assert session not in served.node.touched, "who does not read is not looked at again"
            assert connection.write_output() == 0
            writer.transport.resume_reading()
            assert await reader.readexactly(unsent) == b"".join(expected)
            assert session.outbox.unsent_bytes == 0
            # How much the socket had of it is known from when there was room for more.
            assert session.backlog_bytes < 256 * 1024

    on_loop(main())


@pytest.mark.parametrize("ends", ["client", "server"])
def test_what_is_left_when_it_ends_is_written(running, until, on_loop, ends):
    async def main():
        async with running(max_pending=64 << 20) as served:
            reader, writer = await served.connect()
            ((session, connection),) = served.pump.connections.items()
            writer.transport.pause_reading()
            for _ in range(300):  # more than the sockets hold
                session.send(b"PING\r\n" * 15_000)
            unsent = session.outbox.unsent_bytes
            connection.write_output()
            await until(lambda: connection._is_full)
            if ends == "server":
                connection.close()
            else:
                writer.write(b"NOPE\r\n")
                await until(lambda: session.cid not in served.node.sessions)
                assert connection._transport.get_write_buffer_size() < 256 * 1024
                writer.write_eof()  # which is not heard before it has taken all
                connection.resume_reading()
                await served.connect()
            writer.transport.resume_reading()
            said = await reader.read(-1)
            assert said[:unsent] == b"PING\r\n" * 4_500_000
            told = b"-ERR 'Unknown Protocol Operation'\r\n" if ends == "client" else b""
            assert said[unsent:] == told

    on_loop(main())


def test_a_vanished_client_leaves_nothing_behind(running, until, on_loop):
    async def main():
        async with running() as served:
            _, writer = await served.connect()
            writer.write(b"SUB a 1\r\n")
            await writer.drain()
            writer.transport.abort()
            await until(lambda: not served.node.sessions)
            assert not served.pump.connections
            assert served.node.accounts["$G"].sublist.count == 0

    on_loop(main())


def test_a_closing_connection_that_is_not_read_ends_all_the_same(running, until, on_loop):
    async def main():
        async with running() as served:
            slow_reader, slow = await served.connect()
            slow.write(b"SUB a 1\r\nPING\r\n")
            await slow_reader.readuntil(b"PONG\r\n")
            slow.transport.pause_reading()
            (session,) = served.node.sessions.values()
            connection = served.pump.connections[session]
            _, fast = await served.connect()
            frame = b"PUB a 500000\r\n" + b"x" * 500_000 + b"\r\n"
            while not connection._transport.get_write_buffer_size():
                fast.write(frame)
                await fast.drain()
                await asyncio.sleep(0)
            served.node.options = replace(served.node.options, write_deadline_ns=300 * MILLISECOND)
            slow.write(b"NOPE\r\n")
            await until(lambda: session not in served.pump.connections)
            assert session.closing == "Protocol Violation"
            assert session.cid not in served.node.sessions

    on_loop(main())


@pytest.mark.parametrize("ends", ["time", "client"])
def test_what_was_not_taken_is_freed_when_there_is_time(running, until, on_loop, monkeypatch, ends):
    """Sixty clients with 40 MB each, of whom the time was over, kept others waiting for 43 ms."""
    monkeypatch.setattr("jetstream_server.net.departures.BYTES_OF_PART", 100_000)

    async def main():
        options = {"write_deadline_ns": 300 * MILLISECOND} if ends == "time" else {}
        async with running(max_pending=64 << 20, **options) as served:
            clients = [await served.connect() for _ in range(3)]
            sessions = list(served.node.sessions.values())
            connections = [served.pump.connections[session] for session in sessions]
            for _, writer in clients:
                writer.transport.pause_reading()
            for session in sessions:
                for _ in range(100):
                    session.send(b"+OK\r\n" * 20_000)
            for _, writer in clients:
                writer.write(b"NOPE\r\n")
            await until(lambda: not served.node.sessions)
            assert all(session.outbox.held_bytes > 5_000_000 for session in sessions)
            freed = [0]  # before each turn
            turned = served.pump.departures.turned

            def count() -> None:
                freed.append(sum(not session.outbox.held_bytes for session in sessions))

            def turns(**busy: bool) -> None:
                count()
                turned(**busy)

            served.pump.departures.turned = turns
            if ends == "client":
                for _, writer in clients:
                    writer.transport.abort()
            await until(lambda: not any(session.outbox.held_bytes for session in sessions))
            count()
            assert freed[-1] == 3
            assert all(after - before <= 1 for before, after in pairwise(freed)), "one in a turn"
            await until(lambda: not served.pump.connections)
            assert all(connection._transport.is_closing() for connection in connections)

    on_loop(main())


def test_who_is_being_closed_has_no_part_in_a_queue_any_more(running, until, on_loop):
    """Although what is on its way to it may take a while."""

    async def main():
        async with running() as served:
            slow_reader, slow = await served.connect()
            slow.write(b"SUB a 1\r\nSUB jobs workers 2\r\nPING\r\n")
            await slow_reader.readuntil(b"PONG\r\n")
            slow.transport.pause_reading()
            (session,) = served.node.sessions.values()
            connection = served.pump.connections[session]
            reader, other = await served.connect()
            frame = b"PUB a 500000\r\n" + b"x" * 500_000 + b"\r\n"
            while not connection._transport.get_write_buffer_size():
                other.write(frame)
                await other.drain()
                await asyncio.sleep(0)
            slow.write(b"NOPE\r\n")
            await until(lambda: session.closing)
            await until(lambda: not session.subscriptions)
            assert session in served.pump.connections  # the rest is on its way
            assert session.cid not in served.node.sessions
            other.write(b"SUB jobs workers 1\r\n" + b"PUB jobs 1\r\nx\r\n" * 20 + b"PING\r\n")
            said = await reader.readuntil(b"PONG\r\n")
            assert said.count(b"MSG jobs 1 1\r\n") == 20
            (closed,) = served.node.closed
            assert closed.reason == "Protocol Violation"

    on_loop(main())


def test_a_lame_duck_lets_go_of_who_knocked_before(running, until, on_loop):
    async def main():
        async with running() as served:
            served.node.enter_lame_duck(served.pump.clock.now())
            reader, _ = await asyncio.open_connection("127.0.0.1", served.port)
            assert (await reader.read()).startswith(b"INFO ")
            await until(lambda: not served.pump.connections)

    on_loop(main())
