"""Spark, as it calls a source and a sink: one streaming query from its checkpoint on.

The order of calls is that of PySpark 4.3: `initialOffset` twice, `latestOffset` with the end of the
last finished batch, the log of offsets, the commit of the batch before, the tasks, the sink's
commit, the log of commits. After a restart an unfinished batch is planned from the log with the
same ends, and nothing else is asked before. The driver may die between any two of these steps, and
at any moment within them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import ConnectorError, StreamNotFoundError, StreamTruncatedError
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.options.offsets import Offsets
from jetstream_spark.sink.ledger import ScopeKind
from jetstream_spark.sink.sink import WrittenPartition
from jetstream_spark.source.planner import available, plan_ranges
from jetstream_spark.source.stream_source import StreamSource
from tests.connector_sim import scenes
from tests.connector_sim.attempt import ZOMBIE_S_MAX, Attempt, Executors
from tests.connector_sim.checkpoint import Checkpoint
from tests.connector_sim.process import Join, Process, error_name
from tests.connector_sim.target import Target
from tests.connector_sim.told_loss import ToldLoss
from tests.connector_sim.truth import require
from tests.connector_sim.world import World

FAILURES_MAX = 4
TRIGGER_S = 0.1
FOREVER_S = 1e9


@dataclass(slots=True)
class Habits:
    """How often things go wrong on Spark's side; chances for each step or attempt.

    Attributes:
        dies: the driver, between two steps.
        killed: the process of an attempt, somewhere in the middle.
        lost: an attempt is given up and goes on.
        speculated: a second attempt is started beside the first.
        doubled: the sink's commit, the partitions of a batch, the source's commit.
        available_now: a run reads what there is and ends.
        haunted: a driver that is taken for dead goes on for a while beside the next one.
    """

    dies: float = 0.0
    killed: float = 0.0
    lost: float = 0.0
    speculated: float = 0.0
    doubled: float = 0.0
    available_now: float = 0.0
    haunted: float = 0.0


class JobFailedError(Exception):
    """A task failed too often, or the checkpoint is not this driver's any more."""


