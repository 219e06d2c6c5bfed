"""Simulated time: a clock, one queue of what happens when, and the event loop of one server.

`net/pump.py` runs on the loop unchanged. What a worker thread would do (a flush) happens at one
moment of its own between its start and its end, so that turns come before, between and after.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from jetstream_server.base.clock import MICROSECOND, MILLISECOND, SECOND

START = 1_700_000_000 * SECOND


class SimClock:
    """Nanoseconds that pass when something happens."""

    def __init__(self) -> None:
        self.now_ns = START

    def now(self) -> int:
        """Return the time."""
        return self.now_ns


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
        clock = self.clock
        while self._heap and self._heap[0][0] <= stop:
            at, _, act = heapq.heappop(self._heap)
            clock.now_ns = max(clock.now_ns, at) + self.random.randrange(1, 20) * MICROSECOND
            act()
        clock.now_ns = max(clock.now_ns, stop)


class Handle:
    """A planned call that can be cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not call."""
        self.is_cancelled = True


class SimFuture:
    """The result of work that is carried out elsewhere."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[SimFuture], None]] = []
        self._result: Any = None
        self._error: BaseException | None = None

    def add_done_callback(self, callback: Callable[[SimFuture], None]) -> None:
        """Have somebody told of the end."""
        self._callbacks.append(callback)

    def exception(self) -> BaseException | None:
        """Return how the work failed."""
        return self._error

    def result(self) -> Any:
        """Return what the work returned."""
        if self._error is not None:
            raise self._error
        return self._result

    def carry_out(self, job: Callable[[], Any]) -> None:
        """Do the work, without telling anybody."""
        try:
            self._result = job()
        except Exception as error:
            if type(error).__name__ == "PowerLostError":
                raise
            self._error = error

    def tell(self) -> None:
        """Tell whoever waits."""
        for callback in self._callbacks:
            callback(self)

    def __await__(self) -> Generator[None, None, Any]:
        return self.result()
        yield


class SimLoop:
    """As much of an asyncio loop as the pump uses, until the server is gone.

    Attributes:
        is_alive: cleared when the process ends; what it had planned does not happen.
        is_stopping: executor jobs run at once, for the last flush.
    """

    def __init__(self, agenda: Agenda, random: Random, delays: Callable[[], int]) -> None:
        self.is_alive = True
        self.is_stopping = False
        self._agenda = agenda
        self._random = random
        self._flush_ns = delays

    def _plan(self, at: int, act: Callable[[], None]) -> Handle:
        handle = Handle()

        def guarded() -> None:
            if self.is_alive and not handle.is_cancelled:
                act()

        self._agenda.plan(at, guarded)
        return handle

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> Handle:
        """Call when what is due before has been done."""
        return self._plan(self._agenda.clock.now_ns, lambda: callback(*arguments))

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> Handle:
        """Call after so many seconds, a bit late as timers are."""
        late = self._random.randrange(MILLISECOND)
        at = self._agenda.clock.now_ns + round(delay * SECOND) + late
        return self._plan(at, lambda: callback(*arguments))

    def run_in_executor(self, executor: object, job: Callable[[], Any]) -> SimFuture:
        """Carry a job out in a while, and tell of it a while later."""
        future = SimFuture()
        if self.is_stopping:
            future.carry_out(job)
            return future
        now, whole = self._agenda.clock.now_ns, self._flush_ns()
        begins = now + self._random.randrange(whole + 1)
        self._plan(begins, lambda: future.carry_out(job))
        self._plan(now + whole + 1, future.tell)
        return future
