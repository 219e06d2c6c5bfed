"""How quick the machine is at the moment, by a piece of work that is always the same.

The machine is shared, and for minutes at a time the same work takes two or three times as long.
Rows of two nights, or of two servers, are to be compared only where this is about the same.
"""

from __future__ import annotations

import statistics
import time

_LINES = b"".join(b"PUB orders.%d.new 16\r\n" % n for n in range(20_000))
_TIMES = 3


def pace_ms() -> float:
    """Return the milliseconds of processor time that lines cut, counted and copied take, the
    median of three."""
    return statistics.median(_once_ms() for _ in range(_TIMES))


def _once_ms() -> float:
    begun = time.thread_time()
    counted: dict[bytes, int] = {}
    for line in _LINES.split(b"\r\n"):
        subject = line[4:-3]
        counted[subject] = counted.get(subject, 0) + len(line)
    b"".join([bytes(key) for key in counted] * 4)
    return (time.thread_time() - begun) * 1000
