"""The server's files are put back from an older copy while it does not run, and what must be told.

Such a server gives sequences a second time. What must hold then:

- A query that had seen the end of a stream that is gone again ends with an error that says so, and
  plans no batch after that, in no run; or, with `failOnDataLoss` false, counts at least what it
  passes over.
- Nothing that the stream has, and that the query has not read, lies before its position without
  such a word.
- When the ledger does not know the last batches any more, the next one warns.

What is not noticed (docs/options.md#data-loss): the newest message that the query knew, or the one
that has its sequence now, was removed, and what is left before it was stored within ten seconds of
its time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any

from jetstream_spark.client.control import Control
from jetstream_spark.errors import DataLossError, RetryableError, StreamTruncatedError
from jetstream_spark.options.offsets import Newest
from jetstream_spark.sink.ledger import ScopeKind
from jetstream_spark.source.older_copy import CLOCK_STEP_MAX_NS
from tests.connector_sim.engine import Query
from tests.connector_sim.process import Join, Process
from tests.connector_sim.program import Program
from tests.connector_sim.stream_target import RIVAL, StreamTarget
from tests.connector_sim.truth import Life, Past, Truth, require
from tests.connector_sim.world import World
from tests.sim.clock import START

_LOGGER = logging.getLogger("jetstream_spark")
_WARNING = "older copy of its files"
# A query that has just failed waits for a while, and then for a few time limits.
SETTLED_AFTER_S = 300


class Backup:
    """Copies of one server's files, and the judge of what follows.

    Args:
        is_ours: whether the query reads messages of a subject.

    Attributes:
        is_back: files were put back that lacked something of a stream that is read.
        is_sink_back: the same of what is written to.
        is_ledger_back: files were put back in which there was no ledger yet.
    """

    def __init__(
        self,
        world: World,
        truth: Truth,
        query: Query,
        program: Program,
        is_ours: Callable[[bytes], bool],
    ) -> None:
        self.is_back = self.is_sink_back = self.is_ledger_back = False
        self._world = world
        self._truth = truth
        self._query = query
        self._program = program
        self._is_ours = is_ours
        self._random = Random(f"backup {program.seed}")
        self._rivals = Random(f"rivals {program.seed}")
        self._is_pending = False  # files were put back, and the server has not started since
        self._reached: dict[str, int] = {}  # where each stream ended before
        self._must_tell: dict[str, Newest] = {}  # by stream: the one that is not there
        self._before = (0, 0)  # errors of drivers and of tasks, by then
        self._ledger_knows: int | None = None
        self._had_ledger = False  # before files were put back
        self._back_at = 0.0
        self._warned_at: list[float] = []
        world.server.started = self._started

    # -- what happens --------------------------------------------------------------------------

    def work(
        self,
        host: Process,
        enter: Callable[[], Any],
        leave: Callable[[], None],
        publish: Callable[[int], Any],
    ) -> Generator[Any, Any, None]:
        """Take copies, and put them back.

        Args:
            enter, leave: between them nobody else changes a stream.
            publish: publishes so many messages; those who publish may be back before Spark is, and
                the streams further than they were.
        """
        random, span_s = self._random, self._program.lasts_s / self._program.put_backs
        while not self._query.checkpoint.initial:
            yield Join(lambda: False, host.now() + 0.1)
        for _ in range(self._program.put_backs):
            yield Join(lambda: False, host.now() + 0.4 * span_s * random.random())
            if self._world.server.is_up:
                self._world.note("a copy is taken")
                self._world.server.take_copy()
            yield Join(lambda: False, host.now() + 0.5 * span_s * random.random() ** 2)
            yield from enter()
            yield from self._put_back(host)
            leave()
            yield from self._write_beside(host)
            yield from publish(random.choice([0, 3, 10, 30]))
            self._world.is_private = False

    def _put_back(self, host: Process) -> Generator[Any, Any, None]:
        server, random = self._world.server, self._random
        if not server.has_copy:
            return
        target = self._query.target
        names = [*self._program.streams, *([target.stream] if target is not None else [])]
        self._reached = {name: server.holds(name).stop for name in names}
        self._had_ledger = self._has_ledger()
        if random.random() < 0.7:
            server.stop()
            yield Join(lambda: self._has_stopped(names), host.now() + 1)
        if server.is_up:
            server.kill(power=random.random() < 0.3)
        self._world.note("files are put back")
        server.put_back()
        self._is_pending = True
        self._world.is_private = random.random() < 0.7
        yield Join(lambda: False, host.now() + random.choice([0.01, 0.3, 2, 8]))
        server.start()

    def _has_stopped(self, names: list[str]) -> bool:
        """Tell whether the server is down, and note how far each stream came until then: it goes on
        storing while it stops."""
        server = self._world.server
        if server.is_up:
            self._reached = {name: server.holds(name).stop for name in names}
        return not server.is_up

    def _write_beside(self, host: Process) -> Generator[Any, Any, None]:
        """Others bring the stream that is written to about as far again, or farther."""
        target, chance = self._query.target, self._rivals
        if not self._program.has_rivals or not isinstance(target, StreamTarget):
            return
        options = self._query.source_options.connection
        control = Control(host, options, "keeper", patience_s=0)
        for number in range(chance.choice([0, 1, 2, 4, 8, 16, 40])):
            with contextlib.suppress(RetryableError):
                payload = RIVAL + b"%d-%d" % (self._world.now_s, number)
                yield from control.request_message("out.x", payload)

    # -- what is known then ----------------------------------------------------------------------

    def _started(self) -> None:
        if not self._is_pending:
            return
        self._is_pending = False
        query, server = self._query, self._world.server
        self._back_at = self._world.now_s
        for name in self._program.streams:
            self._note_past(self._truth.now(name))
        self.is_ledger_back |= self._had_ledger and not self._has_ledger()
        self._ledger_knows = self._last_in_ledger()
        if isinstance(query.target, StreamTarget):
            query.target.note_put_back(server, self._back_at)
            stream = query.target.stream
            self.is_sink_back |= server.holds(stream).stop < self._reached[stream]

    def _note_past(self, life: Life) -> None:
        server, log = self._world.server, self._query.checkpoint
        life.pasts.append(Past(self._back_at, life.stored, life.others))
        held = server.messages(life.stream)
        life.stored = {one.sequence: one.payload for one in held if self._is_ours(one.subject)}
        life.sent_at = {}
        life.others = {one.sequence for one in held} - set(life.stored)
        stop = server.holds(life.stream).stop
        self.is_back |= stop < self._reached[life.stream]
        known = log.end_of(len(log.offsets) - 1) if log.offsets else log.start_of(0)
        newest = known.streams[life.stream].newest
        self._world.note(f"{life.stream} ends before {stop}, the query knew {newest}")
        if newest is not None and newest.sequence >= stop:
            if not self._must_tell:
                self._before = len(self._query.errors), len(self._query.task_errors)
            self._must_tell[life.stream] = newest
            self.is_back = True

    def _has_ledger(self) -> bool:
        target = self._query.target
        if target is None:
            return False
        bucket = target.options.ledger_bucket
        return self._world.server.has_stream(f"KV_{bucket}")

    def _last_in_ledger(self) -> int | None:
        """The last version that the ledger has as written; None without any."""
        target, server = self._query.target, self._world.server
        if target is None or not server.has_stream(f"KV_{target.options.ledger_bucket}"):
            return None
        versions = [
            json.loads(one.payload)["version"]
            for one in server.messages(f"KV_{target.options.ledger_bucket}")
            if one.subject.count(b".") == 4 and one.payload
        ]
        return versions[-1] if versions else None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the warnings of the connector."""
        heard = _Heard(lambda: self._warned_at.append(self._world.now_s))
        level, propagates = _LOGGER.level, _LOGGER.propagate
        _LOGGER.addHandler(heard)
        _LOGGER.setLevel(logging.WARNING)
        _LOGGER.propagate = False
        try:
            yield
        finally:
            _LOGGER.removeHandler(heard)
            _LOGGER.setLevel(level)
            _LOGGER.propagate = propagates

    # -- what must hold --------------------------------------------------------------------------

    def _read(self, stream: str) -> set[bytes | None]:
        """What the query has read of a stream, in batches that are committed."""
        rows = self._query.checkpoint.rows.values()
        return {
            data for parts in rows for name, part in parts if name == stream for _, data in part
        }

    def unread(self, life: Life) -> list[int]:
        """What a stream has that is in no committed batch."""
        read = self._read(life.stream)
        return [sequence for sequence, data in life.stored.items() if data not in read]

    def _passed_over(self, life: Life) -> list[int]:
        end = self._query.checkpoint.committed_end
        if end is None or end.streams[life.stream].created != life.created:
            return []
        stop = end.streams[life.stream].next
        return [at for at in self.unread(life) if life.gone_below <= at < stop]

    def is_excused(self, stream: str) -> bool:
        """Whether nothing is left that could tell."""
        life, newest = self._truth.now(stream), self._must_tell.get(stream)
        if newest is None or self._world.server.holds(stream).stop <= newest.sequence:
            return False
        is_kept = self._program.retention != "interest"
        held = {*life.stored, *life.others} if is_kept else {*life.stored}
        held = {at for at in held if life.gone_below <= at <= newest.sequence}
        late_s = (newest.time_ns + CLOCK_STEP_MAX_NS - START) / 1e9
        is_late = any(life.sent_at.get(at, 0.0) >= late_s for at in held)
        return newest.sequence not in held and not is_late

    def _is_told(self) -> bool:
        """Whether a driver or a task was told; where somebody removes messages, of any loss."""
        drivers, tasks = self._before
        errors = [*self._query.errors[drivers:], *self._query.task_errors[tasks:]]
        loss = DataLossError if "purge" in self._program.faults else StreamTruncatedError
        return any(isinstance(error, loss) for error in errors)

    def written_before(self) -> frozenset[int]:
        """The batches of which rows may be gone without a word.

        That are those whose commit had begun when files were put back; and where the commit does
        not look for what tasks were told before that, or the batch has read other messages with the
        same sequences since, those that were begun.
        """
        query, found = self._query, set()
        # A driver that was taken for dead may commit once more what another one has.
        ends = query.checkpoint.committed_at
        committed = {
            batch: begun
            for begun, _, batch in query.sink_commits
            if begun <= ends.get(batch, math.inf)
        }
        for batch, begun in query.begun.items():
            is_sure = self._program.looks_back and not self._has_varied(batch)
            since = committed.get(batch, 0.0) if is_sure else begun
            found |= {batch} if since < self._back_at else set()
        return frozenset(found)

    def _has_varied(self, batch: int) -> bool:
        """Whether a batch that ran more than once may have read other messages before."""
        parts = self._query.checkpoint.rows.get(batch, ())
        return self._query.tries.get(batch, 0) > 1 and any(
            past.stored.get(sequence, data) != data
            for name, rows in parts
            for sequence, data in rows
            for past in self._truth.now(name).pasts
        )

    def is_settled(self, calm_s: float) -> bool:
        """Whether all that has to be told has been told, or should have been by now.

        Args:
            calm_s: for how long there have been no faults.
        """
        if calm_s > SETTLED_AFTER_S:
            return True
        if not self._program.fails_on_loss:
            return all(self._is_counted(name) for name in self._program.streams)
        return self._is_told() or all(map(self.is_excused, self._must_tell))

    def _is_counted(self, stream: str) -> bool:
        passed_over = self._passed_over(self._truth.now(stream))
        return self.is_excused(stream) or len(passed_over) <= self._query.told[stream]

    def check(self) -> None:
        """Complain of what should have been told."""
        query = self._query
        if self._program.fails_on_loss:
            silent = {n: at for n, at in self._must_tell.items() if not self.is_excused(n)}
            text = "sequences were given again without a word, by stream the last one known:"
            require(self._is_told() or not silent, text, silent)
        for name in self._program.streams:
            passed_over = self._passed_over(self._truth.now(name))
            if self._program.fails_on_loss:
                word = self._is_told() or self.is_excused(name) or not passed_over
                require(word, f"of {name} were passed over without a word:", passed_over)
            else:
                counted = query.told[name]
                text = f"of {name} were passed over, and {counted} were counted:"
                require(self._is_counted(name), text, passed_over)
        planned = query.planned_at_truncation
        if planned is not None and not any(map(self.is_excused, self._must_tell)):
            count = len(query.checkpoint.offsets)
            require(count == planned, f"{count - planned} batches were planned after it was told")
        self._check_warning()

    def _check_warning(self) -> None:
        """The next batch warns if the ledger has lost those before it."""
        program, known = self._program, self._ledger_knows
        if known is None or program.scope != ScopeKind.QUERY or not program.promises_exact_output:
            return
        since = [each for each in self._query.sink_commits if each[1] >= self._back_at]
        # What was begun before may have been noted before and lost, or noted afterwards.
        known = max([known, *(batch for begun, _, batch in since if begun < self._back_at)])
        later = [batch for begun, _, batch in since if begun >= self._back_at]
        if later and later[0] > known + 1:
            is_warned = any(at >= self._back_at for at in self._warned_at)
            text = f"batch {later[0]} followed batch {known} in the ledger without a warning"
            require(is_warned, text)


class _Heard(logging.Handler):
    """Listens for the warnings about older copies."""

    def __init__(self, heard: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        if _WARNING in record.getMessage():
            self._heard()
