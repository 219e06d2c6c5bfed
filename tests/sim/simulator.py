"""A whole server in one thread, on simulated time, disk and network: a seed in, a digest out.

The server is the real one, with its clients (`workload.py`) and all around it (`machine.py`)
played. The power goes at any change of the disk or between two of them; the disk fails, fills up
and recovers; connections break. What must hold is listed in `witness.py`.

First phase: faults, and nothing false may be said. Second: no faults any more, and everything
begun must finish.

    python -m tests.sim.simulator --seed 7 --turns 5000
    python -m tests.sim.simulator --seed 0 --seeds 1000
    python -m tests.sim.simulator --seed 0 --seeds 1000 --sliced
    python -m tests.sim.simulator --seed 0 --seeds 1000 --small
"""

from __future__ import annotations

import argparse
import errno
import gc
import hashlib
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from random import Random

from jetstream_server.base.clock import MICROSECOND, MILLISECOND, SECOND

from tests.sim.audit import audit, check_ages
from tests.sim.clock import Agenda, SimClock
from tests.sim.disk import PowerLostError
from tests.sim.life import require
from tests.sim.machine import Machine
from tests.sim.network import Frame, Link, Network
from tests.sim.small_bounds import small_slices, small_structures
from tests.sim.witness import Witness
from tests.sim.workload import Workload

AUDIT_TURNS = 25
CALM_TURNS = 4000
SEEDS_BETWEEN_COLLECTIONS = 10
CALM_TURN_NS = 50 * MILLISECOND


class Simulation:
    """One run.

    Args:
        seed: everything follows from it.
        turns: how long the faults last.
    """

    def __init__(self, seed: int, turns: int) -> None:
        self.random = random = Random(seed)
        self.turns = turns
        self.clock = SimClock()
        self.agenda = Agenda(self.clock, Random(random.randrange(1 << 30)))
        self.witness = Witness()
        self._digest = hashlib.sha256()
        self.machine = Machine(self.agenda, Random(random.randrange(1 << 30)), self.witness)
        self.network = Network(
            self.agenda, Random(random.randrange(1 << 30)), self._said, self._digest.update
        )
        self.workload = Workload(
            self.witness,
            self.network,
            Random(random.randrange(1 << 30)),
            self._connect,
            self.machine.accounts,
        )
        self.hazards = random.choice([0.0, 0.01, 0.03, 0.1])
        self._up_at = 0

    def _said(self, link: Link, frame: Frame) -> None:
        self.workload.said(link, frame)

    def _connect(self, link: Link) -> bool:
        if not self.machine.is_up:
            return False
        self.machine.connect(link)
        return True

    def run(self) -> str:
        """Run both phases; return the digest of all that the server wrote.

        Raises:
            BrokenError: a property does not hold.
        """
        self.machine.start()
        for turn in range(self.turns):
            self._turn(turn)
        self._calm_down()
        for turn in range(CALM_TURNS):
            self.workload.act_calmly(turn)
            self._pass(CALM_TURN_NS)
            if turn % AUDIT_TURNS == 0:
                self._audit()
                if self.workload.is_finished(self.machine.catalogs):
                    break
        check_ages(self.witness, self.machine.catalogs, self.clock.now_ns)
        self.workload.require_finished(self.machine.catalogs)
        self.machine.stop()
        require(self.machine.start(), "did not start again")
        self._digest.update(b"%d" % self.clock.now_ns)
        return self._digest.hexdigest()[:16]

    def _turn(self, turn: int) -> None:
        random, machine = self.random, self.machine
        if machine.is_up:
            if random.random() < self.hazards:
                self._harm()
            elif random.random() < 0.05:
                machine.disk.capacity = None
        elif self.clock.now_ns >= self._up_at:
            machine.start()
        if machine.is_up:
            self.workload.act()
            if turn % 8 < 2:
                machine.pump.rest()
        step = random.randrange(20 * MILLISECOND)
        if random.random() < 0.03:
            step = random.randrange(4 * SECOND)
        self._pass(step)
        if machine.is_up:
            machine.require_awake()
        if machine.is_up and turn % AUDIT_TURNS == 0:
            self._audit()

    def _audit(self) -> None:
        audit(self.witness, self.machine.catalogs, self.clock.now_ns)

    def _pass(self, step: int) -> None:
        """Let time pass, whatever happens in it."""
        machine = self.machine
        try:
            self.agenda.run_until(self.clock.now_ns + step)
        except PowerLostError:
            self._crash(power=True)
        if machine.failure is not None:
            raise machine.failure
        if not machine.is_up and machine.is_calm:
            require(machine.start(), "did not start")

    def _crash(self, *, power: bool) -> None:
        self.machine.crash(power=power)
        self._up_at = self.clock.now_ns + self.random.randrange(SECOND)

    def _harm(self) -> None:
        """Do something bad."""
        random, machine, disk = self.random, self.machine, self.machine.disk
        match random.choice(
            ["cut", "dark", "dark", "kill", "fail", "full", "stop", "link", "link"]
        ):
            case "cut":
                self._crash(power=True)
            case "dark" if machine.loses_unsynced:
                disk.dark_in = random.randrange(30)
            case "kill" | "dark":
                self._crash(power=False)
            case "fail":
                self.witness.count("failures")
                disk.fail_errno = random.choice([errno.EIO, errno.ENOSPC, errno.EIO])
                disk.fail_in = random.randrange(20)
            case "full":
                self.witness.count("full disks")
                disk.capacity = disk.used_bytes()
                disk.capacity += random.randrange(2_000)
            case "stop":
                try:
                    machine.stop()
                except PowerLostError:
                    machine.crash(power=True)
                self._up_at = self.clock.now_ns + random.randrange(SECOND)
            case "link":
                self.workload.trouble()

    def _calm_down(self) -> None:
        """End all faults; a store that failed is well after a restart."""
        machine, disk = self.machine, self.machine.disk
        machine.is_calm = True
        self.network.is_rough = False
        disk.fail_in = disk.dark_in = disk.capacity = None
        if machine.is_up:
            self._crash(power=self.random.random() < 0.5)
            self._pass(10 * MICROSECOND)
        else:
            require(machine.start(), "did not start")
        self.workload.calm_down()


def main(arguments: Iterable[str]) -> int:
    """Run seeds, say what came of them; return the number of bad ones."""
    parser = argparse.ArgumentParser(prog="tests.sim.simulator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="run so many, from --seed on")
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--sliced", action="store_true", help="little is done at once")
    parser.add_argument("--small", action="store_true", help="and a few messages are very many")
    parser.add_argument("--quiet", action="store_true", help="only bad seeds")
    options = parser.parse_args(list(arguments))
    around: Callable[[int], AbstractContextManager[object]] = nullcontext
    if options.small or options.sliced:
        around = small_structures if options.small else small_slices
    bad, totals = [], dict[str, int]()
    gc.freeze()  # the modules; of the rest, a few megabytes a seed, most is garbage at its end
    gc.disable()
    for seed in range(options.seed, options.seed + options.seeds):
        if seed % SEEDS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        simulation = Simulation(seed, options.turns)
        try:
            with around(seed):
                digest = simulation.run()
        except Exception as error:
            bad.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {error}"[:600], flush=True)
            if options.seeds == 1:
                raise
        else:
            if not options.quiet:
                print(f"seed {seed}: {digest}", flush=True)
        for name, count in simulation.witness.counts.items():
            totals[name] = totals.get(name, 0) + count
    print(", ".join(f"{name} {count:,}" for name, count in sorted(totals.items())))
    print(f"{options.seeds} seeds, bad: {bad or 'none'}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
