"""The turn: what waits for the disk, group commit, and what a broken disk means."""

from __future__ import annotations

import asyncio
import threading

from jetstream_server.base.errors import StoreError


class HeldFlush:
    """A flush that ends when the test says so."""

    is_quick = False

    def __init__(self, commit: HeldCommit) -> None:
        self.commit = commit
        self.stalled: list[object] = []

    def run(self):
        assert self.commit.gate.wait(10)
        return self.commit.failures


class HeldCommit:
    """A queue to a disk that a test holds back."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.failures: list[tuple[object, StoreError]] = []
        self.dirty = 0
        self.flushes = 0
        self.is_stalled = False
        self.full = None
        self.unflushed_bytes = 0

    def take(self, now=None):
        if not self.dirty:
            return None
        self.dirty = 0
        self.flushes += 1
        return HeldFlush(self)

    def settle(self, flush) -> None:
        self.gate.clear()

    def next_deadline(self):
        return None

    def drain(self):
        return []


async def heard(reader, seconds=0.05):
    try:
        return await asyncio.wait_for(reader.readline(), seconds)
    except TimeoutError:
        return b""


def test_what_waits_for_the_disk_leaves_after_the_flush(running, on_loop):
    async def main():
        commit = HeldCommit()
        async with running(commit) as served:
            reader, writer = await served.connect()
            writer.write(b"SUB news 1\r\nPING\r\n")
            await reader.readline()
            commit.dirty = 1
            served.node.accounts["$G"].output.publish(b"news", b"1")
            served.pump.wake()
            assert await heard(reader) == b""
            commit.gate.set()
            assert await heard(reader, 2) == b"MSG news 1 1\r\n"

    on_loop(main())


def test_one_flush_covers_all_that_came_while_the_last_one_ran(running, on_loop):
    async def main():
        commit = HeldCommit()
        async with running(commit) as served:
            reader, writer = await served.connect()
            writer.write(b"SUB news 1\r\nPING\r\n")
            await reader.readline()
            for number in range(20):
                commit.dirty += 1
                served.node.accounts["$G"].output.publish(b"news", b"%d" % number)
                served.pump.wake()
                await asyncio.sleep(0.001)
            assert commit.flushes == 1
            for _ in range(2):
                commit.gate.set()
                await asyncio.sleep(0.05)
            commit.gate.set()
            got = [await heard(reader, 2) for _ in range(40)]
            assert [line for line in got if line[:3] != b"MSG"] == [
                b"%d\r\n" % number for number in range(20)
            ]
            assert commit.flushes == 2

    on_loop(main())


def test_core_messages_do_not_wait_for_the_disk(running, on_loop):
    async def main():
        commit = HeldCommit()
        async with running(commit) as served:
            reader, writer = await served.connect()
            commit.dirty = 1
            served.pump.wake()
            await asyncio.sleep(0.02)
            assert commit.flushes == 1
            writer.write(b"SUB a 1\r\nPUB a 1\r\nx\r\n")
            assert await heard(reader, 2) == b"MSG a 1 1\r\n"
            commit.gate.set()

    on_loop(main())


def test_a_failed_flush_releases_nothing(running, on_loop):
    async def main():
        commit = HeldCommit()
        async with running(commit) as served:
            reader, writer = await served.connect()
            writer.write(b"SUB news 1\r\nPING\r\n")
            await reader.readline()
            commit.dirty = 1
            commit.failures = [(object(), StoreError("write failed"))]
            served.node.accounts["$G"].output.publish(b"news", b"lost")
            served.pump.wake()
            commit.gate.set()
            await asyncio.sleep(0.05)
            commit.failures = []
            served.node.accounts["$G"].output.publish(b"news", b"next")
            served.pump.wake()
            assert await heard(reader, 2) == b"MSG news 1 4\r\n"
            assert await heard(reader, 2) == b"next\r\n"

    on_loop(main())


def test_what_was_held_back_during_a_failed_flush_is_dropped_too(running, on_loop):
    async def main():
        commit = HeldCommit()
        async with running(commit) as served:
            reader, writer = await served.connect()
            writer.write(b"SUB news 1\r\nPING\r\n")
            await reader.readline()
            output = served.node.accounts["$G"].output
            commit.dirty = 1
            commit.failures = [(object(), StoreError("sync failed"))]
            output.publish(b"news", b"lost")
            served.pump.wake()
            await asyncio.sleep(0.02)
            # The ack of a message that went down with the stream: nothing is queued for it now.
            output.publish(b"news", b"lost as well")
            served.pump.wake()
            await asyncio.sleep(0.02)
            commit.gate.set()
            await asyncio.sleep(0.05)
            commit.failures = []
            output.publish(b"news", b"next")
            served.pump.wake()
            assert await heard(reader, 2) == b"MSG news 1 4\r\n"
            assert await heard(reader, 2) == b"next\r\n"

    on_loop(main())


def test_deadlines_make_turns(running, on_loop):
    async def main():
        async with running() as served:
            reader, _ = await served.connect()
            session = next(iter(served.node.sessions.values()))
            session._next_ping = served.pump.clock.now() + 30_000_000
            served.node._timers.schedule(session, session._next_ping)
            served.pump.wake()
            assert await heard(reader, 2) == b"PING\r\n"

    on_loop(main())


def test_an_error_of_our_own_is_reported_not_swallowed(running, on_loop):
    async def main():
        served = running()
        async with served:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda loop, context: None)

            def broken(now):
                raise RuntimeError("ours")

            run, served.node.run = served.node.run, broken
            served.pump.wake()
            await asyncio.sleep(0.02)
            assert [str(error) for error in served.errors] == ["ours"]
            served.errors.clear()
            served.node.run = run

    on_loop(main())
