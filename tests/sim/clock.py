"""Simulated time: a clock, one queue of what happens when, and the event loop of one server.

`net/pump.py` runs on the loop unchanged. What a worker thread would do (a flush) happens at one
moment of its own between its start and its end, so that turns come before, between and after.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from jetstream_server.base.clock import MICROSECOND, MILLISECOND, SECOND
from jetstream_server.kernels.record_format import Buffer

from tests.sim.disk import SimDisk

START = 1_700_000_000 * SECOND


class SimClock:
    """Nanoseconds that pass when something happens."""

    def __init__(self) -> None:
        self.now_ns = START

    def now(self) -> int:
        """Return the time."""
        return self.now_ns


class TurnClock:
    """How long a turn takes by the clock: in half of all runs no time, so that it ends by what it
    has done, else a little with each look, or now and then much.

    Args:
        random: from which nothing is taken, or every seed would be another.
    """

    def __init__(self, random: Random) -> None:
        self._random = Random()
        self._random.setstate(random.getstate())
        self._kind = self._random.choice(["still", "still", "slow", "jumpy"])
        self._now_ns = 0

    def now(self) -> int:
        """Return the nanoseconds since any moment."""
        if self._kind == "slow":
            self._now_ns += self._random.randrange(4 * MILLISECOND)
        elif self._kind == "jumpy":
            is_jump = self._random.random() < 0.05
            self._now_ns += 60 * MILLISECOND if is_jump else 10 * MICROSECOND
        return self._now_ns


class Agenda:
    """What happens when, in order; ties in the order in which they were planned."""

    def __init__(self, clock: SimClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def plan(self, at: int, act: Callable[[], None]) -> None:
        """Have something done at a time."""
        self._count += 1
        heapq.heappush(self._heap, (max(at, self.clock.now_ns), self._count, act))

    def run_until(self, stop: int) -> None:
        """Let time pass; every act takes a little of it."""
        clock, heap, some = self.clock, self._heap, self.random.randrange
        while heap and heap[0][0] <= stop:
            at, _, act = heapq.heappop(heap)
            now = clock.now_ns
            clock.now_ns = (at if at > now else now) + (some(19) + 1) * MICROSECOND
            act()
        clock.now_ns = max(clock.now_ns, stop)


class Handle:
    """A planned call that can be cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not call."""
        self.is_cancelled = True


class SimLoop:
    """As much of an asyncio loop as the pump uses, until the server is gone.

    Attributes:
        is_alive: cleared when the process ends; what it had planned does not happen.
    """

    def __init__(self, agenda: Agenda, random: Random) -> None:
        self.is_alive = True
        self._agenda = agenda
        self._random = random

    def plan(self, at: int, act: Callable[[], None]) -> Handle:
        """Do something at a time, if the process is there by then."""
        handle = Handle()

        def guarded() -> None:
            if self.is_alive and not handle.is_cancelled:
                act()

        self._agenda.plan(at, guarded)
        return handle

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> Handle:
        """Call when what is due before has been done."""
        return self.plan(self._agenda.clock.now_ns, lambda: callback(*arguments))

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> Handle:
        """Call after so many seconds, a bit late as timers are."""
        late = self._random.randrange(MILLISECOND)
        at = self._agenda.clock.now_ns + round(delay * SECOND) + late
        return self.plan(at, lambda: callback(*arguments))


class SimWorker:
    """Carries flushes out in a while, and tells of them a while later.

    Args:
        disk: where single writes go.

    Attributes:
        is_stopping: work is done at once, for the last flush.
    """

    def __init__(
        self,
        loop: SimLoop,
        agenda: Agenda,
        random: Random,
        delays: Callable[[], int],
        disk: SimDisk,
    ) -> None:
        self.is_stopping = False
        self._disk = disk
        disk.gives_descriptors = True
        self._loop = loop
        self._agenda = agenda
        self._random = random
        self._flush_ns = delays

    def run(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Do `work`, then call `done`."""
        answer: list[Any] = []

        def carry_out() -> None:
            try:
                answer.extend((work(), None))
            except Exception as error:
                if type(error).__name__ == "PowerLostError":
                    raise
                answer.extend(([], error))

        if self.is_stopping:
            carry_out()
            done(*answer)
            return
        now, whole = self._agenda.clock.now_ns, self._flush_ns()
        self._loop.plan(now + self._random.randrange(whole + 1), carry_out)
        self._loop.plan(now + whole + 1, lambda: done(*answer))

    def write(
        self,
        handle: int,
        buffer: Buffer,
        start: int,
        stop: int,
        done: Callable[[int, int], None],
    ) -> None:
        """Write and sync, then call `done`."""

        def work() -> tuple[int, int]:
            data = memoryview(buffer)[start:stop]
            return self._disk.write_and_sync(handle, data, start)

        def told(outcome: tuple[int, int], error: BaseException | None) -> None:
            if error is not None:
                raise error
            done(*outcome)

        self.run(work, told)

    def stop(self) -> None:
        """Nothing is left to wait for."""
