"""Gives memory back when a busy time is over, and has streams at rest release theirs.

Blocks and chunks that have been freed stay with the allocator, which is right as long as there is
more to come: pages that are given back have to be fetched, and cleared, again. A server that has
stored a few gigabytes and rests now has no use for them. Some is freed long after: message ids when
their window is over, a stream that is deleted while nothing else happens. So a server that has ever
been busy asks the allocator now and then how much more is idle.

Both are done in a thread, and what is given back is some tens of megabytes at a time: meanwhile the
allocator's lock is held, but not Python's, and whoever needs more than small objects, which Python
hands out itself, waits for it. Two gigabytes that sixty clients had not read, given back at once,
kept others waiting for 89 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from threading import Event, Thread

from jetstream_server.net.allocator import HELD_BYTES, Allocator, GlibcAllocator
from jetstream_server.net.intake import Intake

LOOK_S = 2.5
BUSY_BYTES = 1024 * 1024  # read between two looks; less is as good as nothing
QUIET_LOOKS = 8  # from one question to the allocator to the next
WORTH_BYTES = 8 * 1024 * 1024  # freed since the last time; less is not worth a trim
# Of what is free, so much is given back at once, in 3 ms; then others may have some.
GIVEN_BACK_AT_ONCE = 64  # times `HELD_BYTES`
PAUSE_S = 0.005
HELD_AT_ONCE = 400  # times `HELD_BYTES`, which takes 1 to 3 ms


def _in_a_thread(work: Callable[[], None]) -> None:
    Thread(target=work, name="memory", daemon=True).start()


class IdleMemory:
    """Looks now and then, and trims after each busy time and after much was freed in a quiet one.

    Args:
        loop: where to be called from.
        intake: knows how much was read.
        rest: has streams at rest release memory, and tells whether any did.
        allocator: gives memory back.
        aside: has something done in a thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        intake: Intake,
        rest: Callable[[], bool],
        allocator: Allocator | None = None,
        aside: Callable[[Callable[[], None]], None] = _in_a_thread,
    ) -> None:
        self._loop = loop
        self._intake = intake
        self._rest = rest
        self._allocator = allocator or GlibcAllocator()
        self._aside = aside
        self._allocator.keep()
        self._read_bytes = intake.read_bytes  # at the last look
        self._was_busy = False  # at the last look; memory has not been given back since
        self._was_ever_busy = False
        self._is_asking = False  # somebody is at it, to whom the next two belong meanwhile
        self._quiet_looks = 0  # since the last trim
        self._free_bytes = 0  # at the last trim; less since, if some of it was used again
        self._has_stopped = Event()
        self._timer = loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Stop looking."""
        self._has_stopped.set()
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)
        before, self._read_bytes = self._read_bytes, self._intake.read_bytes
        if self._read_bytes - before >= BUSY_BYTES:
            self._was_busy = True
        elif self._is_asking:
            pass
        elif self._was_busy:
            self._was_busy = False
            self._was_ever_busy = True
            self._begin(self._trim)
        elif self._was_ever_busy:
            self._quiet_looks += 1
            if not self._quiet_looks % QUIET_LOOKS:
                self._begin(self._look_for_more)
        if self._rest():  # what they hold is free after a flush, so by the next look
            self._was_busy = True

    def _begin(self, ask: Callable[[], None]) -> None:
        def work() -> None:
            try:
                ask()
            except BaseException:
                self._is_asking = False
                raise

        self._is_asking = True
        self._aside(work)

    def _trim(self) -> None:
        """Give back what is free; if that is much, hold most of it first."""
        count = self._allocator.free_bytes() // HELD_BYTES
        if count <= GIVEN_BACK_AT_ONCE:
            self._give_back([])
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._hold, count, [])

    def _hold(self, count: int, held: list[int]) -> None:
        some = self._allocator.hold(min(count, HELD_AT_ONCE))
        held += some
        if len(some) == HELD_AT_ONCE:
            self._loop.call_soon(self._hold, count - len(some), held)
        else:
            self._aside(partial(self._give_back, held))

    def _give_back(self, held: list[int]) -> None:
        """Give back what is free, and then what is held, some at a time."""
        try:
            self._allocator.trim()
            while held:
                self._allocator.let_go(held[-GIVEN_BACK_AT_ONCE:])
                del held[-GIVEN_BACK_AT_ONCE:]
                self._has_stopped.wait(PAUSE_S)
                self._allocator.trim()
            self._free_bytes = self._allocator.free_bytes()
            self._quiet_looks = 0
        finally:
            self._is_asking = False

    def _look_for_more(self) -> None:
        free_bytes = self._allocator.free_bytes()
        is_worth_it = free_bytes - self._free_bytes >= WORTH_BYTES
        self._free_bytes = min(self._free_bytes, free_bytes)
        if is_worth_it:
            self._trim()
        else:
            self._is_asking = False
