"""The turn: what waits for the disk, group commit, and what a broken disk means."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from types import SimpleNamespace

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.base.limits import UNFLUSHED_LOW_BYTES
from jetstream_server.core.promises import PROMISED_UNITS_MAX
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.pump import AFTER_FLUSH_OF_ONE_BYTES_MAX, WRITTEN_NS
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault, MemoryVault

from tests.node_context import node_context


class HeldFlush:
    """A flush that ends when the test says so."""

    is_quick = False

    def __init__(self, commit: HeldCommit) -> None:
        self.commit = commit
        self.stalled: list[object] = []

    def only_write(self):
        return None

    def run(self):
        assert self.commit.gate.wait(100)
        self.stalled = self.commit.stalled
        return self.commit.failures


class HeldCommit:
    """A queue to a disk that a test holds back."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.failures: list[tuple[object, StoreError]] = []
        self.stalled: list[SimpleNamespace] = []  # operations that are refused
        self.dirty = 0
        self.flushes = 0
        self.settled = 0
        self.lazily_ns = 1
        self.is_stalled = False
        self.is_crowded = False
        self.is_through = False  # the next write goes past the queue
        self.full = None
        self.awaited_bytes = 0

    @property
    def has_fresh(self):
        return bool(self.dirty)

    def write_through(self, now):
        is_through, self.is_through = self.is_through, False
        self.dirty += is_through  # who learns that it was written queues something more
        return is_through

    def take(self, now=None):
        if not self.dirty:
            return None
        self.dirty = 0
        self.flushes += 1
        return HeldFlush(self)

    def complete(self, flush) -> None:
        self.gate.clear()
        self.settled += 1

    def next_deadline(self):
        return None

    def drain(self):
        return []


class News:
    """A client that listens to `news` of a served node whose disk is held back."""

    def __init__(self, served, commit, reader, writer) -> None:
        self.served = served
        self.commit = commit
        self.reader = reader
        self.writer = writer

    def publish(self, payload: bytes, *, stored: bool = True) -> None:
        """Have a message sent after the flush of what is stored with it."""
        self.commit.dirty += stored
        self.served.node.accounts["$G"].output.publish(b"news", payload)
        self.served.pump.wake()

    async def heard(self, seconds: float = 60) -> bytes:
        """Return the next line, empty if none comes in that time."""
        try:
            return await asyncio.wait_for(self.reader.readline(), seconds)
        except TimeoutError:
            return b""

    def make_streams(self) -> None:
        """Make stream F on the disk, and M in memory; where they are kept plays no part."""
        node = self.served.node
        account = node.accounts["$G"]
        context = node_context(node, account)
        account.catalog = Catalog(context, MemoryVault())
        for name, storage in (("F", "file"), ("M", "memory")):
            account.catalog.create(StreamConfig(name=name, storage=storage), 1)

    async def turn(self) -> None:
        """Wait until the node has seen all that went before: core answers wait for no disk."""
        self.writer.write(b"PING\r\n")
        assert await self.heard() == b"PONG\r\n"


@pytest.fixture
def listening(running):
    @contextlib.asynccontextmanager
    async def listening():
        commit = HeldCommit()
        async with running(commit) as served:
            news = News(served, commit, *await served.connect())
            news.writer.write(b"SUB news 1\r\n")
            await news.turn()
            yield news

    return listening


def test_what_waits_for_the_disk_leaves_after_the_flush(listening, until, on_loop):
    async def main():
        async with listening() as news:
            news.publish(b"1")
            await until(lambda: news.commit.flushes == 1)
            await news.turn()
            assert await news.heard(0.05) == b""
            news.commit.gate.set()
            assert await news.heard() == b"MSG news 1 1\r\n"

    on_loop(main())


def test_what_a_write_past_the_queue_sets_off_is_flushed_without_waiting(listening, until, on_loop):
    async def main():
        async with listening() as news:
            news.commit.is_through = True
            news.served.pump._turn()
            assert news.served.pump.is_turn_due
            await until(lambda: news.commit.flushes == 1)
            news.commit.gate.set()

    on_loop(main())


def test_one_flush_covers_all_that_came_while_the_last_one_ran(listening, until, on_loop):
    async def main():
        async with listening() as news:
            for number in range(20):
                news.publish(b"%d" % number)
                await news.turn()
            assert news.commit.flushes == 1
            for done in (1, 2):
                news.commit.gate.set()
                await until(lambda done=done: news.commit.settled == done)
            got = [await news.heard() for _ in range(40)]
            assert got[1::2] == [b"%d\r\n" % number for number in range(20)]
            assert news.commit.flushes == 2

    on_loop(main())


