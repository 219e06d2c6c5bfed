"""The thread that waits for the disk, so that the event loop does not.

One thread, one piece of work after the other, each answered on the loop. It does less than an
executor and costs less: no future is made, copied and watched, which cost as much as the flush
itself if that had only a few messages. A single write, which is what most flushes are, needs
nothing of Python in the thread, and the loop hears of it through a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.kernels.synced_writes import SyncedWrites
from jetstream_server.store.disk.owner import Owner

Failures = list[tuple[Owner, StoreError]]
FlushWork = Callable[[], Failures]
# Told about writes that failed; or, with none of those, about an error of our own.
Done = Callable[[Failures, BaseException | None], None]
# Told the error numbers of a write and of its sync, 0 where all is well.
WriteDone = Callable[[int, int], None]


class Worker(Protocol):
    """Where flushes run."""

    def run(self, work: FlushWork, done: Done) -> None:
        """Do `work` outside the loop, then call `done` on it."""
        ...

    def write(self, handle: int, buffer: Buffer, start: int, stop: int, done: WriteDone) -> None:
        """Write `buffer[start:stop]` to the same place in an open file outside the loop, and sync
        the file, then call `done` on the loop. Nothing else may be given until then."""
        ...

    def stop(self) -> None:
        """Take no more work; what was given is done when this returns."""
        ...


class FlushWorker:
    """Runs flushes in a thread.

    Args:
        loop: where `done` is called.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: SimpleQueue[tuple[FlushWork, Done] | None] = SimpleQueue()
        self._heard, told = self._pipe = os.pipe()  # a byte comes when a write is over
        self._writes = SyncedWrites(told)
        self._written: WriteDone | None = None  # who is to be told of the write under way
        loop.add_reader(self._heard, self._hear)
        # A daemon: a server that has failed ends, whatever its disk is doing.
        self._thread = Thread(target=self._serve, name="flush", daemon=True)
        self._thread.start()

    def run(self, work: FlushWork, done: Done) -> None:
        """Do `work` in the thread, then call `done` on the loop."""
        self._tasks.put((work, done))
        self._writes.call()

    def write(self, handle: int, buffer: Buffer, start: int, stop: int, done: WriteDone) -> None:
        """Write and sync in the thread, then call `done` on the loop."""
        self._writes.begin(handle, buffer, start, stop)
        self._written = done

    def _hear(self) -> None:
        os.read(self._heard, 1)
        done, self._written = self._written, None
        if done is not None:
            done(*self._writes.end())

    def stop(self) -> None:
        """End the thread once it has done all that it was given."""
        self._tasks.put(None)
        self._writes.call()
        self._thread.join()
        done, self._written = self._written, None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
            self._loop.remove_reader(self._heard)
            if done is not None:
                self._loop.call_soon(done, *self._writes.end())
        for end in self._pipe:
            os.close(end)

    def _serve(self) -> None:
        while True:
            self._writes.serve()
            if (task := self._tasks.get()) is None:
                return
            work, done = task
            failures: Failures = []
            error: BaseException | None = None
            try:
                failures = work()
            except BaseException as unexpected:
                error = unexpected
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                self._loop.call_soon_threadsafe(done, failures, error)
            # Not held until the next task comes: a flush carries whole blocks.
            del task, work, done, failures, error
