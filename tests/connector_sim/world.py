"""Simulated time, one server, and the processes of Spark that reach it over simulated wires.

One queue of what happens when, in one thread; a seed decides everything. What happened is kept as a
trace, for the explanation of a seed that fails, and as a digest, to compare two runs of a seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from jetstream_server.base.clock import MILLISECOND, SECOND

from tests.connector_sim.courses import FairCourse
from tests.connector_sim.process import Activity, Process
from tests.connector_sim.server import Server
from tests.connector_sim.wire import Course, Wire
from tests.sim.clock import START, Agenda, SimClock

# Two names of the server, one where nobody listens, and one where nobody says so.
FIRST_ADDRESS, OTHER_ADDRESS, GONE, MUTE = "sim", "sim2", "gone", "mute"
STEP_NS = 20 * MILLISECOND
FLUSH_NS = 2 * MILLISECOND


class World:
    """Everything that there is.

    Attributes:
        course: makes the course of the next connection of a process, by its name.
        is_deaf: whether who knocks at the server gets no answer at all.
        is_moved: whether nobody listens at the server's first address any more.
        is_private: whether the server refuses everybody but the keeper.
        known_password: the password as the secret's file says it now.
        knocks: when somebody else than the keeper tried to connect, in seconds.
        trace: what happened, each with its second.
    """

    def __init__(self, random: Random, flush_ns: int = FLUSH_NS) -> None:
        self.random = random
        self.agenda = Agenda(SimClock(), Random(random.randrange(1 << 30)))
        self.server = Server(self.agenda, Random(random.randrange(1 << 30)), flush_ns)
        self.course: Callable[[str], Course] = lambda name: FairCourse()
        self.is_deaf = self.is_moved = self.is_private = False
        self.known_password = self.server.password
        self.processes: list[Process] = []
        self.wires: list[Wire] = []
        self.knocks: list[float] = []
        self.trace: list[str] = []
        self._graveyard: list[Generator[Any, Any, Any]] = []
        self._digest = hashlib.sha256()

    # -- time --------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return (self.agenda.clock.now_ns - START) / SECOND

    def run_until(self, is_ready: Callable[[], bool], limit_s: float) -> bool:
        """Let time pass until a condition holds; False when it does not within so many seconds."""
        stop = self.agenda.clock.now_ns + round(limit_s * SECOND)
        while not is_ready():
            if self.agenda.clock.now_ns >= stop:
                return False
            self.agenda.run_until(self.agenda.clock.now_ns + STEP_NS)
            if self.server.failure is not None:
                raise self.server.failure
        return True

    def note(self, text: str) -> None:
        """Add to the trace."""
        line = f"{self.now_s:10.3f}  {text}"
        self.trace.append(line)
        self._digest.update(line.encode())

    def digest(self) -> str:
        """What tells this run from another one: all bytes that were moved, and the trace."""
        return self._digest.hexdigest()[:16]

    # -- processes ---------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """Start a process."""
        process = Process(self, name, Random(self.random.randrange(1 << 30)))
        self.processes.append(process)
        return process

    def kill(self, process: Process) -> None:
        """End a process in the middle of whatever it does."""
        # Whoever forgets a generator closes it, which would run code of the dead.
        self._graveyard += [activity.work for activity in process.activities]
        self.processes.remove(process)
        process.kill()
        self.ended()

    def ended(self) -> None:
        """Something is over that somebody may wait for."""
        self.agenda.plan(self.agenda.clock.now_ns, self._look)

    def _look(self) -> None:
        for process in list(self.processes):
            for activity in list(process.activities):
                activity.look()

    def run(self, process: Process, work: Generator[Any, Any, Any], limit_s: float = 600) -> Any:
        """Run one operation to its end while everything else goes on; return or raise what it does.

        Raises:
            TimeoutError: it takes longer than so many simulated seconds.
        """
        activity = process.start(work)
        if not self.run_until(lambda: activity.is_over, limit_s):
            raise TimeoutError(f"an operation of {process.name} hangs for {limit_s} s")
        return outcome(activity)

    def bury(self) -> None:
        """Close what the dead left behind: that may not wait for anything."""
        while self._graveyard:
            self._graveyard.pop().close()

    # -- what processes stand in -------------------------------------------------------------

    def secret(self) -> str:
        """The password as it is written down now."""
        return self.known_password

    def connect(
        self, process: Process, address: str, connected: Callable[[Wire | None], None]
    ) -> None:
        """Knock at an address; answer in a while with a wire, with None if refused, or never."""
        course = self.course(process.name)
        if process.name != "keeper":
            self.knocks.append(self.now_s)

        def knock() -> None:
            if self.is_deaf or self.server.is_gone or address == MUTE:
                return
            is_moved = self.is_moved and address == FIRST_ADDRESS and process.name != "keeper"
            is_kept_out = self.is_private and process.name != "keeper"
            if not self.server.is_up or address == GONE or is_moved or is_kept_out:
                connected(None)
                return
            wire = Wire(self.agenda, course, self._digest.update, process.name)
            self.wires.append(wire)
            self.server.connect(wire)
            connected(wire)

        self.agenda.plan(self.agenda.clock.now_ns + course.delay_ns(), knock)


def outcome(activity: Activity) -> Any:
    """What an activity that is over returned; or raise what it raised."""
    if activity.error is not None:
        raise activity.error
    return activity.result