def test_it_stops_although_each_flush_is_followed_by_the_next(listening, until, on_loop):
    """Streams that copy to one another kept a server from stopping."""

    async def main():
        async with listening() as news:
            commit = news.commit
            commit.complete = lambda flush: setattr(commit, "dirty", 1)
            commit.gate.set()
            news.publish(b"1")
            await until(lambda: commit.flushes > 3)
            news.publish(b"last")
        assert [line async for line in news.reader][1::2][-1] == b"last\r\n"

    on_loop(main())


def test_whoever_waits_for_what_it_asked_for_does_not_wait_for_a_full_disk(
    listening, until, on_loop
):
    async def main():
        async with listening() as news:
            commit, promises = news.commit, news.served.node.workload.promises

            def promise():
                promises.make(PROMISED_UNITS_MAX + 1, "an account")
                promises.made_for("a client")
                assert promises.holds_up("a client")

            promise()
            news.publish(b"1")
            await until(lambda: commit.flushes == 1)
            assert promises.holds_up("a client")
            commit.is_stalled = True
            commit.gate.set()
            await until(lambda: commit.settled == 1)
            await news.turn()
            assert not promises.holds_up("a client")
            promise()
            await news.turn()
            assert not promises.holds_up("a client")
            commit.is_stalled = False

    on_loop(main())


def test_core_messages_do_not_wait_for_the_disk(listening, until, on_loop):
    async def main():
        async with listening() as news:
            news.publish(b"later")
            await until(lambda: news.commit.flushes == 1)
            news.writer.write(b"SUB a 2\r\nPUB a 1\r\nx\r\n")
            assert await news.heard() == b"MSG a 2 1\r\n"
            news.commit.gate.set()

    on_loop(main())


def test_a_failed_flush_releases_nothing(listening, until, on_loop):
    async def main():
        async with listening() as news:
            news.commit.failures = [(object(), StoreError("write failed"))]
            news.publish(b"lost")
            news.commit.gate.set()
            await until(lambda: news.commit.settled == 1)
            news.commit.failures = []
            news.publish(b"next", stored=False)
            assert await news.heard() == b"MSG news 1 4\r\n"
            assert await news.heard() == b"next\r\n"

    on_loop(main())


def test_what_was_held_back_during_a_failed_flush_is_dropped_too(listening, until, on_loop):
    async def main():
        async with listening() as news:
            news.commit.failures = [(object(), StoreError("sync failed"))]
            news.publish(b"lost")
            await until(lambda: news.commit.flushes == 1)
            # The ack of a message that went down with the stream: nothing is queued for it now.
            news.publish(b"lost as well", stored=False)
            await news.turn()
            news.commit.gate.set()
            await until(lambda: news.commit.settled == 1)
            news.commit.failures = []
            news.publish(b"next", stored=False)
            assert await news.heard() == b"MSG news 1 4\r\n"
            assert await news.heard() == b"next\r\n"

    on_loop(main())


def test_what_waited_for_a_full_disk_leaves_with_the_removal_of_what_it_refused(
    listening, until, on_loop
):
    """It was neither sent nor dropped, and others' acks were lost with it."""

    async def main():
        async with listening() as news:
            commit, owner = news.commit, object()
            news.publish(b"1")
            await until(lambda: commit.flushes == 1)
            # The stream is removed while the disk refuses it, so that nothing is to be tried again.
            commit.failures = [(owner, StoreError("no space left on device"))]
            commit.stalled = [SimpleNamespace(owner=owner)]
            commit.dirty = 1
            commit.gate.set()
            await until(lambda: commit.flushes == 2)
            assert await news.heard(0.05) == b""
            commit.failures, commit.stalled = [], []
            commit.gate.set()
            assert await news.heard() == b"MSG news 1 1\r\n"
            assert news.served.node._held_count == 0

    on_loop(main())


