"""The server and what it stands on: it starts, is killed, loses power, and starts again.

The server is the real one from `net/pump.py` down to the stores. What is played: the event loop
and the thread of the flush (`clock.py`), the disk (`disk.py`), sockets (`network.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.config.options import JetStreamOptions, ServerOptions
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.pump import Pump
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.auth.auth import GLOBAL_ACCOUNT, Authenticator, User
from jetstream_server.node.node import Node
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.cipher_disk import CipherDisk
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import Disk
from jetstream_server.store.disk.journal import Journal
from jetstream_server.store.disk.keyring import Keyring
from jetstream_server.store.disk.reserve import Reserve
from jetstream_server.store.disk.store_folder import open_folder
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.vault import FileVault

from tests.node_context import node_context
from tests.sim.audit import audit
from tests.sim.clock import Agenda, SimLoop, SimWorker, TurnClock
from tests.sim.comparison import compare
from tests.sim.disk import PowerLostError, SimDisk
from tests.sim.life import BrokenError, Life, require
from tests.sim.network import Link
from tests.sim.witness import Witness

ROOT = Path("/data")
# Nobody is cut off for reading slowly: how slowly links are read is a matter of their own here.
OPTIONS = ServerOptions(
    server_name="sim", jetstream=JetStreamOptions(is_enabled=True), write_deadline_ns=0
)


class WatchedVault(FileVault):
    """A vault whose stores tell the witness what they store."""

    witness: Witness
    account: str

    def folder(self, stream: str, *, memory: bool, first_seq: int = 0) -> Any:
        """Return the place of one stream."""
        folder = super().folder(stream, memory=memory, first_seq=first_seq)
        if stream.startswith("."):  # what a restore has received so far
            return folder
        open_store = folder.messages
        folder.messages = lambda: self._watched(stream, open_store())  # type: ignore[method-assign]
        return folder

    def _watched(self, name: str, store: Any) -> Any:
        if "append_run" in vars(store):
            return store
        witness, append, append_run = self.witness, store.append, store.append_run

        def life() -> Life:
            found = witness.life(self.account, name)
            require(found is not None, "nobody asked for", self.account, name)
            assert found is not None
            return found

        def watched_run(
            run: PubRun, start: int, stop: int, now: int, timestamps: Any = None
        ) -> int:
            previous = {
                run.subject(at): store.subject_last(run.subject(at)) for at in range(start, stop)
            }
            store.append = append  # what `append_run` uses is none of our business
            try:
                first: int = append_run(run, start, stop, now, timestamps)
            finally:
                store.append = watched
            for sequence, at in enumerate(range(start, stop), first):
                message = subject, _, _ = run.subject(at), run.headers(at), run.payload(at)
                time = now if timestamps is None else timestamps[at - start]
                witness.stored(life(), sequence, message, time, previous[subject])
                previous[subject] = sequence
            return first

        def watched(
            subject: bytes, headers: bytes, payload: bytes, now: int, sequence: int = 0
        ) -> int:
            previous = store.subject_last(subject)
            store.append_run = append_run
            try:
                used: int = append(subject, headers, payload, now, sequence)
            finally:
                store.append_run = watched_run
            witness.stored(life(), used, (subject, headers, payload), now, previous)
            return used

        store.append_run, store.append = watched_run, watched
        if isinstance(store, MemoryStore):
            keep_only = store._keep_only

            def kept(sequences: Iterable[int]) -> int:
                store.append = append  # what stays is stored again
                try:
                    return keep_only(sequences)
                finally:
                    store.append = watched

            store._keep_only = kept  # type: ignore[method-assign]
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
        self.cipher = random.choice(["", "", "", "", "", "chacha", "aes"])
        self.accounts = [GLOBAL_ACCOUNT, *random.choice([[], [], ["B"]])]
        self.catalogs: dict[str, Catalog] = {}
        self.slow_flushes = random.choice([2, 10, 60])
        self.reserve_bytes = random.choice([0, 1_000, 20_000, 200_000])
        self.journal_bytes = random.choice([0, 2_000, 65_536])
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
        chance = Random(self.random.randrange(1 << 30))
        self.loop = SimLoop(self.agenda, chance)
        self.worker = SimWorker(self.loop, self.agenda, chance, self._flush_ns, self.disk)
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
            journal = Journal(folder.path, self.disk, room_bytes=self.journal_bytes)
            journal.load()
            self.commit = GroupCommit(
                disk, lazily_ns=self.lazily_ns, reserve=reserve, journal=journal
            )
            chance = Random(self.random.randrange(1 << 30))
            users = [User(name, name, name) for name in self.accounts]
            self.node = node = Node(
                OPTIONS,
                Authenticator(users),
                chance,
                self._note,
                port=4222,
                clock=TurnClock(chance).now,
            )
            for name in self.accounts:
                self.catalogs[name] = self._open(node.add_account(name), folder.path, disk, now)
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
            self.pump = Pump(node, self.commit, self.agenda.clock, self._failed, self.worker)
        finally:
            asyncio._set_running_loop(None)
        self.is_up = True
        compare(witness, self.catalogs, now)
        audit(witness, self.catalogs, now)
        self.pump.wake()
        return True

    def _open(self, account: Account, root: Path, disk: Disk, now: int) -> Catalog:
        """Recover the streams of an account."""
        node, name = self.node, account.name
        vault = WatchedVault(root, name, self.commit, disk, block_bytes=self.block_bytes)
        vault.witness, vault.account = self.witness, name
        context = node_context(node, account, self._note)
        account.catalog = catalog = Catalog(context, vault)
        catalog.recover(now)
        Api(catalog).subscribe()
        return catalog

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

    def require_awake(self) -> None:
        """Complain of an account whose turn the node would miss."""
        node = self.pump.node
        wakes_at = node.next_deadline()
        for account in node.accounts.values():
            output = account.output
            has_sends = output.sends or output.sends_after_flush
            deadline = 0 if has_sends else account.next_deadline()
            is_missed = deadline is not None and (wakes_at is None or wakes_at > deadline)
            require(not is_missed, "oversleeps", account.name, deadline, wakes_at)

    def crash(self, *, power: bool) -> None:
        """End without warning."""
        if self.is_up:
            self.witness.crashing(self.catalogs)
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
        self.worker.is_stopping = True
        self.witness.crashing(self.catalogs)
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
