"""What containing faults costs where there are none: `python -m benchmarks.boundaries`.

This server beside itself without its boundaries: in a copy of the sources every `try` that would
hand an exception to the containment is replaced by what is in it. Both run at once and take turns,
so that a slow minute hits both, and each row has the ratio of the pairs.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jetstream_server

from benchmarks.bench import METRICS, Bench, Settings
from benchmarks.load_process import LoadProcess
from benchmarks.loads import core, direct, publish, pull
from benchmarks.process_usage import usage
from benchmarks.servers import OURS, ServerKind, Target, running

ROUNDS = 11
SECONDS = 0.8
ROWS = (
    "publish 128 B, window 100",
    "publish 128 B, window 1,000",
    "publish 128 B, one at a time",
    "pull 128 B, ack none, batch 1,000",
    "pull 128 B, ack explicit, batch 1,000",
    "direct get by sequence, one at a time",
    "core publish 128 B, 1:1",
    "request-reply 128 B",
)


class NoBoundaryError(Exception):
    """Nothing was found to take out, so there would be nothing to compare."""


class _Unwrapping(ast.NodeTransformer):
    """Leaves of a `try` what it tries, where its handler contains what is raised."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Try(self, node: ast.Try) -> ast.Try | list[ast.stmt]:
        self.generic_visit(node)
        others = [each for each in node.handlers if "contain(" not in ast.unparse(each)]
        self.count += len(node.handlers) - len(others)
        node.handlers = others
        return node if others or node.finalbody else [*node.body, *node.orelse]


def without_boundaries(source: str) -> tuple[str, int]:
    """Return a module's source without its boundaries, and how many these were."""
    unwrapping = _Unwrapping()
    tree = unwrapping.visit(ast.parse(source))
    return ast.unparse(tree) if unwrapping.count else source, unwrapping.count


@contextlib.contextmanager
def unbounded() -> Iterator[tuple[ServerKind, int]]:
    """Give a copy of this server without its boundaries, and how many there were.

    Raises:
        NoBoundaryError: there was none.
    """
    with tempfile.TemporaryDirectory(prefix="jetstream-unbounded-") as name:
        package = Path(jetstream_server.__file__).parent
        copy = Path(name) / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        total = 0
        for file in copy.rglob("*.py"):
            text, count = without_boundaries(file.read_text())
            file.write_text(text)
            total += count
        if not total:
            raise NoBoundaryError(f"no handler in {package} calls contain()")
        yield ServerKind("without", OURS.command, environment={"PYTHONPATH": name}), total


def _compare(bench: Bench, servers: Sequence[Target], rounds: int, settings: Settings) -> None:
    wanted = [case for case in bench.cases if case.name in ROWS]
    with LoadProcess() as loads:
        for target in servers:
            if wanted and bench.prepare is not None:
                loads.run(bench.prepare, target, settings)
        for case in wanted:
            found: list[list[tuple[float, float]]] = []
            for number in range(rounds + 1):  # the first one warms up
                pair = []
                for target in servers if number % 2 else reversed(servers):
                    before = usage(target.pid).cpu_s
                    result = loads.run(case.load, target, settings)
                    cpu_s = usage(target.pid).cpu_s - before
                    key = "rate" if "rate" in result.figures else "p50"
                    pair.append((result.figures[key], cpu_s / max(result.messages, 1)))
                found.append(pair if number % 2 else pair[::-1])
            print(_row(case.name, key, found[1:]), flush=True)


def _row(name: str, key: str, found: list[list[tuple[float, float]]]) -> str:
    ratios = sorted(ours / without for (ours, _), (without, _) in found)
    spent = [ours / without for (_, ours), (_, without) in found if without]
    middle = [statistics.median(pair[side][0] for pair in found) for side in (1, 0)]
    unit = METRICS[key].unit
    processor = f"{statistics.median(spent):.2f}" if spent else ""
    between = f"{ratios[0]:.2f} .. {ratios[-1]:.2f}"
    return (
        f"| {name} | {middle[0]:,.0f} {unit} | {middle[1]:,.0f} {unit} "
        f"| {statistics.median(ratios):.2f} [{between}] | {processor} |"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure the rows, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boundaries", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args(arguments)
    settings = Settings(seconds=options.seconds)
    families: list[Callable[[], list[Bench]]] = [
        publish.benches, pull.benches, direct.benches, core.benches,
    ]  # fmt: skip
    with unbounded() as (kind, count):
        print(f"{count} boundaries\n")
        print("| Row | Without | With | With / without | Processor time |\n|---|---|---|---|---|")
        for family in families:
            for bench in family():
                if any(case.name in ROWS for case in bench.cases):
                    with running(OURS) as ours, running(kind) as without:
                        _compare(bench, (ours, without), options.rounds, settings)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
