"""One seed: a program of faults and what must hold meanwhile, then calm, and all must be there.

What must hold:

- A task reads of its range each message once, and on a stream that nobody else removes from, all.
- Nothing leaves a work queue, or a stream with interest retention, that is not in a committed
  batch; of other subjects nothing leaves it at all.
- What went wrong is said with an error that the faults explain; where messages may be removed
  behind the query's back, a loss is told of when `failOnDataLoss` is true.
- The driver's look at its streams never takes longer than its time limits.
- With `failOnDataLoss` false the progress counts at least what a batch did not get.
- What a task was told is written is in the sink at that moment.
- When the faults are over the query comes to the end by itself, and then: what the committed
  batches have read is the input, each row once; what is in the sink is that, each row once where
  dedupe and ledger promise it, and at least once elsewhere.
- What files that were put back from an older copy take away is told (`backup.py`).
- A seed says the same each time, byte for byte.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from jetstream_spark.client.agreement import AGREED_S
from jetstream_spark.client.control import Control
from jetstream_spark.errors import (
    AttemptSupersededError,
    AuthenticationFailedError,
    ConnectionFailedError,
    ConnectorError,
    DataLossError,
    LedgerError,
    RetryableError,
    StreamRecreatedError,
)
from jetstream_spark.sink.ledger import ScopeKind
from tests.connector_sim import scenes
from tests.connector_sim.backup import Backup
from tests.connector_sim.bucket_target import BucketTarget
from tests.connector_sim.courses import FairCourse, RoughCourse
from tests.connector_sim.engine import Query
from tests.connector_sim.object_origin import ObjectOrigin
from tests.connector_sim.object_target import ObjectTarget
from tests.connector_sim.process import Join
from tests.connector_sim.program import Program, choose
from tests.connector_sim.stream_target import StreamTarget
from tests.connector_sim.target import PREFIX, Target, Written
from tests.connector_sim.truth import BrokenPromiseError, Life, Truth, require
from tests.connector_sim.wire import Course
from tests.connector_sim.world import OTHER_ADDRESS, World

# Faults end, the query has to catch up: a driver that has just failed, a few time limits, batches.
CALM_LIMIT_S = 900
WINDOW_S = 120
# What may not be there even for a moment is looked for this often.
LOOK_EVERY_S = 0.1
TARGETS: dict[str, Callable[[Program], Target]] = {
    "stream": StreamTarget,
    "bucket": BucketTarget,
    "objects": ObjectTarget,
}


class Simulation:
    """The run of one seed."""

    def __init__(self, seed: int, program: Program | None = None) -> None:
        self.program = program or choose(seed)
        self.random = Random(seed)
        self.world = World(Random(self.random.randrange(1 << 30)), self.program.flush_ns)
        self.truth = Truth()
        self.keeper = scenes.Keeper(self.world.process("keeper"))
        self.is_calm = False
        self._has_rivals = self.program.has_zombies
        self._has_lost = False
        self._is_entered = False
        self._errors_before = 0
        self._starts_late = False
        self._wires = Random(self.random.randrange(1 << 30))
        program = self.program
        named = {"stream": ",".join(program.streams)}
        if program.is_object_source:
            named = {"objectStore": "IN"}
        source = scenes.source_options(**named, **program.source)
        target = TARGETS[program.target](program) if program.dedupe else None
        kind = ScopeKind(program.scope)
        self.query = Query(
            self.world, "q", source, target, program.habits, kind, retunes=program.retunes
        )
        self._objects = ObjectOrigin(self.keeper, Random(f"objects {seed}"))
        self._backup: Backup | None = None
        if program.put_backs:
            known = self.world, self.truth, self.query, program
            self._backup = Backup(*known, self._is_subject_ours)
        self._more: set[bytes] = set()
        self._marks: dict[str, Any] = {}
        self._looked_at = self._calm_since = 0.0

    def run(self) -> str:
        """Play it; return the digest.

        Raises:
            BrokenPromiseError: something does not hold.
        """
        backup = self._backup
        with scenes.small_chunks(), backup.listening() if backup else contextlib.nullcontext():
            return self._play()

    def _play(self) -> str:
        world, program = self.world, self.program
        world.server.lag_ns = round(program.lag_s * 10**9)
        world.note(str(program))
        world.server.is_cluster = program.has_stale_leaders
        if program.has_other_addresses:
            world.server.other_address = f"{OTHER_ADDRESS}:4222"
        world.server.start()
        self._keep(self._make())
        world.course = self._course
        self.query.start()
        producing = self.keeper.process.start(self._produce())
        changing = [producing, self.keeper.process.start(self._harm())]
        if self._backup is not None:
            work = self._backup.work(
                self.keeper.process, self._enter, self._leave, self._publish_more
            )
            changing.append(self.keeper.process.start(work))
        self._pass(lambda: all(one.is_over for one in changing), 2_000, "the faults")
        for activity in changing:
            if activity.error is not None:
                raise activity.error
        self._calm_down()
        self._pass(self._has_all, CALM_LIMIT_S, "the query after the faults")
        self.query.stop()
        self._pass(lambda: not self._is_anybody_left(), 100, "zombies")
        self._check_errors()
        self._check_input()
        self._check_output()
        if self._backup is not None and not self._is_stuck():
            self._backup.check()
        world.bury()
        return world.digest()

    # -- letting time pass -------------------------------------------------------------------

    def _keep(self, work: Generator[Any, Any, Any]) -> Any:
        return self.world.run(self.keeper.process, work)

    def _pass(self, is_ready: Any, limit_s: float, what: str) -> None:
        def is_done() -> bool:
            self._check_queue()
            self._look()
            if self.program.lag_s and self.world.server.is_up:
                self.world.server.let_lag()
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
        chances = program.cut_chance, program.stall_max_s
        return RoughCourse(self._wires, *chances, PREFIX, program.row_stall_chance)

    # -- input -------------------------------------------------------------------------------

    def _make(self) -> Generator[Any, Any, None]:
        program = self.program
        for name in program.streams:
            yield from self._make_source(name)
        if self.query.target is not None:
            yield from self.query.target.make(self.keeper)

    def _make_source(self, name: str) -> Generator[Any, Any, None]:
        program = self.program
        config: dict[str, Any] = {"retention": program.retention}
        if program.is_object_source:
            config |= {"subjects": ["$O.IN.C.>", "$O.IN.M.>"], "allow_rollup_hdrs": True}
        if program.max_age_s:
            age_ns = program.max_age_s * 10**9
            config |= {"max_age": age_ns, "duplicate_window": age_ns}
        late = self._purged_late_below(name)
        state = yield from self.keeper.make(name, **config)
        life = Life(name, state.created, gone_below=late)
        if program.max_age_s:
            life.gone_below, self._has_lost = 1 << 60, True
        self.truth.lives.append(life)

    def _purged_late_below(self, name: str) -> int:
        """Up to where a purge is under way that was meant for the stream of this name before, and
        will be carried out on the next one: nothing of it tells the server which was meant."""
        below, request = 1, re.compile(rb"\.STREAM\.PURGE\.%b .*\r\n(.+)\r\n" % name.encode())
        for wire in self.world.wires:
            for is_to_server, start, data in wire.said:
                if is_to_server and start + len(data) > wire.up and (found := request.search(data)):
                    below = max(below, json.loads(found[1])["seq"])
        return below

    def _produce(self) -> Generator[Any, Any, None]:
        program, control = self.program, self.keeper.control
        while program.retention == "interest" and not self.query.checkpoint.initial:
            # What nobody is interested in yet is not kept.
            yield Join(lambda: False, control.host.now() + 0.1)
        number = 0
        for portion in range(program.portions):
            yield Join(lambda: False, control.host.now() + program.lasts_s / program.portions)
            while number < program.messages * (portion + 1) // program.portions:
                data = b"%d" % number + b"x" * self.random.choice([0, 10, 300])
                number += 1
                if program.is_object_source:
                    yield from self._objects.change(self.truth.now("OBJ_IN"), data)
                    continue
                stream, token = self._target()
                while not (yield from self._publish(stream, token, data)):
                    data += b"."
                    yield Join(lambda: False, control.host.now() + 1)

    def _publish_more(self, count: int) -> Generator[Any, Any, None]:
        """Publish messages beside those of the program, each tried once."""
        for number in range(count):
            stream, token = self._target()
            data = b"more-%d-%d" % (self.world.now_s, number)
            while data in self._more:
                data += b"."
            self._more.add(data)
            yield from self._publish(stream, token, data)

    def _publish(self, stream: str, token: str, data: bytes) -> Generator[Any, Any, bool]:
        """Publish a message; tell whether it is known what became of it.

        Without an answer it is not sent again: the server may have stored it, and may have
        forgotten its id by then.
        """
        truth, keeper = self.truth, self.keeper.control
        control = Control(keeper.host, keeper.options, keeper.role, patience_s=0)
        is_ours = self._is_token_ours(token)
        if is_ours:
            truth.uncertain.add(data)
        yield from self._enter()
        life, is_kept, sent_at = truth.now(stream), self._is_kept(stream), self.world.now_s
        try:
            headers = self._headers(data, life) if self.program.has_servers_names else b""
            ack = yield from control.request_message(f"{stream.lower()}.{token}", data, headers)
        except RetryableError:
            return False
        finally:
            self._is_entered = False
        if not is_kept:  # it may be, if somebody has become interested meanwhile
            return True
        life.sent_at[int(ack["seq"])] = sent_at
        if is_ours:
            life.stored[int(ack["seq"])] = data
            truth.uncertain.discard(data)
        else:
            life.others.add(int(ack["seq"]))
        return True

    def _headers(self, data: bytes, life: Life) -> bytes:
        """What a message says of itself in the server's words."""
        chance, last = Random(data), max(life.sent_at, default=0)
        sequence = chance.choice([1, last, last + 5, 10_000])
        lines = [
            chance.choice([b"NATS/1.0", b"NATS/1.1 404 x", b"NATS/1.1 503", b"12345678204 EOB"]),
            b"Nats-Stream: X\r\nNats-Subject: x",
            b"Nats-Sequence: %d" % sequence,
            b"Nats-Time-Stamp: 2020-01-01T00:00:00Z\r\nNats-Num-Pending: 0",
            b"Nats-Last-Sequence: %d" % chance.choice([0, last, last, 7]),
        ]
        kept = [lines[0], *(line for line in lines[1:] if chance.random() < 0.7)]
        return b"\r\n".join([*kept, b"", b""]) if chance.random() < 0.6 else b""

    def _is_token_ours(self, token: str) -> bool:
        return not self.program.subjects or f"*.{token}" in self.program.subjects

    def _is_subject_ours(self, subject: bytes) -> bool:
        return self._is_token_ours(subject.decode().rpartition(".")[2])

    def _is_kept(self, stream: str) -> bool:
        """Whether a stream that was made anew keeps messages, or nobody is interested yet."""
        if self.program.kind != "anew" or self.program.retention != "interest":
            return True
        server = self.world.server
        return server.is_up and server.has_interest(stream)

    def _target(self) -> tuple[str, str]:
        """The stream of the next message, and the last token of its subject."""
        streams = self.program.streams
        stream = self.random.choice(streams) if len(streams) > 1 else streams[0]
        return stream, self.random.choice("abc") if self.program.subjects else "x"

    def _enter(self) -> Generator[Any, Any, None]:
        """Wait until nobody else changes the stream: what an ack says is of the stream as it is."""
        while self._is_entered:
            yield Join(lambda: False, self.keeper.process.now() + 0.01)
        self._is_entered = True

    def _leave(self) -> None:
        self._is_entered = False

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
                self._start_server()
            case "stop":
                server.stop()
                yield Join(lambda: not server.is_up, host.now() + 60)
                yield Join(lambda: False, host.now() + outage_s)
                self._start_server()
            case "host":  # where the server and all tasks run, in the middle of a write
                yield from self._wait_for_rows(self.random.randrange(4, 12))
                server.kill(power=False)
                self.query.executors.kill_all()
                yield Join(lambda: False, host.now() + self.random.choice([0.01, 0.3]))
                self._start_server()
            case "move":
                world.is_moved = True
                yield Join(lambda: False, host.now() + outage_s)
                world.is_moved = False
            case "deaf":
                world.is_deaf = True
                yield Join(lambda: False, host.now() + outage_s)
                world.is_deaf = False
            case "stale":
                stale_s = self.random.uniform(0.05, 0.9 * AGREED_S)
                server.stale_until_ns = world.agenda.clock.now_ns + round(stale_s * 1e9)
                # Then it knows, for long enough to be asked.
                yield Join(lambda: False, host.now() + stale_s + 2 * AGREED_S)
            case "rotate":
                password = f"password{self.random.randrange(1 << 30)}"
                world.known_password = password
                server.rotate(password)
            case "crowd" | "hurry":
                if kind == "hurry":
                    server.hurry()
                else:  # room for no row of a batch, for one, or for two
                    server.crowd(self.random.choice([0, 2_000, 4_000]))
                yield Join(lambda: False, host.now() + outage_s)
                server.uncrowd()
            case "cut all":
                for wire in list(world.wires):
                    if not wire.name.startswith("keeper"):
                        wire.cut()
            case "harmless config":
                name = self._target()[0]
                state = yield from self.keeper.control.stream_state(name)
                config = state.config | {"description": f"{host.now()}"}
                yield from self.keeper.control.request(f"STREAM.UPDATE.{name}", config)
            case _:
                yield from self._enter()
                yield from self._remove(kind, self._target()[0])
                self._is_entered = False

    def _wait_for_rows(self, count: int) -> Generator[Any, Any, None]:
        """Until so many more are written, or nobody writes for a while."""
        host, server, target = self.keeper.process, self.world.server, self.query.target
        stop, until = 0, host.now() + 5
        while target is not None and server.is_up and host.now() < until:
            reached = server.holds(target.stream).stop
            stop = stop or reached + count
            if reached >= stop:
                return
            yield Join(lambda: False, host.now() + 0.02)

    def _start_server(self) -> None:
        server = self.world.server
        if self.program.starts_slowly and not server.is_up:
            after_s = self.random.choice([0.3, 3, 8])
            server.serves_from_ns = self.world.agenda.clock.now_ns + round(after_s * 1e9)
        server.start()

    def _remove(self, kind: str, name: str) -> Generator[Any, Any, None]:
        control, life = self.keeper.control, self.truth.now(name)
        state = yield from control.stream_state(name)
        middle = self.random.randrange(state.first, state.next + 1)
        if kind == "recreate":
            life.gone_below = 1 << 60
            self._has_lost = True
            yield from control.request(f"STREAM.DELETE.{name}")
            yield from self._make_source(name)
            return
        life.gone_below = max(life.gone_below, middle)
        if kind == "purge":
            yield from control.purge(name, middle)
        else:
            count = max(1, state.next - middle)
            life.gone_below = 1 << 60  # and what comes pushes out more
            with contextlib.suppress(ConnectorError):
                config = state.config | {"max_msgs": count}
                yield from control.request(f"STREAM.UPDATE.{name}", config)
        self._has_lost = True

    def _calm_down(self) -> None:
        world = self.world
        world.note("calm")
        self.is_calm, self._calm_since = True, world.now_s
        world.server.lag_ns = world.server.stale_until_ns = 0
        world.is_deaf = world.is_moved = False
        world.server.start()
        world.server.uncrowd()
        habits = self.program.habits
        habits.dies = habits.killed = habits.lost = habits.speculated = 0.0
        program = self.program
        if (
            program.cut_chance or program.stall_max_s or program.row_stall_chance
        ):  # rough ones would stay rough
            for wire in list(world.wires):
                if not wire.name.startswith("keeper"):
                    wire.cut()
        for wire in world.wires:
            wire.find_out()
        self._errors_before = len(self.query.errors)
        self._starts_late = world.server.serves_from_ns > world.agenda.clock.now_ns

    # -- what must hold ----------------------------------------------------------------------

    def _check_queue(self) -> None:
        """Nothing has left the work queue that is not in a committed batch."""
        server, program = self.world.server, self.program
        if not program.is_queue or not server.is_up:
            return
        end = self.query.checkpoint.committed_end
        for name in program.streams:
            life = self.truth.now(name)
            if not server.has_stream(name) or life.gone_below > 1:
                continue  # it is being made anew
            mark = server.change_mark(name)
            if self._marks.get(name) == mark:
                continue
            self._marks[name] = mark
            reached = 1
            if end is not None and end.streams[name].created == life.created:
                reached = end.streams[name].next
            wanted = [sequence for sequence in life.stored if sequence >= reached]
            if self._backup is not None and life.pasts and program.fails_on_loss:
                is_excused = self._backup.is_excused(name)
                wanted = wanted if is_excused else self._backup.unread(life)
            wanted += life.others if program.retention == "workqueue" else ()
            gone = [sequence for sequence in wanted if not server.has(name, sequence)]
            require(not gone, f"of {name} are gone, committed is up to {reached}:", gone)

    def _has_all(self) -> bool:
        if self._is_stuck():
            return True
        if self._backup is not None and not self._backup.is_settled(
            self.world.now_s - self._calm_since
        ):
            return False
        return self._is_lost() or all(map(self._has_all_of, self.program.streams))

    def _has_all_of(self, name: str) -> bool:
        end = self.query.checkpoint.committed_end
        held = self.world.server.holds(name)
        if not held:
            return True
        return end is not None and (
            end.streams[name].created == self.truth.now(name).created
            and end.streams[name].next >= held.stop
        )

    def _is_lost(self) -> bool:
        """Whether the query has said that messages are lost, and may not go on."""
        if self._is_stuck():
            return True
        if not self._has_lost and not self._is_back:
            return False
        return any(
            isinstance(each, DataLossError)
            and self.program.fails_on_loss
            # Nothing that is read is made anew where files are put back; it is what is written to.
            and not (self._backup is not None and isinstance(each, StreamRecreatedError))
            for each in self._errors()
        )

    def _is_stuck(self) -> bool:
        """Whether a batch runs again with other rows than are in the ledger.

        Where a stream was put back in between, it has other messages, and somebody has to look.
        """
        last = self.query.errors[-2:]
        return self._is_back and len(last) == 2 and all(isinstance(e, LedgerError) for e in last)

    @property
    def _is_back(self) -> bool:
        """Whether the server was given older files, which lack something."""
        return self._backup is not None and self._backup.is_back

    def _errors(self) -> list[BaseException]:
        return [*self.query.errors, *self.query.task_errors]

    def _check_errors(self) -> None:
        program, query = self.program, self.query
        for error in self._errors():
            if not isinstance(error, ConnectorError) or isinstance(error, RetryableError):
                continue
            has_lost = self._has_lost or self._is_back
            is_loss = has_lost and isinstance(error, DataLossError)
            # Rows that were acknowledged while a batch is written, and are gone.
            is_sink_back = self._backup is not None and self._backup.is_sink_back
            is_gone = is_sink_back and isinstance(error, StreamRecreatedError | LedgerError)
            # So is the ledger, where the files are of before it was made.
            is_ledger_back = self._backup is not None and self._backup.is_ledger_back
            is_gone |= is_ledger_back and isinstance(error, LedgerError)
            # Who says the old password before it has been let in once cannot know better.
            is_rotated = "rotate" in program.faults and isinstance(error, AuthenticationFailedError)
            # Two drivers at a batch that loses rows meanwhile read different ones.
            is_accepted = has_lost and not program.fails_on_loss
            # So do two at a batch of objects, of which the store keeps the newest only.
            # What a batch had read, and what its ledger says, may be of before and after.
            may_vary = is_accepted or program.is_object_source or self._is_back
            is_varied = may_vary and isinstance(error, LedgerError)
            require(is_loss or is_rotated or is_varied or is_gone, "unexplained:", error)
        chances = program.cut_chance, program.stall_max_s, program.row_stall_chance
        is_fair = not any(chances)
        if is_fair and not program.faults and not program.put_backs:
            loud = [each for each in self._errors() if isinstance(each, ConnectorError)]
            if self._has_rivals:
                loud = [each for each in loud if not isinstance(each, AttemptSupersededError)]
            require(not loud, "errors without a fault:", loud)
        if not self._is_lost():
            late = query.errors[self._errors_before + 1 :]
            if self._starts_late:  # it lets clients wait for longer than a driver does
                late = [each for each in late if not isinstance(each, ConnectionFailedError)]
            require(not late, "the query died in calm weather:", late)
        request_s = query.source_options.connection.request_timeout_s
        connect_s = query.source_options.connection.connect_timeout_s
        limit_s = 12 * (request_s + connect_s)
        require(query.slowest_look_s < limit_s, f"a look took {query.slowest_look_s:g} s")

    def _check_input(self) -> None:
        """Each committed batch has each row of its ranges once."""
        log, program = self.query.checkpoint, self.program
        is_whole = not program.is_lossy or program.fails_on_loss
        missing: Counter[int] = Counter()
        for batch in range(log.committed):
            starts = log.start_of(batch).streams
            for name, end in log.end_of(batch).streams.items():
                first = starts[name].next if starts[name].created == end.created else 1
                rows = [row for stream, part in log.rows[batch] if stream == name for row in part]
                life = self.truth.life(name, end.created)
                since, at = self.query.begun[batch], log.committed_at[batch]
                times = {"since": since, "now": at}
                self.truth.check_rows(life, first, end.next, rows, is_whole=is_whole, **times)
                if life.pasts and life.pasts[0].until < at:
                    continue  # what such files take away is counted when they are noticed
                read = {sequence for sequence, _ in rows}
                stored = life.pasts[0].stored if life.pasts else life.stored
                missing[batch] += sum(
                    first <= at < end.next and at not in read and at not in life.replaced
                    for at in stored
                )
        for batch, told in self.query.told_loss.items():
            text = f"rows of batch {batch} are missing, and the progress counts {told}"
            require(missing[batch] <= told, missing[batch], text)

    def _look(self) -> None:
        """What is written to has nothing that may not be there even for a moment."""
        target, server, now_s = self.query.target, self.world.server, self.world.now_s
        if target is None or not server.is_up or now_s < self._looked_at + LOOK_EVERY_S:
            return
        mark = server.change_mark(target.stream)
        if self._marks.get(target.stream) != mark:
            self._marks[target.stream], self._looked_at = mark, now_s
            target.look(server)

    def _check_output(self) -> None:
        log, program, target = self.query.checkpoint, self.program, self.query.target
        if target is None:
            return
        span_s = self.query.longest_span_s
        is_quick = span_s < WINDOW_S and program.scope != "job"
        written = Written(
            {
                (batch, number): rows
                for batch in range(log.committed)
                for number, (_, rows) in enumerate(log.rows[batch])
            },
            is_exact=program.promises_exact_output or (program.dedupe != "none" and is_quick),
            is_lost=self._is_lost(),
            varies=program.is_lossy or program.is_object_source or self._is_back,
            span_s=span_s,
            before=self._backup.written_before() if self._backup else frozenset(),
        )
        target.check(self.world.server, written)