class Query:
    """One query, over all its runs.

    Attributes:
        checkpoint: what survives a run.
        errors: the conditions of which runs died, with their errors.
        task_errors: those of attempts.
        told_loss: how many sequences the progress counted as lost with each batch.
        told: how many it counted for each stream, in all runs together.
        planned_at_truncation: how many batches were planned when the driver was first told that a
            stream gives sequences a second time; None while it was not.
        begun: when each batch was begun, in seconds.
        sink_commits: the batches that the sink has committed, and when that began and ended.
        spans, tries: how long each batch was written, from its first run to its commit or to what
            a driver that was taken for dead wrote after that; and how many runs there were.
    """

    def __init__(
        self,
        world: World,
        name: str,
        source: SourceOptions,
        target: Target | None,
        habits: Habits,
        kind: ScopeKind = ScopeKind.QUERY,
        *,
        retunes: bool = False,
    ) -> None:
        self._kind = kind
        self._retunes = retunes
        self.world = world
        self.name = name
        self.source_options = source
        self.target = target
        self.habits = habits
        self.checkpoint = Checkpoint()
        self.errors: list[BaseException] = []
        self.task_errors: list[BaseException] = []
        self.runs = 0
        self.slowest_look_s = 0.0
        self.driver: Process | None = None  # the one that counts
        self.random = Random(world.random.randrange(1 << 30))
        self.executors = Executors(world, self.random, habits, self.task_errors)
        self._is_wanted = True
        self.begun: dict[int, float] = {}
        self.told_loss: dict[int, int] = {}
        self.told: Counter[str] = Counter()
        self.planned_at_truncation: int | None = None
        self.sink_commits: list[tuple[float, float, int]] = []
        self.spans: dict[int, float] = {}
        self.tries: dict[int, int] = {}

    # -- the life of its drivers -------------------------------------------------------------

    def start(self) -> None:
        """Start a driver on the checkpoint; another one follows whenever it ends."""
        if not self._is_wanted:
            return
        self.runs += 1
        if self._retunes:
            self._retune(Random(f"run {self.runs}"))
        self.driver = driver = self.world.process(f"driver{self.runs}")
        self.world.note(f"{driver.name} starts at batch {self.checkpoint.committed}")
        driver.start(self._drive(driver), self._ended)

    def _retune(self, random: Random) -> None:
        """The user changes how batches are cut into tasks before the query is started again."""
        self.source_options = replace(
            self.source_options,
            max_offsets_per_partition=random.choice([2, 5, 1000]),
            min_partitions=random.choice([1, 2, 3]),
        )

    def die(self) -> None:
        """The driver's process is killed; what its tasks do goes on for a while."""
        driver = self.driver
        if driver is not None and driver.is_alive:
            if self.random.random() < self.habits.haunted:
                self._let_haunt(driver)
            else:
                self.world.note(f"{driver.name} is killed")
                self.world.kill(driver)
            self._again(driver)

    def _let_haunt(self, driver: Process) -> None:
        """Take a driver for dead that is not; it may go on until it writes to the checkpoint."""
        self.world.note(f"{driver.name} is taken for dead and goes on")
        self.driver = None
        after_ns = self.random.randrange(ZOMBIE_S_MAX * 10**9)

        def end() -> None:
            if driver.is_alive:
                self.world.kill(driver)
                self.executors.orphan(driver)

        self.world.agenda.plan(self.world.agenda.clock.now_ns + after_ns, end)

    def _ended(self, activity: Any) -> None:
        error = activity.error
        if activity.process is not self.driver:  # a ghost found the checkpoint taken, or worse
            self.world.note(f"{activity.process.name} ends: {error}")
            self.executors.orphan(activity.process)
            return
        if error is None:  # a run with availableNow is over; the next one begins
            self.world.note(f"{activity.process.name} has read what there was")
            self.world.kill(activity.process)
            self._again(activity.process)
            return
        if not isinstance(error, ConnectorError | JobFailedError):
            raise error
        # A new query is told that there is no such stream; one that goes on, that data is lost.
        if self.checkpoint.initial or not isinstance(error, StreamNotFoundError):
            self.errors.append(error)
        if isinstance(error, StreamTruncatedError) and self.planned_at_truncation is None:
            self.planned_at_truncation = len(self.checkpoint.offsets)
        self.world.note(f"{activity.process.name} failed: {error_name(error)}: {error}")
        self.world.kill(activity.process)
        self._again(activity.process)

    def _again(self, driver: Process) -> None:
        self.executors.orphan(driver)
        pause_ns = self.random.choice([0, 10**8, 3 * 10**9, 20 * 10**9])
        self.world.agenda.plan(self.world.agenda.clock.now_ns + pause_ns, self.start)

    def stop(self) -> None:
        """End it for good."""
        self._is_wanted = False
        if self.driver is not None and self.driver.is_alive:
            self.world.kill(self.driver)

    # -- one run -----------------------------------------------------------------------------

    def _drive(self, driver: Process) -> Operation[None]:
        log = self.checkpoint
        source = StreamSource(driver, self.source_options)
        if not log.initial:
            first = yield from source.initial_offset()
            yield from self._step(driver, "between the two calls of initialOffset")
            second = yield from source.initial_offset()
            assert first.to_json() == second.to_json(), "initialOffset says two things"
            self._check_own(driver)
            log.initial = _text(first)
        is_once = self.random.random() < self.habits.available_now
        if is_once:
            yield from source.freeze()
        told = ToldLoss(self.told_loss, self.told)
        while True:
            batch = log.committed
            is_planned = len(log.offsets) == batch
            if is_planned:
                start = log.start_of(batch)
                before = driver.now()
                end = yield from source.latest_offset(start)
                told.note_report((yield from source.report()))
                if not is_once:  # which waits for the servers, because nothing new is its end
                    self.slowest_look_s = max(self.slowest_look_s, driver.now() - before)
                if _text(end) == _text(start):
                    if is_once:
                        self._check_frozen(source, end)
                        return
                    yield Join(lambda: False, driver.now() + TRIGGER_S)  # type: ignore[misc]
                    continue
                yield from self._step(driver, "before the offsets are logged")
                self._check_own(driver)
                log.offsets.append(_text(end))
                self.world.note(f"batch {batch} ends at {_short(end)}")
                yield from self._step(driver, "after the offsets were logged")
                if batch:
                    for _ in range(self._times()):
                        yield from source.commit(start)
                    yield from self._step(driver, "after the source's commit")
            yield from self._run_batch(driver, batch)
            if is_planned:
                told.note_finished(batch, _moved(log.start_of(batch), log.end_of(batch)))

    def _run_batch(self, driver: Process, batch: int) -> Operation[None]:
        log = self.checkpoint
        self.begun.setdefault(batch, driver.now())
        self.tries[batch] = self.tries.get(batch, 0) + 1
        tasks = self._tasks(driver, batch)
        for task in tasks:
            task.launch()
        yield Join(lambda: all(t.is_over for t in tasks), FOREVER_S)  # type: ignore[misc]
        if any(task.result is None for task in tasks):
            raise JobFailedError(f"batch {batch}")
        yield from self._step(driver, "before the sink's commit")
        if self.target is not None:
            messages: list[WrittenPartition | None] = [task.result.message for task in tasks]
            for _ in range(self._times()):
                begun = driver.now()
                yield from self.target.sink(driver).commit(messages)
                self.sink_commits.append((begun, driver.now(), batch))
            yield from self._step(driver, "after the sink's commit")
        self._check_own(driver)
        log.rows[batch] = [(task.result.stream, task.result.rows) for task in tasks]
        log.committed_at[batch] = driver.now()
        log.committed += 1
        self.spans[batch] = driver.now() - self.begun[batch]
        count = sum(len(rows) for _, rows in log.rows[batch])
        self.world.note(f"batch {batch} is committed, {count} rows")
        yield from self._step(driver, "after the log of commits")

    def note_written(self, batch: int) -> None:
        """An attempt has ended, maybe long after its batch."""
        if batch in self.spans:
            self.spans[batch] = self.world.now_s - self.begun[batch]

    @property
    def longest_span_s(self) -> float:
        """How long a batch was written at most; one that is not committed, until now."""
        now_s = self.world.now_s
        spans = [self.spans.get(batch, now_s - begun_s) for batch, begun_s in self.begun.items()]
        return max(spans, default=0.0)

    def _tasks(self, driver: Process, batch: int) -> list[Task]:
        options, log = self.source_options, self.checkpoint
        start, end = log.start_of(batch), log.end_of(batch)
        planned = [plan_ranges(start, end, options.tasks) for _ in range(2)]
        assert planned[0] == planned[1], "partitions says two things"
        scope = scenes.scope(self.name, batch, self._kind)
        if self._kind is ScopeKind.JOB:
            scope = scenes.scope(f"{self.name}-{batch}-{self.tries[batch]}", 0, self._kind)
        return [
            Task(
                self,
                driver,
                Attempt.of(self.executors, self, driver, scope, (batch, number), sequences),
            )
            for number, sequences in enumerate(planned[0])
        ]

    def _check_own(self, driver: Process) -> None:
        """Spark does not write to a checkpoint that another driver writes to."""
        if driver is not self.driver:
            raise JobFailedError("the checkpoint is another driver's")

    def _check_frozen(self, source: StreamSource, end: Offsets) -> None:
        """A run with `availableNow` has read what there was when it began."""
        if not self.source_options.fail_on_data_loss:
            return  # what went meanwhile is passed over
        tails = {name: tail for name, tail in (source._frozen or {}).items() if tail is not None}
        left = available(end, tails)
        require(not any(left.values()), "a run with availableNow left", left)

    def _times(self) -> int:
        return 2 if self.random.random() < self.habits.doubled else 1

    def _step(self, driver: Process, where: str) -> Operation[None]:
        """Between two steps; perhaps the driver dies here."""
        if self.random.random() < self.habits.dies:
            self.world.note(f"... {where}")
            agenda = self.world.agenda
            agenda.plan(agenda.clock.now_ns, self.die)
            pause_s = 0.001 if self.habits.haunted else FOREVER_S
            yield Join(lambda: False, driver.now() + pause_s)  # type: ignore[misc]


