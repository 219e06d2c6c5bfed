"""One seed: a program of faults and what must hold meanwhile, then calm, and all must be there.

What must hold:

- A task reads of its range each message once, and on a stream that nobody else removes from, all.
- Nothing leaves a work queue that is not in a committed batch.
- What went wrong is said with an error that the faults explain; where messages may be removed
  behind the query's back, a loss is told of when `failOnDataLoss` is true.
- The driver's look at its streams never takes longer than its time limits.
- When the faults are over the query comes to the end by itself, and then: what the committed
  batches have read is the input, each row once; what is in the sink is that, each row once where
  dedupe and ledger promise it, and at least once elsewhere.
- A seed says the same each time, byte for byte.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator
from random import Random
from typing import Any

from jetstream_spark.errors import (
    AuthenticationFailedError,
    ConnectorError,
    DataLossError,
    RetryableError,
)
from tests.connector_sim import scenes
from tests.connector_sim.attempt import PREFIX
from tests.connector_sim.courses import FairCourse, RoughCourse
from tests.connector_sim.engine import Query
from tests.connector_sim.process import Join
from tests.connector_sim.program import Program, choose
from tests.connector_sim.truth import BrokenPromiseError, Life, Truth, require
from tests.connector_sim.wire import Course
from tests.connector_sim.world import World

# Faults end, the query has to catch up: a driver that has just failed, a few time limits, batches.
CALM_LIMIT_S = 900
WINDOW_S = 120


class Simulation:
    """The run of one seed."""

    def __init__(self, seed: int, program: Program | None = None) -> None:
        self.program = program or choose(seed)
        self.random = Random(seed)
        self.world = World(Random(self.random.randrange(1 << 30)), self.program.flush_ns)
        self.truth = Truth()
        self.keeper = scenes.Keeper(self.world.process("keeper"))
        self.is_calm = False
        self._has_lost = False
        self._is_entered = False
        self._errors_before = 0
        self._wires = Random(self.random.randrange(1 << 30))
        program = self.program
        source = scenes.source_options(stream="IN", **program.source)
        sink = None
        if program.dedupe:
            named = {"dedupe": program.dedupe, "ledger": program.ledger} | program.sink
            sink = scenes.sink_options(stream="OUT", **named)
        self.query = Query(self.world, "q", source, sink, program.habits)

    def run(self) -> str:
        """Play it; return the digest.

        Raises:
            BrokenPromiseError: something does not hold.
        """
        world, program = self.world, self.program
        world.note(str(program))
        world.server.start()
        self._keep(self._make())
        world.course = self._course
        self.query.start()
        producing = self.keeper.process.start(self._produce())
        harming = self.keeper.process.start(self._harm())
        self._pass(lambda: producing.is_over and harming.is_over, 2_000, "the faults")
        for activity in (producing, harming):
            if activity.error is not None:
                raise activity.error
        self._calm_down()
        self._pass(self._has_all, CALM_LIMIT_S, "the query after the faults")
        self.query.stop()
        self._pass(lambda: not self._is_anybody_left(), 100, "zombies")
        self._check_errors()
        self._check_input()
        if self.query.sink_options is not None:
            self._check_output()
        world.bury()
        return world.digest()

    # -- letting time pass -------------------------------------------------------------------

    def _keep(self, work: Generator[Any, Any, Any]) -> Any:
        return self.world.run(self.keeper.process, work)

    def _pass(self, is_ready: Any, limit_s: float, what: str) -> None:
        def is_done() -> bool:
            self._check_queue()
            return bool(is_ready())

        if not self.world.run_until(is_done, limit_s):
            raise BrokenPromiseError(f"{what}: not over after {limit_s:g} s")

    def _is_anybody_left(self) -> bool:
        others = [each for each in self.world.processes if each is not self.keeper.process]
        return any(process.activities for process in others)

    def _course(self, name: str) -> Course:
        if self.is_calm or name == "keeper":
            return FairCourse()
        program = self.program
        return RoughCourse(self._wires, program.cut_chance, program.stall_max_s)

    # -- input -------------------------------------------------------------------------------

    def _make(self) -> Generator[Any, Any, None]:
        retention = "workqueue" if self.program.is_queue else "limits"
        state = yield from self.keeper.make("IN", retention=retention)
        self.truth.lives.append(Life(state.created))
        if self.program.dedupe:
            yield from self.keeper.make("OUT")

    def _produce(self) -> Generator[Any, Any, None]:
        program, control = self.program, self.keeper.control
        number = 0
        for portion in range(program.portions):
            yield Join(lambda: False, control.host.now() + program.lasts_s / program.portions)
            while number < program.messages * (portion + 1) // program.portions:
                data = b"%d" % number + b"x" * self.random.choice([0, 10, 300])
                headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % data
                number += 1
                self.truth.uncertain.add(data)
                yield from self._enter()
                life = self.truth.now
                ack = yield from control.request_message("in.x", data, headers)
                life.stored[int(ack["seq"])] = data
                self._is_entered = False
                self.truth.uncertain.discard(data)

    def _enter(self) -> Generator[Any, Any, None]:
        """Wait until nobody else changes the stream: what an ack says is of the stream as it is."""
        while self._is_entered:
            yield Join(lambda: False, self.keeper.process.now() + 0.01)
        self._is_entered = True

    # -- faults ------------------------------------------------------------------------------

    def _harm(self) -> Generator[Any, Any, None]:
        program, host = self.program, self.keeper.process
        if not program.faults:
            return
        stop = host.now() + program.lasts_s
        while host.now() < stop:
            pause_s = self.random.expovariate(1 / program.fault_pause_s)
            yield Join(lambda: False, host.now() + pause_s)
            kind = self.random.choice(program.faults)
            self.world.note(f"fault: {kind}")
            yield from self._fault(kind)

    def _fault(self, kind: str) -> Generator[Any, Any, None]:
        server, world, host = self.world.server, self.world, self.keeper.process
        outage_s = self.random.choice([0.01, 0.3, 2, 8, 25])
        match kind:
            case "kill" | "power":
                server.kill(power=kind == "power")
                yield Join(lambda: False, host.now() + outage_s)
                server.start()
            case "stop":
                server.stop()
                yield Join(lambda: not server.is_up, host.now() + 60)
                yield Join(lambda: False, host.now() + outage_s)
                server.start()
            case "deaf":
                world.is_deaf = True
                yield Join(lambda: False, host.now() + outage_s)
                world.is_deaf = False
            case "rotate":
                password = f"password{self.random.randrange(1 << 30)}"
                world.known_password = password
                server.rotate(password)
            case "cut all":
                for wire in list(world.wires):
                    if not wire.name.startswith("keeper"):
                        wire.cut()
            case "harmless config":
                state = yield from self.keeper.control.stream_state("IN")
                config = state.config | {"description": f"{host.now()}"}
                yield from self.keeper.control.request("STREAM.UPDATE.IN", config)
            case _:
                yield from self._enter()
                yield from self._remove(kind)
                self._is_entered = False

    def _remove(self, kind: str) -> Generator[Any, Any, None]:
        control, life = self.keeper.control, self.truth.now
        state = yield from control.stream_state("IN")
        middle = self.random.randrange(state.first, state.next + 1)
        if kind == "recreate":
            life.gone_below = 1 << 60
            self._has_lost = True
            yield from control.request("STREAM.DELETE.IN")
            state = yield from self.keeper.make("IN")
            self.truth.lives.append(Life(state.created))
            return
        life.gone_below = max(life.gone_below, middle)
        if kind == "purge":
            yield from control.purge("IN", middle)
        else:
            count = max(1, state.next - middle)
            life.gone_below = 1 << 60  # and what comes pushes out more
            with contextlib.suppress(ConnectorError):
                yield from control.request("STREAM.UPDATE.IN", state.config | {"max_msgs": count})
        self._has_lost = True

    def _calm_down(self) -> None:
        world = self.world
        world.note("calm")
        self.is_calm = True
        world.is_deaf = False
        world.server.start()
        habits = self.program.habits
        habits.dies = habits.killed = habits.lost = habits.speculated = 0.0
        if self.program.cut_chance or self.program.stall_max_s:  # rough ones would stay rough
            for wire in list(world.wires):
                if not wire.name.startswith("keeper"):
                    wire.cut()
        self._errors_before = len(self.query.errors)

    # -- what must hold ----------------------------------------------------------------------

    def _check_queue(self) -> None:
        """Nothing has left the work queue that is not in a committed batch."""
        if not self.program.is_queue or not self.world.server.is_up:
            return
        first = self.world.server.holds("IN").start
        end = self.query.checkpoint.committed_end
        reached = end.streams["IN"].next if end is not None else 1
        require(first <= reached, f"the queue begins at {first}, committed is up to {reached}")

    def _has_all(self) -> bool:
        if self._is_lost():
            return True
        end = self.query.checkpoint.committed_end
        held = self.world.server.holds("IN")
        if not held:
            return True
        return end is not None and (
            end.streams["IN"].created == self.truth.now.created
            and end.streams["IN"].next >= held.stop
        )

    def _is_lost(self) -> bool:
        """Whether the query has said that messages are lost, and may not go on."""
        if not self._has_lost:
            return False
        return any(
            isinstance(each, DataLossError) and self.program.fails_on_loss
            for each in self._errors()
        )

    def _errors(self) -> list[BaseException]:
        return [*self.query.errors, *self.query.task_errors]

    def _check_errors(self) -> None:
        program, query = self.program, self.query
        for error in self._errors():
            if not isinstance(error, ConnectorError) or isinstance(error, RetryableError):
                continue
            is_loss = self._has_lost and isinstance(error, DataLossError)
            # Who says the old password before it has been let in once cannot know better.
            is_rotated = "rotate" in program.faults and isinstance(error, AuthenticationFailedError)
            require(is_loss or is_rotated, "unexplained:", error)
        is_fair = not program.cut_chance and not program.stall_max_s
        if is_fair and not program.faults:
            is_quiet = not any(isinstance(each, ConnectorError) for each in self._errors())
            require(is_quiet, "errors without a fault:", self._errors())
        if not self._is_lost():
            late = query.errors[self._errors_before + 1 :]
            require(not late, "the query died in calm weather:", late)
        request_s = query.source_options.connection.request_timeout_s
        connect_s = query.source_options.connection.connect_timeout_s
        limit_s = 12 * (request_s + connect_s)
        require(query.slowest_look_s < limit_s, f"a look took {query.slowest_look_s:g} s")

    def _check_input(self) -> None:
        """Each committed batch has each row of its ranges once."""
        log, program = self.query.checkpoint, self.program
        for batch in range(log.committed):
            end = log.end_of(batch).streams["IN"]
            start = log.start_of(batch).streams["IN"]
            first = start.next if start.created == end.created else 1
            rows = [row for part in log.rows[batch] for row in part]
            is_whole = not program.is_lossy or program.fails_on_loss
            self.truth.check_rows(end.created, first, end.next, rows, is_whole=is_whole)

    def _check_output(self) -> None:
        log = self.query.checkpoint
        stored = self._keep(self.keeper.messages("OUT"))
        found = Counter(stored.values())
        batches = [[row for part in log.rows[n] for row in part] for n in range(log.committed)]
        wanted = Counter(PREFIX + data for rows in batches for _, data in rows)
        lost = wanted - found
        require(not lost, "not in the sink:", sorted(lost))
        if self._is_lost():
            return  # of a batch that was not committed anything may be there
        program = self.program
        is_quick = max(self.query.spans.values(), default=0.0) < WINDOW_S
        if program.promises_exact_output or (program.dedupe != "none" and is_quick):
            if program.is_lossy:  # an earlier attempt may have read what is gone by now
                wanted = Counter(dict.fromkeys(found, 1))
            require(found == wanted, "in the sink too often:", sorted(found - wanted))