@pytest.mark.parametrize("fails", [False, True])
def test_publishers_to_a_stream_in_memory_do_not_wait_for_the_disk(
    listening, until, on_loop, fails
):
    async def main():
        async with listening() as news:
            news.make_streams()
            news.commit.failures = [(object(), StoreError("write failed"))] * fails
            news.publish(b"later")
            await until(lambda: news.commit.flushes == 1)
            news.writer.write(b"SUB acks 2\r\nPUB F acks 1\r\nx\r\nPUB M acks 1\r\nx\r\n")
            assert (await news.heard()).startswith(b"MSG acks 2 ")
            assert await news.heard() == b'{"stream":"M","seq":1}\r\n'
            await news.turn()
            news.commit.gate.set()
            await until(lambda: news.commit.settled == 1)
            news.writer.write(b"PUB M acks 1\r\nx\r\n")
            got = [await news.heard() for _ in range(2 if fails else 6)]
            acked = [b'{"stream":"F","seq":1}\r\n', b'{"stream":"M","seq":2}\r\n']
            assert got[1::2] == (acked[1:] if fails else [b"later\r\n", *acked])

    on_loop(main())


def test_what_is_written_to_many_takes_turns(running, until, on_loop, monkeypatch):
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECE_BYTES", 8_000)
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECES_BYTES_MAX", 16_000)
    monkeypatch.setattr("jetstream_server.net.pump.WRITTEN_BYTES_MAX", 32_000)

    async def main() -> None:
        async with running() as served:
            pump, shares, taken = served.pump, [], []
            write = pump._write

            def counted(now: int, *bounds: int) -> None:
                taken.clear()
                write(now, *bounds)
                if taken:
                    shares.append([*taken])

            monkeypatch.setattr(pump, "_write", counted)
            clients = [await served.connect() for _ in range(5)]
            hand_over = ClientConnection._write

            def handed_over(connection: ClientConnection, data: bytes) -> None:
                taken.append(len(data))
                hand_over(connection, data)

            monkeypatch.setattr(ClientConnection, "_write", handed_over)
            for session in served.node.sessions.values():
                for _ in range(1 if session.cid == 5 else 16):
                    session.outbox.put(b"+OK\r\n" * (1 if session.cid == 5 else 400))
                served.node.note_output(session)
            pump.wake()
            for reader, _ in clients[:4]:
                assert await reader.readexactly(32_000)
            assert await clients[4][0].readexactly(5) == b"+OK\r\n"
            pair = [8_000] * 4
            assert shares == [[*pair, 5], pair, pair, pair]
            assert not served.node.touched

    on_loop(main())


@pytest.mark.parametrize("piece_bytes", [8_000, 4_000, 3_000])
def test_what_takes_long_to_write_leaves_the_others_to_the_next_turn(
    running, on_loop, monkeypatch, piece_bytes
):
    """Four megabytes take 7 ms, and took 28 where the system had yet to find memory for them."""
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECE_BYTES", piece_bytes)
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECES_BYTES_MAX", piece_bytes)
    monkeypatch.setattr("jetstream_server.net.pump.WRITTEN_TIMED_BYTES_MIN", 8_000)

    async def main() -> None:
        async with running() as served:
            pump, shares, taken, ns = served.pump, [], [], 0
            clients = [await served.connect() for _ in range(5)]
            write, hand_over, begun = pump._write, ClientConnection._write, pump.clock.now()

            class Clock:
                def now(self) -> int:
                    return begun + ns

            def counted(now: int, *bounds: int) -> None:
                taken.clear()
                write(now, *bounds)
                if taken:
                    shares.append([*taken])

            def handed_over(connection: ClientConnection, data: bytes) -> None:
                nonlocal ns
                taken.append(len(data))
                ns += WRITTEN_NS if len(shares) == 0 and len(taken) == 2 else 0
                hand_over(connection, data)

            monkeypatch.setattr(pump, "clock", Clock())
            monkeypatch.setattr(pump, "_write", counted)
            monkeypatch.setattr(ClientConnection, "_write", handed_over)
            for session in served.node.sessions.values():
                is_last = session.cid == 5
                for _ in range(1 if is_last else 8):
                    session.outbox.put(b"+OK\r\n" * (1 if is_last else 200))
                served.node.note_output(session)
            pump.wake()
            for reader, _ in clients[:4]:
                assert await reader.readexactly(8_000)
            assert await clients[4][0].readexactly(5) == b"+OK\r\n"
            if piece_bytes == 8_000:
                assert shares == [[8_000, 8_000, 5], [8_000, 8_000]]
            elif piece_bytes == 4_000:  # it is looked at after two of them
                assert shares == [[4_000, 4_000, 5], [4_000] * 4, [4_000] * 2]
            else:  # and after three
                assert shares[:2] == [[3_000, 3_000, 3_000, 5], [3_000] * 4]
            assert not served.node.touched

    on_loop(main())


