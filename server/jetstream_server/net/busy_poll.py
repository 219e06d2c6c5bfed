"""Keeps the event loop awake between the requests of a client that waits for each answer.

A thread that goes to sleep and is woken again pays for it: it takes tens of microseconds until it
runs, and by then the caches have forgotten it. A client that publishes one message at a time makes
the server pay that for each. So while such requests come one soon after the other, the loop looks
for the next one instead of sleeping (`net.core.busy_poll` of Linux is the same idea one floor
lower, and the scheduler of the Go runtime spins at the same point).

Its cost is bounded: there is none before `STREAK_MIN` lone requests have come, each within
`wait_ns` of the answer to the one before; after that, it is at most `wait_ns` for each of them, and
once more at their end. Turns with more than `LONE_BYTES_MAX` of input do not count. Where there is
only one core, the client needs it to send anything (`has_core_to_spare`).
"""

from __future__ import annotations

import asyncio
import os

from jetstream_server.base.clock import Clock
from jetstream_server.net.intake import Intake

LONE_BYTES_MAX = 4096
STREAK_MIN = 4


def has_core_to_spare() -> bool:
    """Return whether a client on this machine can run while the server is awake."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


class BusyPoll:
    """Decides after each answer whether the loop may go to sleep.

    Args:
        loop: is kept awake by a callback that is due at once.
        clock: the pump's.
        intake: knows how much was read.
        wait_ns: how long to look for the next request.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, intake: Intake, wait_ns: int
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._intake = intake
        self._wait_ns = wait_ns
        self._read_bytes = 0
        self._streak = 0
        self._answered_at = 0
        self._until = 0
        self._is_polling = False

    def turn_began(self, now: int) -> None:
        """Judge from what was read, and when, whether a client waits for each answer."""
        read_bytes = self._intake.read_bytes
        size, self._read_bytes = read_bytes - self._read_bytes, read_bytes
        if 0 < size <= LONE_BYTES_MAX and now - self._answered_at <= self._wait_ns:
            self._streak += 1
        else:
            self._streak = 0

    def answered(self) -> None:
        """Stay awake for a while if one does; everything has been written by now."""
        self._answered_at = now = self._clock.now()
        if self._streak >= STREAK_MIN:
            self._until = now + self._wait_ns
            if not self._is_polling:
                self._is_polling = True
                self._loop.call_soon(self._look)

    def _look(self) -> None:
        # The loop looks at its sockets between any two callbacks.
        if self._clock.now() < self._until:
            self._loop.call_soon(self._look)
        else:
            self._is_polling = False
