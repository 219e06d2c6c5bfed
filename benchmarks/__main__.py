"""`python -m benchmarks`: measure our server beside the genuine one.

python -m benchmarks                      all rows but Spark's, then Spark's; about an hour
python -m benchmarks --quick              every row for a moment: does it all still work?
python -m benchmarks 'publish 128 B*'     rows by name or pattern (--list shows the names)
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.bench import QUICK, Bench, Case, Settings
from benchmarks.loads import connector, core, direct, memory, publish, pull, push
from benchmarks.report import Results, describe_machine, show, write_json
from benchmarks.runner import Runner
from benchmarks.servers import KINDS, ServerKind

ROUNDS = 5
TABLE_WIDTH = 200
RESULTS = Path(__file__).parent / "results"


def all_benches() -> list[Bench]:
    """Every bench, in the order of the report."""
    families = (publish, pull, push, direct, core, memory, connector)
    return [bench for family in families for bench in family.benches()]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("rows", nargs="*", help="names or patterns of rows; all if none")
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--rounds", type=int, help=f"rounds of each row (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, help="how long one measurement lasts")
    parser.add_argument("--no-spark", action="store_true", help="leave the connector out")
    parser.add_argument(
        "--kinds",
        type=_kinds,
        metavar="NAME,NAME",
        help=f"only these servers, of: {', '.join(KINDS)}",
    )
    parser.add_argument("--pin", type=int, metavar="CPU", help="pin the load to a processor")
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json", help="where to")
    parser.add_argument("--svg", type=Path, help="also draw the tables into this file")
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    return parser.parse_args(arguments)


def _kinds(text: str) -> list[ServerKind]:
    try:
        return [KINDS[name.strip()] for name in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"there is no server {error}") from None


def main(arguments: Sequence[str]) -> int:
    """Measure, report; the code is 1 if something failed to run."""
    options = parse(arguments)
    console = Console(record=True, width=None if sys.stdout.isatty() else TABLE_WIDTH)
    benches = [b for b in all_benches() if not (options.no_spark and b.needs_spark)]

    def is_wanted(case: Case) -> bool:
        patterns = options.rows
        return not patterns or any(fnmatch.fnmatchcase(case.name, each) for each in patterns)

    names = [case.name for bench in benches for case in bench.cases if is_wanted(case)]
    if options.list or not names:
        console.print("\n".join(names) or "no row has such a name; --list shows them", markup=False)
        return 0 if names else 1
    settings = QUICK if options.quick else Settings()
    if options.seconds is not None:
        settings = replace(settings, seconds=options.seconds)
    machine = describe_machine()
    if os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        console.print("this machine is busy with something else; the numbers will be poor")
    runner = Runner(
        settings,
        options.rounds or (1 if options.quick else ROUNDS),
        is_wanted,
        kinds=options.kinds,
        pinned_cpu=options.pin,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        runner.run(benches)
    except KeyboardInterrupt:
        console.print("stopped; what follows was measured before")
    results = Results(runner.samples)
    show(console, machine, results)
    write_json(options.json, machine, settings, results)
    if options.svg is not None:
        console.save_svg(str(options.svg), title="jetstream-spark benchmarks")
    return 1 if results.failures() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
