"""The thread that waits for the disk, so that the event loop does not.

One thread, one piece of work after the other, each answered on the loop. It does less than an
executor and costs less: no future is made, copied and watched, which cost as much as the flush
itself if that had only a few messages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.owner import Owner

Failures = list[tuple[Owner, StoreError]]
FlushWork = Callable[[], Failures]
# Told about writes that failed; or, with none of those, about an error of our own.
Done = Callable[[Failures, BaseException | None], None]


class Worker(Protocol):
    """Where flushes run."""

    def run(self, work: FlushWork, done: Done) -> None:
        """Do `work` outside the loop, then call `done` on it."""
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
        # A daemon: a server that has failed ends, whatever its disk is doing.
        self._thread = Thread(target=self._serve, name="flush", daemon=True)
        self._thread.start()

    def run(self, work: FlushWork, done: Done) -> None:
        """Do `work` in the thread, then call `done` on the loop."""
        self._tasks.put((work, done))

    def stop(self) -> None:
        """End the thread once it has done all that it was given."""
        self._tasks.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
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
