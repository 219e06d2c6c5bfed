"""Who is read from: fair shares, and publishers that are faster than the disk."""

from __future__ import annotations

import asyncio
import os
import threading
from random import Random

import pytest
from jetstream_server.base.limits import (
    OUTBOX_HIGH_BYTES,
    TURN_READ_BYTES,
    UNFLUSHED_HIGH_BYTES,
    UNFLUSHED_LOW_BYTES,
    UNFLUSHED_MUCH_BYTES,
    UNFLUSHED_SHARE_BYTES,
)
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.net import intake as intake_module
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.intake import Intake
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault

from tests.node_context import node_context
from tests.server.net.plug import Plug

READ_BYTES = 256 * 1024


class Source:
    """A connection that counts how often it is paused and resumed."""

    def __init__(self) -> None:
        self.published = 0
        self.has_postponed = False
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
    intake.took(source, size, source.published)
    source.published += 1


def test_a_share_of_the_turn(intake: Intake) -> None:
    busy, quiet = Source(), Source()
    intake.took(quiet, 10, quiet.published)
    intake.took(busy, TURN_READ_BYTES - 1, busy.published)
    assert busy.is_read
    intake.took(busy, 1, busy.published)
    intake.took(busy, 1, busy.published)  # a read that was under way
    assert (busy.is_read, quiet.is_read) == (False, True)
    intake.turned(0)
    assert busy.is_read


def test_publishers_wait_for_the_disk_and_nobody_else(intake: Intake) -> None:
    busy, slow, listener = Source(), Source(), Source()
    publish(intake, busy, TURN_READ_BYTES)
    publish(intake, slow, 1)
    intake.took(listener, 100, listener.published)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert [source.is_read for source in (busy, slow, listener)] == [False, False, True]
    intake.turned(UNFLUSHED_HIGH_BYTES - 1)
    intake.flushed(UNFLUSHED_LOW_BYTES)
    assert not busy.is_read
    assert not slow.is_read
    intake.flushed(UNFLUSHED_LOW_BYTES - 1)
    assert busy.is_read
    assert slow.is_read


def test_who_sends_little_does_not_wait_for_who_sends_much(intake: Intake) -> None:
    busy, little = Source(), Source()
    publish(intake, busy, UNFLUSHED_SHARE_BYTES + 1)
    publish(intake, little, UNFLUSHED_SHARE_BYTES)
    intake.turned(UNFLUSHED_MUCH_BYTES)
    assert busy.is_read and little.is_read
    publish(intake, busy, 1)
    intake.turned(UNFLUSHED_MUCH_BYTES + 1)
    assert not busy.is_read, "what it sent before counts"
    publish(intake, little, 1)
    intake.turned(UNFLUSHED_MUCH_BYTES + 1)
    assert not little.is_read, "it has sent more than its share by now"
    intake.flushed(UNFLUSHED_LOW_BYTES - 1)
    assert busy.is_read and little.is_read
    publish(intake, busy, 1)
    intake.turned(UNFLUSHED_HIGH_BYTES)
    assert busy.is_read, "what was sent before the disk had little to do does not count"
    publish(intake, busy, 1)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert not busy.is_read, "here nobody is let through"


def test_what_is_counted_is_forgotten_without_anybody_held_up(intake: Intake) -> None:
    source = Source()
    publish(intake, source, UNFLUSHED_SHARE_BYTES)
    intake.turned(UNFLUSHED_LOW_BYTES)
    intake.turned(UNFLUSHED_LOW_BYTES - 1)
    publish(intake, source, 1)
    intake.turned(UNFLUSHED_MUCH_BYTES + 1)
    assert source.is_read
    intake.forget(source)
    assert not intake._sent_bytes


def test_both_reasons_at_once(intake: Intake) -> None:
    source = Source()
    publish(intake, source, 1)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    publish(intake, source, TURN_READ_BYTES)  # a read that was under way
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert not source.is_read
    intake.flushed(0)
    assert source.is_read


def test_who_asks_for_more_than_it_takes_waits(intake: Intake) -> None:
    greedy, other = Source(), Source()
    greedy.has_postponed = True
    intake.took(greedy, TURN_READ_BYTES, greedy.published)
    intake.took(other, TURN_READ_BYTES, other.published)
    intake.turned(0)
    assert (greedy.is_read, other.is_read) == (False, True)
    intake.turned(0)
    assert not greedy.is_read
    greedy.has_postponed = False
    intake.turned(0)
    assert greedy.is_read


