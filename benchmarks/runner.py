"""Runs benches round by round, the servers in turn: A B A B, so that a slow minute hits both.

Every server is started anew for every bench and round. Ratios are taken within a round.
"""

from __future__ import annotations

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
        for bench in benches:
            cases = [case for case in bench.cases if self.is_wanted(case)]
            kinds = bench.kinds if self.kinds is None else self.kinds
            if not cases or not kinds:
                continue
            with _load_process(bench, self.pinned_cpu) as loads:
                for number in range(self.rounds):
                    for kind in kinds:
                        self.say(f"{bench.name}: {kind.name}, round {number + 1}")
                        self._run_kind(bench, cases, kind, number, loads)
                self._run_null([case for case in cases if case.has_null], loads)
        return self.samples

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
            with running_null(case.payload_bytes) as target:
                self._run_case(case, NULL, 0, target, loads)

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


def _load_process(bench: Bench, pinned_cpu: int | None) -> LoadProcess:
    """Spark's processes and threads are nobody's to pin, and take their time."""
    if bench.needs_spark:
        return LoadProcess(timeout_s=_SPARK_TIMEOUT_S)
    return LoadProcess(pinned_cpu, _TIMEOUT_S)