def test_what_takes_long_to_write_to_one_client_is_for_several_turns(running, on_loop, monkeypatch):
    """Each half megabyte took 18 ms where the system had trouble to find memory."""
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECE_BYTES", 1_000)

    async def main() -> None:
        async with running() as served:
            pump, shares, ns = served.pump, [], 0
            reader, _ = await served.connect()
            write, hand_over, begun = pump._write, ClientConnection._write, pump.clock.now()

            class Clock:
                def now(self) -> int:
                    return begun + ns

            def counted(now: int, *bounds: int) -> None:
                shares.append([])
                write(now, *bounds)

            def handed_over(connection: ClientConnection, data: bytes) -> None:
                nonlocal ns
                shares[-1].append(len(data))
                ns += WRITTEN_NS // 3 + 1
                hand_over(connection, data)

            monkeypatch.setattr(pump, "clock", Clock())
            monkeypatch.setattr(pump, "_write", counted)
            monkeypatch.setattr(ClientConnection, "_write", handed_over)
            (session,) = served.node.sessions.values()
            session.outbox.put(b"+OK\r\n" * 1_400)
            served.node.note_output(session)
            pump.wake()
            assert await reader.readexactly(7_000) == b"+OK\r\n" * 1_400
            assert [share for share in shares if share] == [[1_000] * 3, [1_000] * 3, [1_000]]

    on_loop(main())


def test_many_who_are_written_to_take_turns_and_whoever_has_spoken_comes_first(
    running, until, on_loop, monkeypatch
):
    """A message for ten thousand clients kept others waiting for 280 ms."""
    monkeypatch.setattr("jetstream_server.net.pump.WRITTEN_CLIENTS_MAX", 4)
    monkeypatch.setattr("jetstream_server.core.deliveries.CLIENTS_OF_TURN_MAX", 8)
    monkeypatch.setattr("jetstream_server.node.router.CLIENTS_AT_ONCE_MAX", 2)

    async def main() -> None:
        async with running() as served:
            clients = [await served.connect() for _ in range(20)]
            for _, writer in clients[:19]:
                writer.write(b"SUB to.all 1\r\nPING\r\n")
            for reader, _ in clients[:19]:
                assert await reader.readexactly(6) == b"PONG\r\n"
            write, shares = served.pump._write, []

            def writing(now: int, *bounds: int) -> None:
                before = {each: each.outbox.unsent_bytes for each in served.node.touched}
                write(now, *bounds)
                left = served.node.touched
                shares.append([each.cid for each in before if each not in left])

            served.pump._write = writing
            others = clients[19]
            others[1].write(b"PUB to.all 2\r\nhi\r\nPING\r\n")
            for reader, _ in clients[:19]:
                assert await reader.readexactly(20) == b"MSG to.all 1 2\r\nhi\r\n"
            assert await others[0].readexactly(6) == b"PONG\r\n"
            shares = [each for each in shares if each]
            assert max(map(len, shares)) == 4 and len(shares) >= 5
            assert not served.node.touched
            # Those who are written to while others wait for it.
            for session in served.node.sessions.values():
                session.send(b"+OK\r\n")
            others[1].write(b"PING\r\n")
            shares.clear()
            assert await others[0].readexactly(11) == b"+OK\r\nPONG\r\n"
            assert 20 in shares[0], "whoever waits for an answer has it in the first turn"
            for reader, _ in clients[:19]:
                assert await reader.readexactly(5) == b"+OK\r\n"

    on_loop(main())


