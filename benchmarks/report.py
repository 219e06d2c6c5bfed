"""What was measured, as a table, as JSON, and as a picture of the table (SVG, drawn by rich).

A cell is the median of the rounds and half their spread; a ratio is the median of the ratios of
single rounds, with the lowest and the highest. A rate that the null server does not beat twofold
is marked: there the load may have been the limit.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.bench import METRICS, Settings
from benchmarks.runner import NULL, Sample
from benchmarks.servers import GENUINE, GENUINE_ALWAYS, KINDS, OURS, OURS_LAZY
from benchmarks.targets import GOALS, Goal, Series

HEADROOM_MIN = 2.0
PAIRS = (
    (OURS.name, GENUINE.name),
    (OURS.name, GENUINE_ALWAYS.name),
    (OURS_LAZY.name, GENUINE.name),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratios of the rounds that have both numbers."""

    middle: float
    lowest: float
    highest: float
    rounds: int


class Results:
    """Samples by series."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.samples = list(samples)
        self._by_series: dict[Series, dict[int, float]] = defaultdict(dict)
        for sample in self.samples:
            for metric, value in sample.figures.items():
                self._by_series[Series(sample.case, sample.kind, metric)][sample.round] = value

    def rows(self) -> list[tuple[str, str]]:
        """Case and metric of each row, in the order of measuring."""
        pairs = ((s.case, metric) for s in self.samples for metric in s.figures)
        return list(dict.fromkeys(pairs))

    def values(self, series: Series) -> list[float]:
        return list(self._by_series.get(series, {}).values())

    def ratio(self, numerator: Series, denominator: Series) -> Ratio | None:
        """Return the ratio, None if no round has both numbers."""
        above, below = self._by_series.get(numerator, {}), self._by_series.get(denominator, {})
        ratios = sorted(above[n] / below[n] for n in above.keys() & below.keys() if below[n])
        if not ratios:
            return None
        return Ratio(median(ratios), ratios[0], ratios[-1], len(ratios))

    def headroom(self, case: str) -> float | None:
        """How many times faster the load is without a server, the best of each; None if unknown."""
        null = self.values(Series(case, NULL))
        measured = [max(values) for kind in KINDS if (values := self.values(Series(case, kind)))]
        return max(null) / max(measured) if null and measured else None

    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if any(s.kind == kind for s in self.samples)]

    def failures(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.failure]


def describe_machine() -> dict[str, str]:
    """What the numbers depend on besides the code."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    genuine = subprocess.run([*GENUINE.command, "-v"], capture_output=True, text=True, check=False)
    ours = subprocess.run([*OURS.command, "-v"], capture_output=True, text=True, check=False)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "cpu": f"{os.cpu_count()} x {model}",
        "memory": f"{pages / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "genuine": (genuine.stdout or genuine.stderr).strip(),
        "ours": (ours.stdout or ours.stderr).strip(),
        "load average before": f"{os.getloadavg()[0]:.2f}",
    }


