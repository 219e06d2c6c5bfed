"""How long something takes, without the time in which nothing runs here."""

from __future__ import annotations

import threading
import time
from types import TracebackType

_TICK_S = 0.02
_TICK_MAX_S = 0.25


class RunningTime:
    """Counts the seconds of its block, but those in which this process was stopped.

    A clock counts on while a machine stands still; a thread that ticks does not.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> RunningTime:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _tick(self) -> None:
        last = time.monotonic()
        while not self._is_over.wait(_TICK_S):
            now = time.monotonic()
            self.seconds += min(now - last, _TICK_MAX_S)
            last = now
