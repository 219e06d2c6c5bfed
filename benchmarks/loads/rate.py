"""Messages a second, the warm-up left out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from benchmarks.event_loop import EventLoop

WARM_UP = 0.2


def measure_rate(
    loop: EventLoop,
    count: Callable[[], int],
    seconds: float,
    *,
    foremost: Callable[[], int] | None = None,
    limit: float = math.inf,
) -> float:
    """Run the loop for a while; return how fast `count` rose after the warm-up.

    The time is stretched until something came after the warm-up. What comes all at once, faster
    than the warm-up can be told from the rest, is counted from the beginning.

    Args:
        foremost: how far the one that is furthest has come, `count` if not given.
        limit: when `foremost` reaches this, there is no more to come.
    """
    reached = foremost or count
    started = time.perf_counter()

    def is_warm() -> bool:
        elapsed = time.perf_counter() - started
        return elapsed >= seconds * WARM_UP or reached() >= limit * WARM_UP

    loop.run(is_warm)
    warm, warm_count = time.perf_counter(), count()

    def is_over() -> bool:
        is_late = time.perf_counter() >= started + seconds
        return (is_late and count() > warm_count) or reached() >= limit

    loop.run(is_over)
    now, total = time.perf_counter(), count()
    if total == warm_count:
        return total / (now - started)
    return (total - warm_count) / (now - warm)
