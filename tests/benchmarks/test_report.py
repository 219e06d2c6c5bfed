"""Medians, paired ratios, headroom, goals: the arithmetic of the report."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from benchmarks.__main__ import all_benches, main
from benchmarks.bench import QUICK
from benchmarks.loads.percentiles import latency_figures
from benchmarks.report import Results, show, write_json
from benchmarks.runner import NULL, Sample
from benchmarks.targets import GOALS, Goal, Series


def sample(kind: str, number: int, rate: float, case: str = "row") -> Sample:
    return Sample(case, kind, number, {"rate": rate}, messages=100, cpu_s=0.5)


@pytest.fixture
def results() -> Results:
    rates = {"ours": (200.0, 900.0, 300.0), "genuine": (100.0, 100.0, 300.0)}
    samples = [sample(kind, n, rate) for kind in rates for n, rate in enumerate(rates[kind])]
    failed = Sample("row", "genuine", 3, {}, failure="it [died]")
    return Results([*samples, sample(NULL, 0, 1800.0), failed])


def test_ratios_are_taken_within_a_round(results: Results) -> None:
    ratio = results.ratio(Series("row", "ours"), Series("row", "genuine"))
    assert ratio is not None
    assert (ratio.middle, ratio.lowest, ratio.highest, ratio.rounds) == (2.0, 1.0, 9.0, 3)
    assert results.ratio(Series("row", "ours"), Series("row", "genuine always")) is None


def test_headroom_is_over_the_fastest_measurement(results: Results) -> None:
    assert results.headroom("row") == 2.0
    assert results.headroom("another") is None


def test_a_goal_may_be_a_ceiling_or_a_floor() -> None:
    at_least = Goal("", Series("a"), Series("b"), 2.0)
    at_most = Goal("", Series("a"), Series("b"), 2.0, is_at_least=False)
    assert at_least.is_met(2.1) and not at_least.is_met(1.9)
    assert at_most.is_met(1.9) and not at_most.is_met(2.1)


def test_goals_name_rows_that_exist() -> None:
    names = {case.name for bench in all_benches() for case in bench.cases}
    for goal in GOALS:
        assert {goal.numerator.case, goal.denominator.case} <= names, goal.name
    assert len(names) == sum(len(bench.cases) for bench in all_benches())


def test_tables_and_json_say_the_same(results: Results, tmp_path: Path) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    show(console, {"date": "today"}, results)
    text = console.export_text()
    assert "2.00 [1.00 .. 9.00]" in text
    assert "failed: row, genuine, round 4: it [died]" in text
    path = tmp_path / "deep" / "results.json"
    write_json(path, {"date": "today"}, QUICK, results)
    document = orjson.loads(path.read_bytes())
    assert document["rows"][0]["ratios"]["ours / genuine"]["middle"] == 2.0
    assert document["rows"][0]["medians"] == {"ours": 300.0, "genuine": 100.0, "null": 1800.0}
    assert len(document["samples"]) == 8


def test_percentiles() -> None:
    figures = latency_figures([10**9] * 100 + [n * 1_000 for n in range(1, 901)])
    assert figures["p50"] == 451.0
    assert figures["p99"] == 892.0
    assert figures["p99.9"] == 900.0


def test_an_unknown_row_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no such row"]) == 1
    assert "--list" in capsys.readouterr().out
