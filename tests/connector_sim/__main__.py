"""Run seeds: `python -m tests.connector_sim --seed 7`, or `--seed 0 --seeds 20000`."""

from __future__ import annotations

import argparse
import logging
import sys
import traceback

from tests.connector_sim.program import choose
from tests.connector_sim.simulation import Simulation

EXPLANATION_LINES = 60


def main(arguments: list[str]) -> int:
    """Run seeds, explain those that fail; return how many did."""
    parser = argparse.ArgumentParser(prog="tests.connector_sim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="run so many, from --seed on")
    parser.add_argument("--kind", help="only seeds of this kind (program.py)")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    options = parser.parse_args(arguments)
    logging.getLogger("jetstream_spark").setLevel(logging.CRITICAL)
    bad, played = [], 0
    for seed in range(options.seed, options.seed + options.seeds):
        program = choose(seed)
        if options.kind is not None and program.kind != options.kind:
            continue
        played += 1
        simulation = Simulation(seed, program)
        try:
            digest = simulation.run()
        except Exception as error:
            bad.append(seed)
            lines = simulation.world.trace
            shown = lines if options.trace else [lines[0], *lines[1:][-EXPLANATION_LINES:]]
            print("\n".join(line[:240] for line in shown))
            if not isinstance(error, AssertionError) or options.seeds == 1:
                traceback.print_exc(file=sys.stdout)
            print(f"seed {seed}: {type(error).__name__}: {error}"[:1000], flush=True)
        else:
            if options.trace:
                print("\n".join(simulation.world.trace))
            if options.seeds == 1:
                print(f"seed {seed}: {digest}")
    print(f"{played} seeds, bad: {bad or 'none'}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
