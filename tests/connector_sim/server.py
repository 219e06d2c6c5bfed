"""The bundled server in one simulated machine: it starts, stops, is killed, and loses power.

The real `Node`, `Pump` and stores on the disk, the clock and the loop of `tests/sim`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.config.options import JetStreamOptions, ServerOptions
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.open_batches import HELD_MAX_BYTES, OpenBatches
from jetstream_server.jetstream.stream import Stream
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.pump import Pump
from jetstream_server.node.auth.auth import GLOBAL_ACCOUNT, Authenticator, User
from jetstream_server.node.node import Node
from jetstream_server.node.reload import reload
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.store_folder import open_folder
from jetstream_server.store.ports import MessageStore
from jetstream_server.store.vault import FileVault

from jetstream_spark.client.control import CONSUMER_PREFIX
from tests.connector_sim.replica import LaggingStore
from tests.connector_sim.stale_leader import Memory, StaleLeader
from tests.connector_sim.wire import Wire
from tests.node_context import node_context
from tests.sim.clock import Agenda, SimLoop, SimWorker, TurnClock
from tests.sim.disk import SimDisk

ROOT = Path("/data")
# Nobody is cut off for reading slowly: how slowly links are read is a matter of their own here.
OPTIONS = ServerOptions(
    server_name="sim", jetstream=JetStreamOptions(is_enabled=True), write_deadline_ns=0
)
USER = "ann"


@dataclass(frozen=True, slots=True)
class Stored:
    """One message as a stream holds it."""

    sequence: int
    subject: bytes
    headers: bytes
    payload: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, None without it."""
        for line in self.headers.split(b"\r\n")[1:]:
            key, separator, value = line.partition(b":")
            if separator and key == name:
                return value.strip()
        return None


