"""Who is read from: fair shares, and publishers that are faster than the disk."""

from __future__ import annotations

import asyncio
import threading
from random import Random

import pytest
from jetstream_server.base.limits import (
    TURN_READ_BYTES,
    UNFLUSHED_HIGH_BYTES,
    UNFLUSHED_LOW_BYTES,
)
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.intake import Intake

READ_BYTES = 256 * 1024


class Source:
    """A connection that counts how often it is paused and resumed."""

    def __init__(self) -> None:
        self.published = 0
        self.is_read = True

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True


@pytest.fixture
def intake() -> Intake:
    return Intake()


def publish(intake: Intake, source: Source, size: int) -> None:
    intake.took(source, size)
    source.published += 1


def test_a_share_of_the_turn(intake: Intake) -> None:
    busy, quiet = Source(), Source()
    intake.took(quiet, 10)
    intake.took(busy, TURN_READ_BYTES - 1)
    assert busy.is_read
    intake.took(busy, 1)
    intake.took(busy, 1)  # a read that was under way
    assert (busy.is_read, quiet.is_read) == (False, True)
    intake.turned(0)
    assert busy.is_read


def test_publishers_wait_for_the_disk_and_nobody_else(intake: Intake) -> None:
    busy, slow, listener = Source(), Source(), Source()
    publish(intake, busy, TURN_READ_BYTES)
    publish(intake, slow, 1)
    intake.took(listener, 100)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert [source.is_read for source in (busy, slow, listener)] == [False, False, True]
    intake.turned(UNFLUSHED_HIGH_BYTES - 1)
    intake.flushed(UNFLUSHED_LOW_BYTES)
    assert not busy.is_read
    assert not slow.is_read
    intake.flushed(UNFLUSHED_LOW_BYTES - 1)
    assert busy.is_read
    assert slow.is_read


def test_both_reasons_at_once(intake: Intake) -> None:
    source = Source()
    publish(intake, source, 1)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    publish(intake, source, TURN_READ_BYTES)  # a read that was under way
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert not source.is_read
    intake.flushed(0)
    assert source.is_read


def test_a_connection_that_is_gone_is_forgotten(intake: Intake) -> None:
    source = Source()
    publish(intake, source, TURN_READ_BYTES)
    intake.forget(source)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    intake.flushed(0)
    assert not source.is_read


@pytest.mark.parametrize("seed", range(20))
def test_whoever_is_paused_is_resumed(intake: Intake, seed: int) -> None:
    random = Random(seed)
    sources = [Source() for _ in range(4)]
    unflushed = 0
    for _ in range(200):
        for source in sources:
            if source.is_read and random.random() < 0.7:
                size = random.choice((1, TURN_READ_BYTES // 2, TURN_READ_BYTES))
                publish(intake, source, size)
                unflushed += size * random.choice((1, 16))
        if random.random() < 0.5:
            intake.turned(unflushed)
        else:
            unflushed = random.choice((0, unflushed // 2))
            intake.flushed(unflushed)
    intake.turned(0)
    intake.flushed(0)
    assert all(source.is_read for source in sources)


class Transport:
    """A socket that always has more to read, read as libuv does: on and on until it is paused."""

    def __init__(self, served, sends: bytes) -> None:
        self.connection = ClientConnection(served.pump)
        self.sends = sends
        self.is_paused = False
        self.read_bytes = 0
        self.written = b""
        self.connection.connection_made(self)
        self.connection.data_received(b'CONNECT {"verbose":false,"pedantic":false}\r\n')

    def readable(self) -> None:
        for _ in range(32):
            if self.is_paused:
                return
            self.read_bytes += len(self.sends)
            self.connection.data_received(self.sends)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.connection.connection_lost(None)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str):
        return ("127.0.0.1", 1)


def test_a_quiet_client_waits_for_one_share_of_a_flood(running, on_loop):
    async def main():
        async with running() as served:
            frame = b"PUB flood 1000\r\n" + b"x" * 1000 + b"\r\n"
            flood = Transport(served, frame * (READ_BYTES // len(frame)))
            quiet = Transport(served, b"PING\r\n")
            served.pump._turn()
            for _ in range(10):
                before = flood.read_bytes
                flood.readable()
                quiet.connection.data_received(b"PING\r\n")
                served.pump._turn()
                assert 0 < flood.read_bytes - before < TURN_READ_BYTES + READ_BYTES
                assert quiet.written.endswith(b"PONG\r\n")
                quiet.written = b""
            flood.close()
            quiet.close()

    on_loop(main())


class SlowCommit:
    """A queue to a disk that is stuck until the test lets it go on."""

    is_stalled = False
    full = None
    stalled = ()

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.unflushed_bytes = 0
        self.is_quick = False

    def take(self, now=None):
        return self if self.unflushed_bytes else None

    def run(self):
        assert self.gate.wait(10)
        return []

    def settle(self, flush) -> None:
        self.unflushed_bytes = 0

    def next_deadline(self):
        return None

    def drain(self):
        return []


def test_a_flood_stays_in_the_socket_while_the_disk_is_stuck(running, on_loop):
    async def main():
        commit = SlowCommit()
        async with running(commit) as served:
            reader, writer = await served.connect()
            session = next(iter(served.node.sessions.values()))
            frame = b"PUB flood 1000\r\n" + b"x" * 1000 + b"\r\n"
            commit.unflushed_bytes = UNFLUSHED_HIGH_BYTES + 1
            flood = frame * (READ_BYTES // len(frame))
            writer.transport.set_write_buffer_limits(high=READ_BYTES)
            stuck = False
            for _ in range(200):
                writer.write(flood)
                try:
                    await asyncio.wait_for(writer.drain(), 1)
                except TimeoutError:
                    stuck = True
                    break
            taken = session.traffic.in_bytes
            assert stuck
            assert taken < 32 * TURN_READ_BYTES
            quiet_reader, quiet = await served.connect()  # others are served meanwhile
            quiet.write(b"PING\r\n")
            assert await asyncio.wait_for(quiet_reader.readline(), 5) == b"PONG\r\n"
            commit.gate.set()
            await writer.drain()
            writer.write(b"PING\r\n")
            assert await asyncio.wait_for(reader.readline(), 5) == b"PONG\r\n"

    on_loop(main())