def write_json(path: Path, machine: dict[str, str], settings: Settings, results: Results) -> None:
    """Write everything, single rounds included."""
    document = {
        "machine": machine,
        "settings": asdict(settings),
        "goals": [_goal_as_dict(goal, results) for goal in GOALS],
        "rows": [_row_as_dict(case, metric, results) for case, metric in results.rows()],
        "samples": [asdict(sample) for sample in results.samples],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")


def _goal_as_dict(goal: Goal, results: Results) -> dict[str, Any]:
    ratio = results.ratio(goal.numerator, goal.denominator)
    return {
        "name": goal.name,
        "bound": goal.bound,
        "is_at_least": goal.is_at_least,
        "ratio": asdict(ratio) if ratio is not None else None,
        "is_met": goal.is_met(ratio.middle) if ratio is not None else None,
    }


def _row_as_dict(case: str, metric: str, results: Results) -> dict[str, Any]:
    ratios = {}
    for above, below in PAIRS:
        ratio = results.ratio(Series(case, above, metric), Series(case, below, metric))
        if ratio is not None:
            ratios[f"{above} / {below}"] = asdict(ratio)
    medians = {
        kind: median(values)
        for kind in [*results.kinds(), NULL]
        if (values := results.values(Series(case, kind, metric)))
    }
    return {
        "case": case,
        "metric": metric,
        "unit": METRICS[metric].unit,
        "medians": medians,
        "ratios": ratios,
        "load_headroom": results.headroom(case) if metric == "rate" else None,
    }


def show(console: Console, machine: dict[str, str], results: Results) -> None:
    """Print the tables."""
    for key, value in machine.items():
        console.print(f"{key}: {value}", highlight=False, markup=False)
    console.print(_figures_table(results))
    console.print(_resources_table(results))
    goals = [goal for goal in GOALS if results.ratio(goal.numerator, goal.denominator)]
    if goals:
        console.print(_goals_table(goals, results))
    for sample in results.failures():
        where = f"{sample.case}, {sample.kind}, round {sample.round + 1}"
        console.print(f"failed: {where}: {sample.failure}", style="red", markup=False)


def _figures_table(results: Results) -> Table:
    table = Table(title="Medians (± half the spread) and paired ratios [lowest .. highest]")
    table.add_column("row")
    table.add_column("unit")
    kinds = results.kinds()
    pairs = [pair for pair in PAIRS if pair[0] in kinds and pair[1] in kinds]
    for kind in kinds:
        table.add_column(kind, justify="right")
    for above, below in pairs:
        table.add_column(f"{above} /\n{below}", justify="right")
    table.add_column("load\nheadroom", justify="right")
    for case, metric in results.rows():
        if not any(results.values(Series(case, kind, metric)) for kind in kinds):
            continue
        cells = [f"{case}, {metric}" if metric != "rate" else case, METRICS[metric].unit]
        cells += [_spread(results.values(Series(case, kind, metric))) for kind in kinds]
        for above, below in pairs:
            ratio = results.ratio(Series(case, above, metric), Series(case, below, metric))
            cells.append(_ratio_cell(ratio, METRICS[metric].is_higher_better))
        headroom = results.headroom(case) if metric == "rate" else None
        cells.append(_headroom_cell(headroom))
        table.add_row(*cells)
    return table


def _resources_table(results: Results) -> Table:
    table = Table(title="What the server (and the load) used: CPU seconds a run, resident MiB")
    kinds = results.kinds()
    table.add_column("row")
    for kind in kinds:
        table.add_column(f"{kind}\nCPU s", justify="right")
        table.add_column("\nµs/msg", justify="right")
        table.add_column("\nMiB", justify="right")
        table.add_column("\nload s", justify="right")
    for case in dict.fromkeys(sample.case for sample in results.samples):
        cells = [case]
        for kind in kinds:
            good = [
                s for s in results.samples if (s.case, s.kind) == (case, kind) and not s.failure
            ]
            if not good:
                cells += ["", "", "", ""]
                continue
            cells.append(f"{median(s.cpu_s for s in good):.2f}")
            cells.append(
                f"{median(s.cpu_s / s.messages for s in good) * 1e6:.2f}"
                if all(s.messages for s in good)
                else ""
            )
            cells.append(f"{median(s.resident_mib for s in good):.0f}")
            cells.append(f"{median(s.load_cpu_s for s in good):.2f}")
        table.add_row(*cells)
    return table


def _goals_table(goals: Sequence[Goal], results: Results) -> Table:
    table = Table(title="Figures to reach")
    for title in ("figure", "wanted", "measured", ""):
        table.add_column(title)
    for goal in goals:
        ratio = results.ratio(goal.numerator, goal.denominator)
        assert ratio is not None
        is_met = goal.is_met(ratio.middle)
        table.add_row(
            goal.name,
            f"{'≥' if goal.is_at_least else '≤'} {goal.bound:g}",
            f"{ratio.middle:.2f} [{ratio.lowest:.2f} .. {ratio.highest:.2f}]",
            "[green]reached[/]" if is_met else "[red]missed[/]",
        )
    return table


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    half = (max(values) - min(values)) / 2
    middle = median(values)
    digits = 0 if middle >= 100 else 2
    return f"{middle:,.{digits}f} ± {half:,.{digits}f}"


def _ratio_cell(ratio: Ratio | None, is_higher_better: bool) -> str:
    if ratio is None:
        return ""
    is_better = ratio.middle >= 1 if is_higher_better else ratio.middle <= 1
    text = f"{ratio.middle:.2f} \\[{ratio.lowest:.2f} .. {ratio.highest:.2f}]"
    return f"[{'green' if is_better else 'red'}]{text}[/]"


def _headroom_cell(headroom: float | None) -> str:
    if headroom is None:
        return ""
    style = "dim" if headroom >= HEADROOM_MIN else "yellow"
    mark = "" if headroom >= HEADROOM_MIN else " (!)"
    return f"[{style}]{headroom:.1f}x{mark}[/]"
