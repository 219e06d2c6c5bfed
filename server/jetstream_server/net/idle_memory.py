"""Gives memory back when a busy time is over, and has streams at rest release theirs.

Blocks and chunks that have been freed stay with the allocator, which is right as long as there is
more to come: pages that are given back have to be fetched, and cleared, again. A server that has
stored a few gigabytes and rests now has no use for them. Some is freed long after: message ids when
their window is over, a stream that is deleted while nothing else happens. So a server that has ever
been busy asks the allocator now and then how much more is idle.

Both take up to a tenth of a second where much is free, in which the allocator's lock is held, but
not Python's. So that is done in a thread: whoever needs nothing of the allocator but small objects,
which Python hands out itself, does not wait for it. The allocator is not to give anything back by
itself, which it does in whichever call frees the last of much: a turn in which what waited for slow
clients was dropped took 30 ms for that.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from threading import Thread
from typing import Any, Protocol

from jetstream_server.net.intake import Intake

LOOK_S = 2.5
BUSY_BYTES = 1024 * 1024  # read between two looks; less is as good as nothing
QUIET_LOOKS = 8  # from one question to the allocator to the next
WORTH_BYTES = 8 * 1024 * 1024  # freed since the last time; less is not worth a trim
# Of malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES_MIN = 32 * 1024 * 1024  # larger ones are mapped, each by itself; glibc takes no more


class Allocator(Protocol):
    """What hands out the memory of this process."""

    def keep(self) -> None:
        """Give nothing back from now on but by `trim`."""

    def trim(self) -> None:
        """Give back what can be given back."""

    def free_bytes(self) -> int:
        """Return the bytes that are not handed out, given back or not; 0 where nobody can tell."""


class GlibcAllocator:
    """The C library's; elsewhere nothing is known and nothing is done."""

    def keep(self) -> None:
        """Give nothing back from now on but by `trim`, and what is too large to be kept."""
        set_option = getattr(_c_library(), "mallopt", None)
        if set_option is not None:
            # The first, else fixed by the second, is what it grows to in a server that was busy.
            set_option(_MMAP_THRESHOLD, _MAPPED_BYTES_MIN)
            set_option(_TRIM_THRESHOLD, -1)

    def trim(self) -> None:
        """Give back what can be given back."""
        give_back = getattr(_c_library(), "malloc_trim", None)
        if give_back is not None:
            give_back(0)

    def free_bytes(self) -> int:
        """Return the bytes that are not handed out; glibc tells since 2.33."""
        count = _mallinfo2()
        return int(count().fordblks) if count is not None else 0


def _c_library() -> Any:
    import ctypes  # here: whoever only reads options starts sooner without it

    return ctypes.CDLL(None)


@functools.cache
def _mallinfo2() -> Any:
    import ctypes

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    fields = [(name, ctypes.c_size_t) for name in names.split()]
    count = getattr(_c_library(), "mallinfo2", None)
    if count is not None:
        count.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": fields})
    return count


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
        self._is_asking = False  # a thread is at it, to which the next two belong meanwhile
        self._quiet_looks = 0  # since the last trim
        self._free_bytes = 0  # at the last trim; less since, if some of it was used again
        self._timer = loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Stop looking."""
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
            finally:
                self._is_asking = False

        self._is_asking = True
        self._aside(work)

    def _trim(self) -> None:
        self._allocator.trim()
        self._free_bytes = self._allocator.free_bytes()
        self._quiet_looks = 0

    def _look_for_more(self) -> None:
        free_bytes = self._allocator.free_bytes()
        if free_bytes - self._free_bytes >= WORTH_BYTES:
            self._trim()
        self._free_bytes = min(self._free_bytes, free_bytes)