class Task:
    """One range of one batch: attempts, until one succeeds or too many failed."""

    def __init__(self, query: Query, driver: Process, make: Callable[[int], Attempt]) -> None:
        self.driver = driver
        self.result: Attempt | None = None
        self.is_over = False
        self._query = query
        self._make = make
        self._failures = 0
        self._running: list[Attempt] = []
        self._count = 0
        query.executors.tasks.append(self)

    def launch(self) -> None:
        """Start an attempt, and perhaps a second one at its side."""
        self._add()
        if self._query.random.random() < self._query.habits.speculated:
            self._query.world.note("... a second attempt at its side")
            self._add()

    def orphan(self) -> None:
        """Nobody waits for it any more."""
        self.is_over = True

    def _add(self) -> None:
        attempt = self._make(self._count)
        self._count += 1
        self._running.append(attempt)
        attempt.begin(self._ended)

    def _ended(self, attempt: Attempt) -> None:
        if self.is_over:
            return
        self._running.remove(attempt)
        if attempt.is_good:
            self.is_over, self.result = True, attempt
            for other in self._running:  # Spark kills them, in its time
                other.doom()
            self._query.world.ended()
            return
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            self.is_over = True
            self._query.world.ended()
        elif not self._running:
            self._add()


def _text(offsets: Offsets) -> str:
    return json.dumps(offsets.to_json())


def _short(offsets: Offsets) -> Iterator[str] | str:
    return ", ".join(f"{name}:{at.next}" for name, at in offsets.streams.items())


def _moved(start: Offsets, end: Offsets) -> set[str]:
    """The streams of which a batch reads or passes over something."""
    return {
        name
        for name, at in end.streams.items()
        if name not in start.streams
        or (start.streams[name].created, start.streams[name].next) != (at.created, at.next)
    }
