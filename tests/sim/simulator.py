"""A whole server in one thread, on simulated time, disk and network: a seed in, a digest out.

The server is the real one from `net/pump.py` down to the stores. What is played: sockets
(`network.py`), the event loop and the thread of the flush (`clock.py`), the disk (`disk.py`) and
the clients (`workload.py`). The power goes at any change of the disk or between two of them; the
disk fails, fills up and recovers; connections break. What must hold is in `checkers.py`.

First phase: faults, and nothing false may be said. Second: no faults any more, and everything
begun must finish.

    python -m tests.sim.simulator --seed 7 --turns 5000
    python -m tests.sim.simulator --seed 0 --seeds 1000
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from jetstream_server.base.clock import MICROSECOND, MILLISECOND, MINUTE, SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog import Catalog
from jetstream_server.jetstream.context import Context
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.pump import Pump
from jetstream_server.node.auth import GLOBAL_ACCOUNT, Authenticator
from jetstream_server.node.node import Node, NodeSettings
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.cipher_disk import CipherDisk
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.disk import Disk
from jetstream_server.store.keyring import Keyring
from jetstream_server.store.reserve import Reserve
from jetstream_server.store.store_folder import open_folder
from jetstream_server.store.vault import FileVault

from tests.sim.checkers import BrokenError, Witness, require
from tests.sim.clock import Agenda, SimClock, SimLoop
from tests.sim.disk import PowerLostError, SimDisk
from tests.sim.network import Link, Network
from tests.sim.workload import Workload

ROOT = Path("/data")
SETTINGS = NodeSettings(
    server_name="sim",
    host="127.0.0.1",
    port=4222,
    max_payload=1 << 20,
    max_control_line=4096,
    max_pending=64 << 20,
    max_connections=100,
    max_subscriptions=0,
    ping_interval_ns=2 * MINUTE,
    ping_max=2,
    auth_timeout_ns=2 * SECOND,
    version="2.14.5",
    api_level=4,
    jetstream=True,
)
AUDIT_TURNS = 25
CALM_TURNS = 1500
CALM_TURN_NS = 50 * MILLISECOND


class WatchedVault(FileVault):
    """A vault whose stores tell the witness what they store."""

    witness: Witness

    def folder(self, stream: str, *, memory: bool, first_seq: int = 0) -> Any:
        """Return the place of one stream."""
        folder = super().folder(stream, memory=memory, first_seq=first_seq)
        open_store = folder.messages
        folder.messages = lambda: self._watched(open_store())  # type: ignore[method-assign]
        return folder

    def _watched(self, store: Any) -> Any:
        if "append_run" in vars(store):
            return store
        witness, append, append_run = self.witness, store.append, store.append_run

        def watched_run(run: PubRun, start: int, stop: int, now: int) -> int:
            store.append = append  # what `append_run` uses is none of our business
            try:
                first: int = append_run(run, start, stop, now)
            finally:
                store.append = watched
            for sequence, at in enumerate(range(start, stop), first):
                message = (run.subject(at), run.headers(at), run.payload(at))
                witness.stored(sequence, *message, now)
            return first

        def watched(
            subject: bytes, headers: bytes, payload: bytes, now: int, sequence: int | None = None
        ) -> int:
            store.append_run = append_run
            try:
                used: int = append(subject, headers, payload, now, sequence)
            finally:
                store.append_run = watched_run
            witness.stored(used, subject, headers, payload, now)
            return used

        store.append_run, store.append = watched_run, watched
        return store


class Machine:
    """The server and what it stands on; it starts, crashes and starts again.

    Attributes:
        is_up: it runs.
    """

    def __init__(self, agenda: Agenda, random: Random, witness: Witness) -> None:
        self.agenda = agenda
        self.random = random
        self.witness = witness
        self.disk = SimDisk(Random(random.randrange(1 << 30)))
        self.is_up = False
        self.is_calm = False
        self.lazily_ns = random.choice([0, 0, 0, 2 * SECOND])
        self.block_bytes = random.choice([2_000, 8_000, 60_000])
        self.cipher = random.choice(["", "", "", "", "chacha"])
        self.slow_flushes = random.choice([2, 10, 60])
        self.reserve_bytes = random.choice([0, 1_000, 20_000, 200_000])
        self.notes: list[str] = []
        self.failure: BaseException | None = None
        self.links: list[Link] = []

    @property
    def loses_unsynced(self) -> bool:
        """Return whether the power may go: with lazy syncs only processes die."""
        return not self.lazily_ns

    def start(self) -> bool:
        """Start the server; False when the power went while it started."""
        witness, now = self.witness, self.agenda.clock.now_ns
        witness.starts += 1
        witness.count("starts")
        will_fail = self.disk.fail_in is not None
        self.loop = SimLoop(self.agenda, Random(self.random.randrange(1 << 30)), self._flush_ns)
        try:
            folder = open_folder(ROOT, self.disk)
            disk: Disk = self.disk
            if self.cipher:
                disk = CipherDisk(disk, Keyring(folder.path, disk, b"k" * 32, self.cipher))
            reserve = None
            if self.reserve_bytes:
                reserve = Reserve(
                    folder.path, self.disk, bytes_max=self.reserve_bytes, bytes_min=100
                )
            self.commit = GroupCommit(disk, lazily_ns=self.lazily_ns, reserve=reserve)
            chance = Random(self.random.randrange(1 << 30))
            self.node = node = Node(SETTINGS, Authenticator([]), chance, self._note)
            account = node.accounts[GLOBAL_ACCOUNT]
            vault = WatchedVault(
                folder.path, account.name, self.commit, disk, block_bytes=self.block_bytes
            )
            vault.witness = witness
            context = Context(
                account.name, node.name, "", account.sublist, account.output, node.nuid
            )
            context.log = self._note
            self.catalog = account.catalog = Catalog(context, vault)
            self.catalog.recover(now)
            Api(self.catalog).subscribe()
        except PowerLostError:
            witness.count("power lost at start")
            self.disk.restart()
            return False
        except (OSError, StoreError):
            require(self.disk.fail_in is None, "only one operation fails")
            require(will_fail, "did not start on a full disk")
            witness.count("failed at start")
            self._release_lock()
            return False
        if will_fail and self.disk.fail_in is None:  # whatever it hit is offline: try again
            witness.count("failed at start")
            self._release_lock()
            return False
        asyncio._set_running_loop(self.loop)  # type: ignore[arg-type]
        try:
            self.pump = Pump(node, self.commit, self.agenda.clock, self._failed)
        finally:
            asyncio._set_running_loop(None)
        self.is_up = True
        witness.recovered(self.catalog, now)
        witness.audit(self.catalog, now)
        self.pump.wake()
        return True

    def _flush_ns(self) -> int:
        if self.is_calm:
            return MILLISECOND
        slow = self.random.random() < 0.1
        return self.random.randrange(self.slow_flushes * MILLISECOND * (10 if slow else 1))

    def _note(self, level: str, text: str) -> None:
        if level == "ERR":
            self.notes.append(text)

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, PowerLostError):
            self.failure = error

    def connect(self, link: Link) -> None:
        """Accept a connection."""
        self.links = [each for each in self.links if each.is_open]
        self.links.append(link)
        link.protocol = ClientConnection(self.pump)
        link.protocol.connection_made(link)

    def crash(self, *, power: bool) -> None:
        """End without warning."""
        if self.is_up:
            self.witness.crashing(self.catalog)
            self._end()
        if power and self.loses_unsynced:
            self.witness.count("power cuts")
            self.disk.restart()
        else:
            self.witness.count("kills")
            self.disk.fail_in = self.disk.dark_in = None  # but a full disk stays full
            self._release_lock()

    def stop(self) -> None:
        """End as on SIGTERM; wait for a flush that is under way."""
        while self.pump._flushing:
            self.agenda.run_until(self.agenda.clock.now_ns + MILLISECOND)
        self.loop.is_stopping = True
        for life in self.witness.lives.values():
            life.live.clear()
        self.witness.crashing(self.catalog)
        ending = self.pump.stop()
        try:
            ending.send(None)
        except StopIteration:
            pass
        else:
            raise BrokenError("the pump waits at its end")
        self.witness.count("stops")
        self._end()
        self._release_lock()

    def _end(self) -> None:
        self.is_up = self.loop.is_alive = False
        for link in self.links:
            link.server_died()
        self.links.clear()

    def _release_lock(self) -> None:
        self.disk._locks.clear()


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
            self.witness, self.network, Random(random.randrange(1 << 30)), self._connect
        )
        self.hazards = random.choice([0.0, 0.01, 0.03, 0.1])
        self._up_at = 0

    def _said(self, frame: Any) -> None:
        self.workload.said(frame)

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
                self.witness.audit(self.machine.catalog, self.clock.now_ns)
                if self.workload.is_finished:
                    break
        self.workload.require_finished(self.machine.catalog)
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
        step = random.randrange(20 * MILLISECOND)
        if random.random() < 0.03:
            step = random.randrange(4 * SECOND)
        self._pass(step)
        if machine.is_up and turn % AUDIT_TURNS == 0:
            self.witness.audit(machine.catalog, self.clock.now_ns)

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
                disk.capacity = sum(disk.size(path) for path in disk._files)
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
    parser.add_argument("--quiet", action="store_true", help="only bad seeds")
    options = parser.parse_args(list(arguments))
    bad, totals = [], dict[str, int]()
    for seed in range(options.seed, options.seed + options.seeds):
        simulation = Simulation(seed, options.turns)
        try:
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
