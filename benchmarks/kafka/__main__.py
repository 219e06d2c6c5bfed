"""Measure the connector beside Spark's Kafka connector: the same rows, in turn, in one session.

python -m benchmarks.kafka                       three rounds of everything; about half an hour
python -m benchmarks.kafka --quick               one round of few rows: does it all still work?
python -m benchmarks.kafka --only 'batch read'   rows whose names have these words
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kafka.broker import broker
from benchmarks.kafka.installation import Installation, install
from benchmarks.servers import OURS, ROOT, running
from benchmarks.spark_environment import NOT_AT_USERS

ROWS = {128: 2_000_000, 1024: 500_000}
QUICK_ROWS = {128: 200_000, 1024: 50_000}
QUICK_WARM_UP_ROWS = 100_000
MESSAGES = 100
CACHE = ROOT / ".venv-versions" / "kafka"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--rounds", type=int, help="of each row (default 3)")
    parser.add_argument("--rows", type=int, help="of 128 B; a quarter as many of 1 KiB")
    parser.add_argument("--sizes", default="128,1024", help="which payloads (default 128,1024)")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="some rows")
    parser.add_argument("--no-kafka", action="store_true", help="only the connector's own side")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"default {CACHE}")
    parser.add_argument("--json", type=Path, help="where to write every measurement")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure and print the table."""
    options = parse(arguments)
    if os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        print("this machine is busy with something else; the numbers will be poor")
    measured = []
    for line in measurements(options, install(options.cache)):
        measured.append(line)
        print(_line(line), file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    print("\n".join(table(measured)))
    return 0


def measurements(options: argparse.Namespace, place: Installation) -> Iterator[dict[str, Any]]:
    """Start both servers and Spark; each measurement as it comes.

    Raises:
        ServerNotStartedError: a server did not start.
        subprocess.CalledProcessError: a query failed; its words are on the screen.
    """
    with contextlib.ExitStack() as stack:
        targets = {"ours": stack.enter_context(running(OURS))}
        if not options.no_kafka:
            targets["Kafka"] = stack.enter_context(broker(place.broker))
        rows = QUICK_ROWS if options.quick else ROWS
        if options.rows:
            rows = {128: options.rows, 1024: max(1, options.rows // 4)}
        asked = {
            "connector": [str(jar) for jar in place.connector],
            "ports": {name: target.port for name, target in targets.items()},
            "pids": {name: target.pid for name, target in targets.items()},
            "rows": {size: rows[size] for size in map(int, options.sizes.split(","))},
            # The JVM compiles during the first seconds of a row. With a shorter warm-up the first
            # round would measure its compiler, at the cost of Kafka, which does more in the JVM.
            "warm_up_rows": QUICK_WARM_UP_ROWS if options.quick else max(rows.values()),
            "rounds": options.rounds or (1 if options.quick else 3),
            "messages": MESSAGES // 5 if options.quick else MESSAGES,
            "wanted": options.only,
        }
        command = [str(place.python), "-P", "-m", "benchmarks.kafka.queries", json.dumps(asked)]
        left_out = (*NOT_AT_USERS, "PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME")
        environment = {key: value for key, value in os.environ.items() if key not in left_out}
        environment |= {
            "PYTHONPATH": str(place.packages),
            "PYSPARK_PYTHON": str(place.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        child = stack.enter_context(
            subprocess.Popen(
                command, env=environment, cwd=place.packages, stdout=subprocess.PIPE, text=True
            )
        )
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith('{"row"'):
                yield json.loads(line)
        if child.wait():
            raise subprocess.CalledProcessError(child.returncode, command[:4])


def _line(measured: dict[str, Any]) -> str:
    figures = (f"{key} {value:,.2f}" for key, value in measured.items() if key not in _NAMES)
    return f"{measured['row']:36} {measured['side']:6} {', '.join(figures)}"


_NAMES = ("row", "side")


def table(measured: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The medians of every row, as a table in Markdown; ratios are ours divided by Kafka's."""
    figures: dict[tuple[str, str], dict[str, list[float]]] = {}
    for one in measured:
        for key in ("rate", "add_batch_rate", "p50_ms", "p99_ms"):
            if key in one:
                name = one["row"] + _SUFFIX[key]
                sides = figures.setdefault((name, key), defaultdict(list))
                sides[one["side"]].append(one[key])
    yield "| Row | Ours | Kafka | Ours / Kafka |"
    yield "|---|---|---|---|"
    for (name, key), sides in figures.items():
        ours, kafka = (statistics.median(sides[side]) if sides[side] else None for side in _SIDES)
        unit = " ms" if key.endswith("_ms") else "/s"
        cells = [f"{value:,.0f}{unit}" if value else "-" for value in (ours, kafka)]
        ratio = "-"
        if ours and kafka:
            ratios = sorted(a / b for a, b in zip(sides["ours"], sides["Kafka"], strict=False))
            spread = f" [{ratios[0]:.2f} .. {ratios[-1]:.2f}]" if len(ratios) > 1 else ""
            ratio = f"{statistics.median(ratios):.2f}{spread}"
        yield f"| {name} | {cells[0]} | {cells[1]} | {ratio} |"


_SIDES = ("ours", "Kafka")
_SUFFIX = {"rate": "", "add_batch_rate": ", in addBatch", "p50_ms": " p50", "p99_ms": " p99"}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
