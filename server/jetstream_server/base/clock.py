"""Time as the server sees it: integer nanoseconds since the Unix epoch, never going back.

`Clock` is read once a turn, by `net/pump`; every state machine below is handed `now`. How long a
turn has taken so far the node asks `elapsed_ns`, if it is given that.
"""

from __future__ import annotations

import time
from typing import Protocol

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

NEVER = 2**63 - 1  # a deadline that does not come

# The units of durations in configurations and requests, as Go spells them; micro has two letters.
UNITS_NS = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}


elapsed_ns = time.monotonic_ns  # since any moment


class Clock(Protocol):
    """Where `now` comes from; the simulator brings its own."""

    def now(self) -> int:
        """Nanoseconds since the epoch; each answer is at least as large as the one before."""
        ...


class SystemClock:
    """The wall clock at start, carried forward by the monotonic clock.

    A stepped wall clock would otherwise move message times and ack deadlines backwards.
    """

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """Return the time of day, carried forward from the start of the process."""
        return self._offset + time.monotonic_ns()


def earliest(*deadlines: int | None) -> int | None:
    """Return the earliest of several deadlines, None when there is none."""
    found = None
    for deadline in deadlines:
        if deadline is not None and (found is None or deadline < found):
            found = deadline
    return found
