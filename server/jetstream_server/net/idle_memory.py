"""Gives memory back when a busy time is over, and has streams at rest let go of theirs.

Blocks and chunks that have been freed stay with the allocator, which is right as long as there is
more to come: pages that are given back have to be had, and cleared, again. A server that has stored
a few gigabytes and rests now has no use for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jetstream_server.net.intake import Intake

LOOK_S = 2.5
BUSY_BYTES = 1024 * 1024  # read between two looks; less is as good as nothing


def trim() -> None:
    """Have the allocator give back what it can; a few milliseconds. Only glibc knows how."""
    import ctypes  # here: most servers never get busy, and are smaller without it

    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


class IdleMemory:
    """Looks now and then, and trims once after each busy time.

    Args:
        loop: where to be called from.
        intake: knows how much was read.
        rest: has streams at rest let go of memory, and tells whether any did.
        trim: gives memory back.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        intake: Intake,
        rest: Callable[[], bool],
        trim: Callable[[], None] = trim,
    ) -> None:
        self._loop = loop
        self._intake = intake
        self._rest = rest
        self._trim = trim
        self._read_bytes = intake.read_bytes
        self._was_busy = False
        self._timer = loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)
        before, self._read_bytes = self._read_bytes, self._intake.read_bytes
        if self._read_bytes - before >= BUSY_BYTES:
            self._was_busy = True
        elif self._was_busy:
            self._was_busy = False
            self._trim()
        if self._rest():  # what they hold is free after a flush, so by the next look
            self._was_busy = True