def test_what_a_flush_releases_for_many_is_written_by_the_next_turn(
    listening, until, on_loop, monkeypatch
):
    """The loop may come from a turn to the end of a flush without looking at sockets."""

    async def main() -> None:
        async with listening() as news:
            served, written = news.served, []
            pump, release = served.pump, served.node.release
            reader, _ = await served.connect()
            session = served.node.sessions[2]
            connection = pump.connections[session]
            write, hand_over = pump._write, ClientConnection._write

            def released(held, now: int) -> None:
                session.outbox.put(b"+OK\r\n" * (AFTER_FLUSH_OF_ONE_BYTES_MAX // 5 + 1))
                served.node.note_output(session)
                release(held, now)

            def writing(now: int, *bounds: int) -> None:
                written.append(0)
                write(now, *bounds)

            def handed_over(one: ClientConnection, data: bytes) -> None:
                if one is connection:
                    written[-1] = len(data)
                hand_over(one, data)

            pump._write = writing
            monkeypatch.setattr(ClientConnection, "_write", handed_over)
            news.publish(b"1")
            await until(lambda: news.commit.flushes == 1)
            await news.turn()
            served.node.release = released
            written.clear()
            news.commit.gate.set()
            assert await news.heard() == b"MSG news 1 1\r\n"
            size = 5 * (AFTER_FLUSH_OF_ONE_BYTES_MAX // 5 + 1)
            assert len(await reader.readexactly(size)) == size
            assert written[:2] == [0, size]
            served.node.release = release

    on_loop(main())


def test_what_is_left_for_many_that_are_closed_takes_turns(running, until, on_loop, monkeypatch):
    """Sixty clients with 40 MB each that ended by a word that is none kept others waiting for
    222 ms."""
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECE_BYTES", 8_000)
    monkeypatch.setattr("jetstream_server.net.client_connection._PIECES_BYTES_MAX", 8_000)
    monkeypatch.setattr("jetstream_server.net.pump.WRITTEN_BYTES_MAX", 32_000)

    async def main() -> None:
        async with running() as served:
            clients = [await served.connect() for _ in range(6)]
            write, hand_over = served.pump._write, ClientConnection._write
            shares: list[list[int]] = []

            def writing(now: int, *bounds: int) -> None:
                shares.append([])
                write(now, *bounds)

            def handed_over(one: ClientConnection, data: bytes) -> None:
                shares[-1].append(len(data))
                hand_over(one, data)

            served.pump._write = writing
            monkeypatch.setattr(ClientConnection, "_write", handed_over)
            for session in list(served.node.sessions.values()):
                session.send(b"+OK\r\n" * 4_200)
                session.close("Kicked")
            served.pump.wake()
            for reader, _ in clients:
                assert await reader.read() == b"+OK\r\n" * 4_200
            written = [share for share in shares if share]
            assert max(map(sum, written)) == 32_000
            assert sum(map(sum, written)) == 6 * 21_000
            await until(lambda: not served.pump.connections)

    on_loop(main())


def test_many_that_are_closed_take_turns(running, until, on_loop, monkeypatch):
    monkeypatch.setattr("jetstream_server.net.pump.CLOSED_AT_ONCE_MAX", 3)

    async def main() -> None:
        async with running() as served:
            clients = [await served.connect() for _ in range(10)]
            write, closed = served.pump._write, []

            def writing(now: int, *bounds: int) -> None:
                before = len(served.node.sessions)
                write(now, *bounds)
                closed.append(before - len(served.node.sessions))

            served.pump._write = writing
            for session in served.node.sessions.values():
                session.close("Client Closed")
            served.pump.wake()
            for reader, _ in clients:
                assert await reader.read() == b""
            assert [each for each in closed if each] == [3, 3, 3, 1]

    on_loop(main())


def test_deadlines_make_turns(running, on_loop):
    async def main():
        async with running() as served:
            reader, _ = await served.connect()
            session = next(iter(served.node.sessions.values()))
            session._pings.next_at = served.pump.clock.now() + 30_000_000
            served.node._timers.schedule(session, session._pings.next_at)
            served.pump.wake()
            assert await reader.readline() == b"PING\r\n"

    on_loop(main())


def test_an_error_of_our_own_is_reported_not_swallowed(running, until, on_loop):
    async def main():
        served = running()
        async with served:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda loop, context: None)

            def broken(now):
                raise RuntimeError("ours")

            run, served.node.run = served.node.run, broken
            served.pump.wake()
            await until(lambda: served.errors)
            assert [str(error) for error in served.errors] == ["ours"]
            served.errors.clear()
            served.node.run = run

    on_loop(main())


def test_a_turn_knows_whether_much_waits_for_the_disk(listening, on_loop):
    async def scenario():
        async with listening() as news:
            found = []
            for unflushed_bytes in (UNFLUSHED_LOW_BYTES + 1, UNFLUSHED_LOW_BYTES):
                news.commit.awaited_bytes = unflushed_bytes
                await news.turn()
                found.append(news.served.node.workload.is_flooded)
            assert found == [True, False]

    on_loop(scenario())


def test_a_turn_knows_that_the_disk_has_caught_up_since(listening, until, on_loop):
    async def scenario():
        async with listening() as news:
            workload = news.served.node.workload
            news.commit.awaited_bytes = UNFLUSHED_LOW_BYTES + 1
            news.publish(b"1")
            await until(lambda: news.commit.flushes == 1)
            await news.turn()
            assert workload.is_flooded
            news.commit.awaited_bytes = 0
            # What a turn that comes next finds; no other one has looked since.
            flushed, seen = news.served.pump.intake.flushed, list[bool]()

            def noting(unflushed_bytes):
                seen.append(workload.is_flooded)
                flushed(unflushed_bytes)

            news.served.pump.intake.flushed = noting
            news.commit.gate.set()
            await until(lambda: seen)
            assert seen == [False]

    on_loop(scenario())


def test_what_long_turns_make_is_looked_at_when_they_end(running, on_loop, monkeypatch):
    """A few lists of fifty thousand filters each were looked at together, whenever the number of
    new objects was reached, in 50 ms."""

    async def main():
        async with running() as served:
            reader, writer = await served.connect()
            run, workload, looks = served.node.run, served.node.workload, []

            def turn(now: int) -> None:
                run(now)
                workload.was_long = is_long

            monkeypatch.setattr(served.node, "run", turn)
            monkeypatch.setattr(gc, "collect", looks.append)
            for is_long in (False, True, False):
                before = len(looks)
                writer.write(b"PING\r\n")
                assert await reader.readline() == b"PONG\r\n"
                assert set(looks[before:]) == ({1} if is_long else set())

    on_loop(main())


class DescribingDisk(OsDisk):
    """Gives out the descriptor of another file in place of the one that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[str] = []  # for the next writes, each once
        self.given: list[int] = []
        self._opened: list[int] = []

    def descriptor(self, handle: int) -> int | None:
        if self.others:
            handle = os.open(self.others.pop(0), os.O_WRONLY)
            self._opened.append(handle)
        self.given.append(handle)
        return handle

    def end(self) -> None:
        for handle in self._opened:
            os.close(handle)


@pytest.fixture
def storing(running, tmp_path):
    """Return a maker of a served node with a stream of `in.>`, and of a client of it."""

    @contextlib.asynccontextmanager
    async def storing():
        disk = DescribingDisk()
        commit = GroupCommit(disk)
        async with running(commit) as served:
            account = served.node.accounts["$G"]
            context = node_context(served.node, account)
            account.catalog = Catalog(context, FileVault(tmp_path, "$G", commit, disk))
            account.catalog.recover(1)
            account.catalog.create(StreamConfig(name="S", subjects=("in.>",)), 1)
            reader, writer = await served.connect()
            writer.write(b"SUB r 1\r\n")
            yield served, disk, reader, writer
        disk.end()

    return storing


async def _ack(reader) -> bytes:
    await asyncio.wait_for(reader.readline(), 60)
    return await asyncio.wait_for(reader.readline(), 60)


def test_a_single_write_is_handed_over_by_its_descriptor(storing, on_loop):
    async def main() -> None:
        async with storing() as (_served, disk, reader, writer):
            for number in range(1, 4):
                writer.write(b"PUB in.x r 1\r\na\r\n")
                assert await _ack(reader) == b'{"stream":"S","seq":%d}\r\n' % number
            # The first one makes the file, which is more than a write.
            assert len(disk.given) == 2

    on_loop(main())


def test_what_found_no_room_is_written_again_before_it_is_acknowledged(storing, on_loop):
    async def main() -> None:
        async with storing() as (served, disk, reader, writer):
            writer.write(b"PUB in.x r 1\r\na\r\n")
            await _ack(reader)
            disk.others = ["/dev/full", "/dev/full"]
            writer.write(b"PUB in.x r 1\r\nb\r\n")
            assert await _ack(reader) == b'{"stream":"S","seq":2}\r\n'
            assert len(disk.given) == 3 and not disk.others
            assert not served.node.disk_full

    on_loop(main())


def test_a_sync_that_fails_is_not_repeated_and_nothing_of_it_acknowledged(storing, on_loop):
    async def main() -> None:
        async with storing() as (served, disk, reader, writer):
            writer.write(b"PUB in.x r 1\r\na\r\n")
            await _ack(reader)
            disk.others = ["/dev/null"]  # which cannot be synced
            writer.write(b"PUB in.x r 1\r\nb\r\n")
            stream = served.node.accounts["$G"].catalog.streams["S"]
            async with asyncio.timeout(60):
                while not stream.store.offline:
                    await asyncio.sleep(0.001)
            assert "sync failed: Invalid argument" in stream.store.offline
            writer.write(b"PING\r\n")
            assert await asyncio.wait_for(reader.readline(), 60) == b"PONG\r\n"
            assert len(disk.given) == 1

    on_loop(main())
