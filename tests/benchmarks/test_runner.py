"""Rounds, servers in turn, and one Spark session for all that need it; without any server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from benchmarks import runner as module
from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.runner import Runner
from benchmarks.servers import GENUINE, OURS, Target


class Loads:
    """Stands in for a load process."""

    made: list[Loads]
    cpu_s = 0.0

    def __init__(self, pinned_cpu: int | None = None, timeout_s: float = 0.0) -> None:
        self.pinned_cpu, self.is_open = pinned_cpu, True
        self.made.append(self)

    def __enter__(self) -> Loads:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def run(self, load, target: Target, settings: Settings) -> LoadResult:
        assert self.is_open
        return load(target, settings)


@pytest.fixture(autouse=True)
def nothing_real(monkeypatch):
    @contextlib.contextmanager
    def target(_: object) -> Iterator[Target]:
        yield Target(1, os.getpid())

    monkeypatch.setattr(Loads, "made", [], raising=False)
    monkeypatch.setattr(module, "LoadProcess", Loads)
    monkeypatch.setattr(module, "running", target)


def bench(name: str, needs_spark: bool) -> Bench:
    case = Case(name, lambda target, settings: LoadResult({"rate": 1.0}, 1), has_null=False)
    return Bench(name, (case,), needs_spark=needs_spark)


def test_the_servers_take_turns_and_spark_has_one_session_and_few_rounds():
    benches = [bench("a", False), bench("s1", True), bench("s2", True)]
    runner = Runner(Settings(), rounds=5, pinned_cpu=1)
    samples = runner.run(benches)
    assert not any(sample.failure for sample in samples)
    order = [(sample.case, sample.kind, sample.round) for sample in samples]
    kinds = (OURS.name, GENUINE.name)
    expected = [("a", kind, number) for number in range(5) for kind in kinds]
    for name in ("s1", "s2"):
        expected += [(name, kind, number) for number in range(3) for kind in kinds]
    assert order == expected
    assert [loads.pinned_cpu for loads in Loads.made] == [1, None]
    assert not any(loads.is_open for loads in Loads.made)
