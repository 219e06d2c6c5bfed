"""A replica that lags: it answers direct gets from what the stream was a while ago.

What a real one has, and this one has not, is messages that the leader has removed since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from jetstream_server.store.ports import MessageStore, SubjectFilter, Window

from tests.sim.clock import SimClock


class LaggingStore:
    """A store as direct gets see it, without what came lately; sometimes as the leader sees it.

    Args:
        lag_ns: how much is missing, asked at each look; 0 once all have caught up.
    """

    def __init__(
        self, store: MessageStore, clock: SimClock, random: Random, lag_ns: Callable[[], int]
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._lag_ns = lag_ns
        self._reach = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def filter(self, patterns: Sequence[bytes]) -> SubjectFilter | None:
        """What to look for; each answer begins with this."""
        self._reach = self._looked()
        return self._store.filter(patterns)

    def _looked(self) -> int:
        """Choose who answers; return the last sequence that it has."""
        lag_ns = self._lag_ns()
        if not lag_ns or self._random.random() < 0.3:
            return self._store.last_seq
        lag_ns = self._random.randrange(lag_ns)
        return self._store.sequence_at(self._clock.now_ns - lag_ns) - 1

    @property
    def last_seq(self) -> int:
        """Where the answer ends."""
        return self._reach

    def count(self, filtered: SubjectFilter | None, sequence: int) -> int:
        """How many there are from a sequence on."""
        return self._store.count(filtered, sequence, self._reach + 1)

    def window(
        self, filtered: SubjectFilter | None, sequence: int, count: int, size: int
    ) -> Window:
        """The next messages."""
        window = self._store.window(filtered, sequence, count, size)
        keep = sum(one <= self._reach for one in window.sequences)
        parts = window.positions[:keep], window.sequences[:keep], window.sizes[:keep]
        return Window(window.buffer, *parts, window.next_seq)
