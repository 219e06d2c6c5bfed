"""Each load runs for a moment against each server: the benchmarks measure what they say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.bench import METRICS, QUICK, Bench
from benchmarks.load_process import LoadFailedError, LoadProcess
from benchmarks.loads import connector, core, direct, memory, publish, pull, push
from benchmarks.servers import GENUINE, OURS, OURS_LAZY, ServerKind, Target, running, running_null

MOMENT = replace(
    QUICK,
    seconds=0.05,
    stored_messages=10_000,
    memory_messages=2_000,
    bytes_max=2 << 20,
    settle_s=0.0,
    connections=20,
    spark_rows=2_000,
)
FAMILIES = (publish, pull, push, direct, core, memory)
BENCHES = [bench for family in FAMILIES for bench in family.benches()]
KINDS = (OURS, OURS_LAZY, GENUINE)


def one_case(bench: Bench) -> list[int]:
    """Pick the first and the last case of a bench; those between differ in numbers only."""
    return sorted({0, len(bench.cases) - 1})


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A fresh server of the kind asked for."""
    kind: ServerKind = request.param
    if kind is GENUINE:
        request.getfixturevalue("genuine_binary")
    with running(kind) as target:
        yield target


@pytest.mark.parametrize("server", KINDS, ids=lambda kind: kind.name, indirect=True)
def test_every_load_measures_something(server: Target) -> None:
    with_stream = [bench for bench in BENCHES if bench.prepare is not None]
    without = [bench for bench in BENCHES if bench.prepare is None]
    for bench in without:
        for index in one_case(bench):
            check(bench, index, server)
    assert with_stream[0].prepare is not None
    with_stream[0].prepare(server, MOMENT)
    for bench in with_stream:
        for index in one_case(bench):
            check(bench, index, server)


def check(bench: Bench, index: int, target: Target) -> None:
    case = bench.cases[index]
    result = case.load(target, MOMENT)
    assert result.figures, case.name
    assert result.figures.keys() <= METRICS.keys()
    for metric, value in result.figures.items():
        assert value > 0 or metric.startswith("memory"), f"{case.name}: {metric} is {value}"


@pytest.mark.parametrize("bench", [b for b in BENCHES if b.cases[0].has_null], ids=lambda b: b.name)
def test_the_null_server_stands_in_for_every_load(bench: Bench) -> None:
    for index in one_case(bench):
        case = bench.cases[index]
        with running_null(case.payload_bytes, MOMENT.stored_messages) as target:
            assert case.load(target, MOMENT).figures, case.name


@pytest.fixture(scope="module")
def spark_loads() -> Iterator[LoadProcess]:
    """A process for Spark: its session is not the one that other tests of this run make.

    What is measured has a JVM as users have it; what is tested does not live as long.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        with LoadProcess() as loads:
            yield loads


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("server", (OURS, GENUINE), ids=lambda kind: kind.name, indirect=True)
def test_every_query_of_the_connector_runs(server: Target, spark_loads: LoadProcess) -> None:
    bench = connector.benches()[0]
    assert bench.prepare is not None
    spark_loads.run(bench.prepare, server, MOMENT)
    for case in bench.cases:
        if "1 partition" in case.name or "without Spark" in case.name:
            assert spark_loads.run(case.load, server, MOMENT).figures["rate"] > 0


def test_a_load_that_fails_says_why_and_the_next_one_runs(spark_loads: LoadProcess) -> None:
    nobody = Target(port=1, pid=0)
    with pytest.raises(LoadFailedError, match="ConnectionRefusedError"):
        spark_loads.run(core.benches()[0].cases[0].load, nobody, MOMENT)
    with running_null(128, MOMENT.stored_messages) as target:
        assert spark_loads.run(core.benches()[0].cases[0].load, target, MOMENT).messages > 0