def test_who_asks_and_publishes_waits_for_the_disk_first(intake: Intake) -> None:
    source = Source()
    source.has_postponed = True
    publish(intake, source, 1)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert not source.is_read
    intake.flushed(0)
    assert source.is_read
    intake.took(source, 1, source.published)
    intake.turned(0)
    assert not source.is_read
    publish(intake, source, 1)  # a read that was under way
    source.has_postponed = False
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    assert not source.is_read
    intake.flushed(0)
    assert source.is_read


def test_a_connection_that_is_gone_is_forgotten(intake: Intake) -> None:
    source, greedy = Source(), Source()
    publish(intake, source, TURN_READ_BYTES)
    intake.forget(source)
    greedy.has_postponed = True
    intake.took(greedy, 1, greedy.published)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    greedy.has_postponed = False
    intake.forget(greedy)
    intake.turned(UNFLUSHED_HIGH_BYTES + 1)
    intake.flushed(0)
    assert not source.is_read
    assert not greedy.is_read


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
                source.has_postponed = random.random() < 0.2
        if random.random() < 0.5:
            intake.turned(unflushed)
        else:
            unflushed = random.choice((0, unflushed // 2))
            intake.flushed(unflushed)
            for source in sources:
                source.has_postponed &= random.random() < 0.5
    for source in sources:
        source.has_postponed = False
    intake.turned(0)
    intake.flushed(0)
    assert all(source.is_read for source in sources)


class Transport:
    """A socket that always has more to read, read as libuv does: on and on until it is paused."""

    def __init__(self, served, sends: bytes, plug: Plug | None = None) -> None:
        self.connection = ClientConnection(served.pump)
        self.sends = sends
        self.plug = plug or Plug()
        self.read_bytes = 0
        self.connection.connection_made(self.plug)
        self.connection.data_received(b'CONNECT {"verbose":false,"pedantic":false}\r\n')

    def readable(self) -> None:
        for _ in range(32):
            if self.plug.is_paused:
                return
            self.read_bytes += len(self.sends)
            self.connection.data_received(self.sends)

    def close(self) -> None:
        self.connection.connection_lost(None)


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
                assert quiet.plug.written.endswith(b"PONG\r\n")
                quiet.plug.written = b""
            flood.close()
            quiet.close()

    on_loop(main())


class SlowCommit:
    """A queue to a disk that is stuck until the test lets it go on."""

    is_stalled = False
    lazily_ns = 0
    is_crowded = False
    full = None
    stalled = ()

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.awaited_bytes = 0
        self.is_quick = False

    @property
    def has_fresh(self):
        return False

    def write_through(self, now):
        return False

    def take(self, now=None):
        return self if self.awaited_bytes else None

    def only_write(self):
        return None

    def run(self):
        assert self.gate.wait(100)
        return []

    def complete(self, flush) -> None:
        self.awaited_bytes = 0

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
            commit.awaited_bytes = UNFLUSHED_HIGH_BYTES + 1
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
            assert await asyncio.wait_for(quiet_reader.readline(), 60) == b"PONG\r\n"
            commit.gate.set()
            await writer.drain()
            writer.write(b"PING\r\n")
            assert await asyncio.wait_for(reader.readline(), 60) == b"PONG\r\n"

    on_loop(main())


class StepWorker:
    """Carries out flushes when the test says so."""

    def __init__(self) -> None:
        self.given = None

    def run(self, work, done) -> None:
        assert self.given is None, "one flush at a time"
        self.given = work, done

    def write(self, handle, buffer, start, stop, done) -> None:
        def work():
            os.pwrite(handle, memoryview(buffer)[start:stop], start)
            return 0, 0

        self.run(work, lambda errnos, error: done(*errnos))

    def finish(self) -> None:
        work, done = self.given  # type: ignore[attr-defined]
        self.given = None
        done(work(), None)

    def stop(self) -> None: ...


@pytest.fixture
def with_stream(running, tmp_path):
    """Return a maker of served nodes that have a stream of `in.>`, and flush step by step."""

    async def make():
        commit = GroupCommit(OsDisk())
        served = await running(commit).__aenter__()
        served.pump._worker.stop()
        served.pump._worker = worker = StepWorker()
        account = served.node.accounts["$G"]
        context = node_context(served.node, account)
        account.catalog = Catalog(context, FileVault(tmp_path, "$G", commit, OsDisk()))
        account.catalog.recover(1)
        Api(account.catalog).subscribe()
        admin = Transport(served, b"")
        body = b'{"name":"S","subjects":["in.>"],"storage":"file"}'
        request = b"PUB $JS.API.STREAM.CREATE.S r %d\r\n%b\r\n" % (len(body), body)
        admin.connection.data_received(b"SUB r 1\r\n" + request)
        served.pump._turn()
        while b'"did_create":true' not in admin.plug.written:
            worker.finish()
        while worker.given:
            worker.finish()
        return served, worker, commit

    return make


def test_a_quiet_publisher_beside_a_flood_waits_for_two_bounded_flushes(
    with_stream, on_loop, monkeypatch
):
    """The disk takes one flush while the flooding client could fill four: what is queued stays
    bounded, and an ack of the other client takes the flush under way and its own, never more."""
    high = 4 * TURN_READ_BYTES
    monkeypatch.setattr(intake_module, "UNFLUSHED_HIGH_BYTES", 2 * high)
    monkeypatch.setattr(intake_module, "UNFLUSHED_MUCH_BYTES", high)
    monkeypatch.setattr(intake_module, "UNFLUSHED_LOW_BYTES", high // 4)

    async def main():
        served, worker, commit = await with_stream()
        frame = b"PUB in.flood 1000\r\n" + b"x" * 1000 + b"\r\n"
        flood = Transport(served, frame * (READ_BYTES // len(frame)))
        quiet = Transport(served, b"")
        quiet.connection.data_received(b"SUB acks 1\r\n")
        unflushed_max = flushes_max = paused = 0
        for _ in range(12):
            quiet.plug.written = b""
            quiet.connection.data_received(b"PUB in.quiet acks 2\r\nhi\r\n")
            flushes = 0
            while b'"stream":"S"' not in quiet.plug.written:
                for _ in range(4):
                    flood.readable()
                    served.pump._turn()
                    paused += flood.plug.is_paused
                    assert not quiet.plug.is_paused
                    unflushed_max = max(unflushed_max, commit.awaited_bytes)
                worker.finish()
                flushes += 1
            flushes_max = max(flushes_max, flushes)
        assert flushes_max <= 2
        assert paused
        # A turn's share may come on top, and the records are longer than the frames.
        assert high < unflushed_max < 1.1 * (high + TURN_READ_BYTES + READ_BYTES)
        while worker.given:
            worker.finish()
        flood.close()
        quiet.close()
        served.close()

    on_loop(main())


def test_a_consumer_that_does_not_read_holds_a_bounded_backlog(with_stream, on_loop):
    async def main():
        served, worker, _ = await with_stream()
        frame = b"PUB in.a 1000\r\n" + b"x" * 1000 + b"\r\n"
        flood = Transport(served, frame * (READ_BYTES // len(frame)))
        for _ in range(24):
            flood.readable()
            served.pump._turn()
            if worker.given:
                worker.finish()
        while worker.given:
            worker.finish()
        stored = served.node.accounts["$G"].catalog.streams["S"].store.state().bytes
        assert stored > 2 * OUTBOX_HIGH_BYTES
        stuck = Transport(served, b"", unread := UnreadPlug())
        pull = b'{"batch":1000000,"no_wait":true}'
        make = b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"none"}}'
        stuck.connection.data_received(
            b"SUB got 1\r\nPUB $JS.API.CONSUMER.CREATE.S.C made %d\r\n%b\r\n" % (len(make), make)
        )
        served.pump._turn()
        while worker.given:
            worker.finish()
        stuck.connection.data_received(
            b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C got %d\r\n%b\r\n" % (len(pull), pull)
        )
        for _ in range(50):
            served.pump._turn()
            if worker.given:  # the consumer's state, now and then: deliveries wait for it as well
                worker.finish()
        assert not served.node.stats.slow_consumers
        assert OUTBOX_HIGH_BYTES / 2 < unread.held < 2 * OUTBOX_HIGH_BYTES
        delivered = 0
        for _ in range(200):  # it reads again: the rest comes, as fast as it reads
            delivered, unread.held = delivered + unread.held, 0
            stuck.connection.resume_writing()
            served.pump._turn()
            if worker.given:
                worker.finish()
            assert unread.held < 2 * OUTBOX_HIGH_BYTES
        assert delivered + unread.held > stored - OUTBOX_HIGH_BYTES
        flood.close()
        stuck.close()
        served.close()

    on_loop(main())


class UnreadPlug(Plug):
    """One whose other end does not read: what is written stays in the buffer."""

    held = 0

    def write(self, data: bytes) -> None:
        self.held += len(data)

    def get_write_buffer_size(self) -> int:
        return self.held