class Server:
    """One server and its disk.

    Attributes:
        is_up: it takes connections.
        is_gone: it does not even refuse them, because its machine is off.
        password: what its only user has to say now.
        serves_from_ns: connections wait until then.
        other_address: what INFO says of further servers, "" for none.
        is_cluster: it says that it is one, whose leader may be stale.
        stale_until_ns: its leader does not know until then what there is.
        lag_ns: by how much the replicas that answer direct gets are behind, 0 for not at all.
        failure: an error of its own, which no client may cause.
        started: called whenever it has read its files, before it says anything.
    """

    def __init__(self, agenda: Agenda, random: Random, flush_ns: int) -> None:
        self.agenda = agenda
        self.is_up = self.is_gone = False
        self.password = "first"
        self.serves_from_ns = 0
        self.other_address = ""
        self.is_cluster = False
        self.lag_ns = self.stale_until_ns = 0
        self.failure: BaseException | None = None
        self.started: Callable[[], None] = _nothing
        self.disk = SimDisk(Random(random.randrange(1 << 30)))
        self._random = random
        self._flush_ns = flush_ns
        self._memory = Memory()  # of a leader that is stale
        self._wires: list[Wire] = []
        self._copy: SimDisk | None = None
        self._others_bytes = 0  # of what the open batches of others hold

    def start(self) -> None:
        """Start on what is on the disk."""
        if self.is_up:
            return
        chance = Random(self._random.randrange(1 << 30))
        self._loop = SimLoop(self.agenda, chance)
        self._worker = SimWorker(
            self._loop, self.agenda, chance, lambda: chance.randrange(self._flush_ns), self.disk
        )
        folder = open_folder(ROOT, self.disk)
        commit = GroupCommit(self.disk)
        chance = Random(self._random.randrange(1 << 30))
        self._node = node = Node(
            OPTIONS,
            self._gate(),
            chance,
            lambda level, text: None,
            port=4222,
            clock=TurnClock(chance).now,
        )
        account = node.add_account(GLOBAL_ACCOUNT)
        vault = FileVault(folder.path, GLOBAL_ACCOUNT, commit, self.disk)
        context = node_context(node, account)
        self._batches, self._others_bytes = context.batches, 0
        account.catalog = Catalog(context, vault)
        account.catalog.recover(self.agenda.clock.now_ns)
        Api(account.catalog).subscribe()
        asyncio._set_running_loop(self._loop)  # type: ignore[arg-type]
        try:
            self._pump = Pump(node, commit, self.agenda.clock, self._failed, self._worker)
        finally:
            asyncio._set_running_loop(None)
        self.is_up, self.is_gone = True, False
        self.started()
        self._pump.wake()

    def _gate(self) -> Authenticator:
        return Authenticator([User(GLOBAL_ACCOUNT, USER, self.password)])

    def _failed(self, error: BaseException) -> None:
        self.failure = error

    def connect(self, wire: Wire) -> None:
        """Accept a connection; it is served at once, or when the server has come up."""
        self._wires = [each for each in self._wires if not each.server.is_closing()]
        self._wires.append(wire)
        if self.agenda.clock.now_ns < self.serves_from_ns:
            wire.server.pause_reading()
            self.agenda.plan(self.serves_from_ns, lambda: self._serve_late(wire))
        else:
            self._serve(wire)

    def _serve_late(self, wire: Wire) -> None:
        if wire in self._wires and not wire.server.is_closing():
            self._serve(wire)
            wire.server.resume_reading()

    def let_lag(self) -> None:
        """Have direct gets of all streams answered by replicas that lag by up to `lag_ns`."""
        for stream in self._node.accounts[GLOBAL_ACCOUNT].catalog.streams.values():
            answering = stream._direct_get._search
            if not isinstance(answering._store, LaggingStore):
                clock, random = self.agenda.clock, Random(self._random.randrange(1 << 30))
                lagging = LaggingStore(stream.store, clock, random, lambda: self.lag_ns)
                answering._store = lagging  # type: ignore[assignment]

    def _serve(self, wire: Wire) -> None:
        wire.server.other_address = self.other_address
        wire.server.protocol = ClientConnection(self._pump)
        if self.is_cluster and not wire.name.startswith("keeper"):
            wire.server.cluster = "C"
            chance = Random(self._random.randrange(1 << 30))
            wire.server.protocol = StaleLeader(
                wire.server.protocol, wire.server, self._is_stale, self._memory, chance
            )
        wire.server.protocol.connection_made(wire.server)

    def _is_stale(self) -> bool:
        return self.agenda.clock.now_ns < self.stale_until_ns

    def holds(self, stream: str) -> range:
        """The sequences that a stream holds, or passes over."""
        store = self._store(stream)
        return range(max(1, int(store.first_seq)), int(store.last_seq) + 1)

    def change_mark(self, stream: str) -> tuple[int, int, int]:
        """What differs whenever messages came or went."""
        state = self._store(stream).state()
        return state.first_seq, state.last_seq, state.messages

    def has_stream(self, name: str) -> bool:
        """Whether there is a stream of that name."""
        return name in self._node.accounts[GLOBAL_ACCOUNT].catalog.streams

    def has(self, stream: str, sequence: int) -> bool:
        """Whether a stream holds a message."""
        return self._store(stream).load(sequence) is not None

    def messages(self, stream: str, first: int = 1) -> list[Stored]:
        """What a stream holds from a sequence on."""
        store, held = self._store(stream), self.holds(stream)
        found = []
        for sequence in range(max(first, held.start), held.stop):
            if (one := store.load(sequence)) is not None:
                found.append(Stored(sequence, one.subject, one.headers, one.payload))
        return found

    def has_interest(self, stream: str) -> bool:
        """Whether anybody has a consumer of a stream that stays.

        A task that began to read the stream's predecessor may make one too before it sees that the
        stream is another one. What is kept only for that one goes with it.
        """
        if not self.has_stream(stream):
            return False
        return any(not name.startswith(CONSUMER_PREFIX) for name in self._stream(stream).consumers)

    def _stream(self, name: str) -> Stream:
        return self._node.accounts[GLOBAL_ACCOUNT].catalog.streams[name]

    def _store(self, stream: str) -> MessageStore:
        return self._stream(stream).store

    def crowd(self, room_bytes: int) -> None:
        """Have open batches of others hold so much that this is left for ours, until they go or the
        server ends."""
        self.uncrowd()
        self._others_bytes = HELD_MAX_BYTES - room_bytes
        self._batches.held_bytes += self._others_bytes

    def hurry(self) -> None:
        """Give up every batch of which nothing came in the last turn, until `uncrowd`."""
        self._batches.idle_ns = 1

    def uncrowd(self) -> None:
        """Have room and time for batches again."""
        self._batches.held_bytes -= self._others_bytes
        self._others_bytes = 0
        self._batches.idle_ns = OpenBatches().idle_ns

    def rotate(self, password: str) -> None:
        """Take another password from now on, and turn away who came with the one before."""
        self.password = password
        if self.is_up:
            reload(self._node, OPTIONS, self._gate(), self.agenda.clock.now_ns)
            self._pump.wake()

    def kill(self, *, power: bool) -> None:
        """End without warning; without power, what was not synced is gone, and nobody is told."""
        if self.is_up:
            self._end(is_silent=power)
        self.is_gone = power
        if power:
            self.disk.restart()
        else:
            self._release_lock()

    def stop(self) -> None:
        """End as on SIGTERM, as soon as no flush is under way."""
        if not self.is_up:
            return
        if self._pump._flushing:
            self._loop.plan(self.agenda.clock.now_ns + MILLISECOND, self.stop)
            return
        self._worker.is_stopping = True
        ending = self._pump.stop()
        try:
            ending.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("the pump waits at its end")
        self._end(is_silent=False)
        self._release_lock()

    def take_copy(self) -> None:
        """Keep a copy of its files as they are now, as a snapshot of the disk has them."""
        self._copy = self.disk.copied(Random(self._random.randrange(1 << 30)))

    @property
    def has_copy(self) -> bool:
        """Whether a copy was taken."""
        return self._copy is not None

    def put_back(self) -> None:
        """Have the copy in the place of its files; it must not run."""
        assert not self.is_up and self._copy is not None, "files of a running server are its own"
        self.disk = self._copy.copied(Random(self._random.randrange(1 << 30)))

    def _end(self, *, is_silent: bool) -> None:
        self.is_up = self._loop.is_alive = False
        for wire in self._wires:
            wire.server.died(is_silent)
        self._wires.clear()

    def _release_lock(self) -> None:
        self.disk._locks.clear()


def _nothing() -> None:
    pass
