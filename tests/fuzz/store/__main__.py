"""The same operations on a store in files and on one in memory, by seeds.

    python -m tests.fuzz.store --seed 1 --seeds 1000
    python -m tests.fuzz.store --seed 17 --operations 400

What differs is told with the fewest operations that show it; a seed that is told stands for all
that it says, with the same `--operations`.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.store.running import told

OPERATIONS = 120  # of a seed


def main() -> int:
    """Run the seeds asked for; return how many showed a difference, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.store")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help="of each seed")
    arguments = parser.parse_args()
    began, bad = time.monotonic(), 0
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        if found := told(seed, arguments.operations):
            bad += 1
            print(found, flush=True)
    seeds, seconds = arguments.seeds, time.monotonic() - began
    did = f"{seeds} seeds, {seeds * arguments.operations} operations, {seconds:.0f} s"
    print(f"{did}, {bad} with a difference")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
