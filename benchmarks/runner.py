"""Runs benches round by round, the servers in turn: A B A B, so that a slow minute hits both.

Every server is started anew for every bench and round. Ratios are taken within a round.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.bench import METRICS, Bench, Case, Settings
from benchmarks.load_process import LoadFailedError, LoadProcess
from benchmarks.process_usage import usage
from benchmarks.servers import ServerKind, ServerNotStartedError, Target, running, running_null

NULL = "null"
_TIMEOUT_S = 120.0
_SPARK_TIMEOUT_S = 600.0
# A row of Spark's takes seconds and there are many; three rounds have a median too.
SPARK_ROUNDS_MAX = 3
NULL_ROUNDS_MAX = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One case, one server, one round.

    Attributes:
        figures: metric to value; empty when it failed.
        cpu_s: CPU seconds of the server while the load ran.
        load_cpu_s: the same of the load.
    """

    case: str
    kind: str
    round: int
    figures: dict[str, float]
    messages: int = 0
    cpu_s: float = 0.0
    load_cpu_s: float = 0.0
    resident_mib: float = 0.0
    failure: str = ""


@dataclass
class Runner:
    """Collects samples.

    Attributes:
        is_wanted: tells which cases to run.
        kinds: run on these servers and not on those that a bench names.
        say: told what is being done.
    """

    settings: Settings
    rounds: int
    is_wanted: Callable[[Case], bool] = lambda case: True
    kinds: Sequence[ServerKind] | None = None
    pinned_cpu: int | None = None
    say: Callable[[str], None] = lambda line: None
    samples: list[Sample] = field(default_factory=list)

    def run(self, benches: Sequence[Bench]) -> list[Sample]:
        """Run all benches; failures are samples too."""
        with contextlib.ExitStack() as stack:
            spark: LoadProcess | None = None
            for bench in benches:
                cases = [case for case in bench.cases if self.is_wanted(case)]
                kinds = bench.kinds if self.kinds is None else self.kinds
                if not cases or not kinds:
                    continue
                if not bench.needs_spark:
                    with LoadProcess(self.pinned_cpu, _TIMEOUT_S) as loads:
                        self._run_bench(bench, cases, kinds, loads)
                    continue
                # One session for all; its processes and threads are nobody's to pin.
                spark = spark or stack.enter_context(LoadProcess(timeout_s=_SPARK_TIMEOUT_S))
                self._run_bench(bench, cases, kinds, spark)
        return self.samples

    def _run_bench(
        self,
        bench: Bench,
        cases: Sequence[Case],
        kinds: Sequence[ServerKind],
        loads: LoadProcess,
    ) -> None:
        rounds = min(self.rounds, SPARK_ROUNDS_MAX) if bench.needs_spark else self.rounds
        for number in range(rounds):
            for kind in kinds:
                self.say(f"{bench.name}: {kind.name}, round {number + 1}")
                self._run_kind(bench, cases, kind, number, loads)
        self._run_null([case for case in cases if case.has_null], loads)

    def _run_kind(
        self, bench: Bench, cases: Sequence[Case], kind: ServerKind, number: int, loads: LoadProcess
    ) -> None:
        os.sync()
        try:
            with running(kind) as target:
                if bench.prepare is not None:
                    loads.run(bench.prepare, target, self.settings)
                for case in cases:
                    self._run_case(case, kind.name, number, target, loads)
        except (ServerNotStartedError, LoadFailedError) as error:
            self.say(f"  failed: {error}")
            self.samples += [
                Sample(c.name, kind.name, number, {}, failure=str(error)) for c in cases
            ]

    def _run_null(self, cases: Sequence[Case], loads: LoadProcess) -> None:
        for case in cases:
            self.say(f"{case.name}: null server")
            for number in range(min(self.rounds, NULL_ROUNDS_MAX)):
                with running_null(case.payload_bytes, self.settings.stored_messages) as target:
                    self._run_case(case, NULL, number, target, loads)

    def _run_case(
        self, case: Case, kind: str, number: int, target: Target, loads: LoadProcess
    ) -> None:
        try:
            before = usage(target.pid)
            result = loads.run(case.load, target, self.settings)
            after = usage(target.pid)
        except (LoadFailedError, OSError) as error:
            self.say(f"  {case.name}: failed: {error}")
            self.samples.append(Sample(case.name, kind, number, {}, failure=str(error)))
            return
        assert result.figures.keys() <= METRICS.keys(), result.figures
        self.samples.append(
            Sample(
                case.name,
                kind,
                number,
                result.figures,
                result.messages,
                after.cpu_s - before.cpu_s,
                loads.cpu_s,
                after.resident_bytes / 2**20,
            )
        )
