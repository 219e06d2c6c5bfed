"""How much is taken on in one turn of what takes long: requests of the API.

Five hundred streams can be asked for in one write, or by five hundred clients at once, and whoever
else wants something would wait for all of them. So a turn takes on requests worth so many units;
the others are put off, with whatever their clients say behind them (`core/answers.py`), and come
in the next turns, each client in its turn.

What makes files waits for the disk as well while that is behind: the answers to others are held
for the same flush.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

UNITS_OF_TURN = 60  # of about 0.1 ms
FILE_UNITS = 10  # of a request that makes, changes or removes files
UNIT_BYTES = 4096  # of a request's body


def units_of(size: int, *, is_costly: bool) -> int:
    """Return what a request with a body of so many bytes is worth."""
    return (FILE_UNITS if is_costly else 1) + size // UNIT_BYTES


class Workload:
    """What the turns of one node take on.

    Args:
        units_max: of a turn; a single request may be worth more.

    Attributes:
        is_held: the disk is behind.
        used: what this turn has taken on.
        waiting: those that want something taken on, the longest waiting first.
    """

    def __init__(self, units_max: int = sys.maxsize) -> None:
        self.is_held = False
        self._units_max = units_max
        self.used = 0
        self.waiting: list[Callable[[], None]] = []

    def begin(self) -> None:
        """A turn begins: those that wait go on, the longest waiting first."""
        self.used = 0
        if self.waiting and not self.is_held:
            waiting, self.waiting = self.waiting, []
            for go_on in waiting:
                go_on()

    def takes(self, units: int) -> bool:
        """Take on a request, or tell that it has to wait."""
        if self.is_held and units >= FILE_UNITS:
            return False
        if self.used and self.used + units > self._units_max:
            return False
        self.used += units
        return True

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called when a turn begins that may take on something."""
        self.waiting.append(go_on)

    @property
    def is_due(self) -> bool:
        """Return whether somebody waits for no more than a turn."""
        return bool(self.waiting) and not self.is_held
