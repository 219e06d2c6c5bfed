"""What is left in memory of very many messages that are gone, let go some at a time.

A stream in memory can lose a million messages at once: it is deleted, or the last consumer that
wanted them is. They are out of sight in no time, but to free them takes a tenth of a second, and
nobody has to wait for that.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core.containment import Incident
from jetstream_server.kernels.parts import PartedSequences
from jetstream_server.store.ports import Leftover
from jetstream_server.structures.deadline_heap import DeadlineHeap

FREED_AT_ONCE = 20_000  # objects, in some milliseconds
_PAUSE_NS = MILLISECOND  # between two portions
_OF_NESTED = 3  # more: a dictionary in a dictionary is of memory that was not looked at for long
_SHARED_OF_ONE = 16  # entries of a dictionary in a dictionary, whose keys others hold, in its time


class Remains:
    """Lets go of what nobody needs any more. Scheduled while there is some.

    Args:
        deadlines: where it gets its turns.
    """

    def __init__(self, deadlines: DeadlineHeap[Any]) -> None:
        self._deadlines = deadlines
        self._held: deque[Leftover] = deque()

    def take(self, held: Leftover) -> None:
        """Let go of a collection, or of a list of dictionaries, the parts of one; nobody else may
        use it. What is taken first goes first."""
        is_parted = isinstance(held, list) and held and isinstance(held[0], dict)
        parts: list[Any] = list(held) if is_parted else [held]
        if sum(map(len, parts)) <= FREED_AT_ONCE and not self._held:
            return  # its last reference is gone with this call, or soon
        if not self._held:
            self._deadlines.schedule(self, 0)
        self._held += parts

    def tick(self, now: int) -> None:
        """Let go of some of it."""
        left = FREED_AT_ONCE
        while self._held and left > 0:
            first = self._held[0]
            left -= _free(first, left)
            if not first:
                self._held.popleft()
        if self._held:
            self._deadlines.schedule(self, now + _PAUSE_NS)

    def give_up(self, incident: Incident, now: int) -> None:
        """Let go of everything."""
        self._held.clear()


def _free(held: Leftover, count: int) -> int:
    """Free so many of the objects of a collection, or a few more; return how many."""
    if isinstance(held, list):
        count = min(count, len(held))
        del held[-count:]
        return count
    freed = 0
    while held and freed < count:
        _, value = held.popitem()
        freed += 1
        if isinstance(value, dict | PartedSequences):
            freed += _OF_NESTED + len(value) // _SHARED_OF_ONE
    return freed
