"""Attempts at tasks: read a range in one process of an executor, write it in another.

An attempt may be killed anywhere; or be given up by the driver while it goes on, as a zombie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from jetstream_server.base.clock import SECOND

from jetstream_spark.errors import ConnectorError
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.sink.ledger import Scope
from jetstream_spark.sink.sink import WrittenPartition
from tests.connector_sim import scenes
from tests.connector_sim.process import Activity, Process, error_name
from tests.connector_sim.target import Place, Row
from tests.connector_sim.world import World

if TYPE_CHECKING:
    from tests.connector_sim.engine import Habits, Query, Task

# How long an attempt lives on that nobody waits for any more.
ZOMBIE_S_MAX = 30


class Executors:
    """The worker processes of a query; one that no attempt uses is used again."""

    def __init__(
        self, world: World, random: Random, habits: Habits, errors: list[BaseException]
    ) -> None:
        self.world = world
        self.random = random
        self.habits = habits
        self.errors = errors
        self.tasks: list[Task] = []
        self.attempts: list[Attempt] = []
        self._idle: list[Process] = []
        self._count = 0

    def lend(self) -> Process:
        """A process for one half of an attempt."""
        if self._idle and self.random.random() < 0.8:
            return self._idle.pop(self.random.randrange(len(self._idle)))
        self._count += 1
        return self.world.process(f"worker{self._count}")

    def put_back(self, process: Process) -> None:
        """It may be used again."""
        if process.is_alive:
            self._idle.append(process)

    def destroy(self, process: Process) -> None:
        """As Spark does with a worker whose task failed."""
        if process.is_alive:
            self.world.kill(process)

    def kill_all(self) -> None:
        """Their host is gone."""
        for attempt in list(self.attempts):
            attempt.kill()

    def orphan(self, driver: Process) -> None:
        """A driver is gone; its executors notice in a while."""
        for task in [each for each in self.tasks if each.driver is driver]:
            task.orphan()
            self.tasks.remove(task)
        for attempt in [each for each in self.attempts if each.driver is driver]:
            attempt.doom()
            self.attempts.remove(attempt)


class Attempt:
    """One attempt.

    Attributes:
        driver: who waits for it.
        stream: which it reads.
        rows: what it read.
        message: what its write returned.
        is_good: whether it succeeded.
    """

    def __init__(
        self,
        executors: Executors,
        query: Query,
        driver: Process,
        scope: Scope,
        place: Place,
        sequences: SequenceRange,
        number: int,
    ) -> None:
        self.driver = driver
        self.stream = sequences.stream
        self.rows: list[Row] = []
        self.message: WrittenPartition | None = None
        self.is_good = False
        self._executors = executors
        self._query = query
        self._scope = scope
        self._place = place
        self._range = sequences
        self._batches: list[pa.RecordBatch] = []
        self._process: Process | None = None
        self._ended: Callable[[Attempt], None] | None = None
        self.name = f"attempt {scope.version}.{place[1]}.{number}"

    @classmethod
    def of(cls, *known: Any) -> Callable[[int], Attempt]:
        """What makes the attempts of one task."""
        return lambda number: cls(*known, number)  # type: ignore[call-arg]

    def begin(self, ended: Callable[[Attempt], None]) -> None:
        """Start reading."""
        executors = self._executors
        self._ended = ended
        executors.attempts.append(self)
        self._plan_misfortune()
        self._process = process = executors.lend()
        work = scenes.read(process, self._query.source_options, self._range)
        executors.world.note(f"{self.name} reads {self._range} in {process.name}")
        process.start(work, self._has_read, self._batches.append)

    def _plan_misfortune(self) -> None:
        random, habits, world = self._executors.random, self._executors.habits, self._world
        chance = random.random()
        delay_s = random.choice([0.005, 0.02, 0.1, 0.5, 3, 12]) * random.random()
        at = world.agenda.clock.now_ns + round(delay_s * SECOND)
        if chance < habits.killed:
            world.agenda.plan(at, self.kill)
        elif chance < habits.killed + habits.lost:
            world.agenda.plan(at, self._lose)

    @property
    def _world(self) -> World:
        return self._executors.world

    def doom(self) -> None:
        """Nobody wants it any more; it ends in a while, and goes on until then."""
        after_s = self._executors.random.choice([0, 0.01, 0.3, ZOMBIE_S_MAX])
        self._ended = None
        at = self._world.agenda.clock.now_ns + round(after_s * SECOND)
        self._world.agenda.plan(at, self.kill)

    def kill(self) -> None:
        """Its process ends, if it is under way."""
        if self._process is not None:
            self._world.note(f"{self.name} is killed")
            self._fail()

    def _lose(self) -> None:
        """The driver takes it for lost; it does not know."""
        if self._ended is not None and self._process is not None:
            self._world.note(f"{self.name} is given up and goes on")
            ended = self._ended
            self.doom()
            ended(self)

    def _fail(self) -> None:
        process, self._process = self._process, None
        assert process is not None, "it has ended already"
        self._executors.destroy(process)
        self._query.note_written(self._place[0])
        self._tell()

    def _tell(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self)

    # -- reading, then writing ---------------------------------------------------------------

    def _failed(self, activity: Activity) -> bool:
        if activity.error is None:
            return False
        self._world.note(f"{self.name} failed: {error_name(activity.error)}: {activity.error}")
        if not isinstance(activity.error, ConnectorError | _ReadFailedError):
            raise activity.error
        self._note(activity.error)
        self._fail()
        return True

    def _note(self, error: BaseException) -> None:
        """Note what went wrong; what a zombie is told, or the attempt of one, is nobody's."""
        if self._ended is not None and self.driver is self._query.driver:
            self._executors.errors.append(error)

    def _has_read(self, activity: Activity) -> None:
        self.rows = list(scenes.rows_of(self._batches))
        target = self._query.target
        if target is None:
            if not self._failed(activity):
                self._succeed()
            return
        if activity.error is not None and not self.rows:
            self._failed(activity)
            return
        reader = self._process
        assert reader is not None, "a dead process read on"
        if activity.error is not None:  # what was read is being written when the read fails
            self._note(activity.error)
            self._executors.destroy(reader)
        else:
            self._executors.put_back(reader)
        self._process = writer = self._executors.lend()
        target.note_read(self._place, self.rows, is_whole=activity.error is None)
        batches = _until(target.outgoing(self._place, self.rows), activity.error)
        work = target.sink(writer).write_partition(batches, self._scope, self._place[1])
        writer.start(work, self._has_written)

    def _has_written(self, activity: Activity) -> None:
        if not self._failed(activity):
            self.message = activity.result
            self._world.note(f"{self.name} wrote {len(self.rows)} rows: {_counts(self.message)}")
            target = self._query.target
            assert target is not None, "then nothing is written"
            begun = self._query.begun[self._place[0]]
            target.note_written(self._world.server, self.rows, begun)
            self._succeed()

    def _succeed(self) -> None:
        process, self._process = self._process, None
        assert process is not None, "a dead process succeeded"
        self._executors.put_back(process)
        self._query.note_written(self._place[0])
        self.is_good = True
        self._tell()


class _ReadFailedError(Exception):
    """The rows end here, because the process that reads them died."""


def _until(batches: list[pa.RecordBatch], error: BaseException | None) -> Any:
    """The batches, twice readable; or as far as a read came that failed."""
    if error is None:
        return batches

    def cut_short() -> Iterator[pa.RecordBatch]:
        yield from batches
        raise _ReadFailedError(str(error))

    return cut_short()


def _counts(written: WrittenPartition | None) -> str:
    assert written is not None, "a write returned nothing"
    return f"{written.rows}, {written.duplicates} duplicates, {written.skipped} skipped"
