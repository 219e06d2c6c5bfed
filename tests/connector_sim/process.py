"""A simulated process of Spark, and the operations that are under way in it.

It is the runner of `client/operation.py`: effects are carried out on simulated wires, in simulated
time. A process that is killed stops in the middle of whatever it does, and no code of it runs any
more, `finally` clauses neither; its machine closes its connections.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from jetstream_server.base.clock import MILLISECOND, SECOND

from jetstream_spark.client.addresses import LearnedAddresses
from jetstream_spark.client.handshake import connect_fields
from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import EFFECTS, Encrypt, Open, Pause, Transfer, Until
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import ServerAddress
from tests.connector_sim.server import USER
from tests.connector_sim.wire import Wire
from tests.sim.clock import START, Agenda

# Small, so that a world of many connections is quick, and buffers have to grow.
BUFFER_BYTES = 1 << 16


class World(Protocol):
    """What a process stands in."""

    agenda: Agenda

    def secret(self) -> str:
        """The password as it is written down now."""

    def connect(
        self, process: Process, address: str, connected: Callable[[Wire | None], None]
    ) -> None:
        """Knock at an address; answer in a while with a wire, with None if refused, or never."""

    def ended(self) -> None:
        """Something is over that somebody may wait for."""


@dataclass(frozen=True, slots=True)
class Join:
    """An effect of the engine's own: wait until a condition holds.

    It is looked at whenever an activity has ended, and at the moment given.
    """

    is_ready: Callable[[], bool]
    until: float


class Process:
    """One process: a host for operations.

    Attributes:
        is_alive: False once it was killed.
        activities: what is under way.
    """

    def __init__(self, world: World, name: str, random: Random) -> None:
        self.name = name
        self.idle: dict[tuple[ConnectionOptions, str], list[Any]] = {}
        self.learned: dict[ConnectionOptions, LearnedAddresses] = {}
        self.is_alive = True
        self.world = world
        self.activities: list[Activity] = []
        self.wires: list[Wire] = []
        self._random = random

    # -- what operations ask ---------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the beginning."""
        return (self.world.agenda.clock.now_ns - START) / SECOND

    def wall_time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return self.world.agenda.clock.now_ns

    def token(self, size_bytes: int) -> str:
        """Random hexadecimal digits."""
        return self._random.randbytes(size_bytes).hex()

    def shuffled(self, servers: Sequence[ServerAddress]) -> list[ServerAddress]:
        """The servers in random order."""
        return self._random.sample(servers, len(servers))

    def connect_fields(
        self, options: ConnectionOptions, info: dict[str, Any], role: str, is_encrypted: bool
    ) -> dict[str, Any]:
        """The fields of CONNECT with the password as it is written down now."""
        bare = dataclasses.replace(options, user="", password=None)
        fields = connect_fields(bare, info, f"{self.name}-{role}", is_encrypted)
        return fields | {"user": USER, "pass": self.world.secret()}

    # -- its life ---------------------------------------------------------------------------

    def start(
        self,
        work: Generator[Any, Any, Any],
        ended: Callable[[Activity], None] | None = None,
        took: Callable[[Any], None] | None = None,
    ) -> Activity:
        """Begin with an operation, or with a production whose blocks go to `took`."""
        activity = Activity(self, work, ended, took)
        self.activities.append(activity)
        agenda = self.world.agenda
        agenda.plan(agenda.clock.now_ns, activity.begin)
        return activity

    def kill(self) -> None:
        """End it in the middle."""
        self.is_alive = False
        for wire in self.wires:
            wire.changed = lambda: None
            wire.close()


class Activity:
    """One operation on its way.

    Attributes:
        is_over: it returned, or raised.
        result, error: what.
    """

    def __init__(
        self,
        process: Process,
        work: Generator[Any, Any, Any],
        ended: Callable[[Activity], None] | None,
        took: Callable[[Any], None] | None,
    ) -> None:
        self.process = process
        self.work = work
        self.is_over = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._ended = ended
        self._took = took
        self._agenda = process.world.agenda
        self._turn = 0  # tells a wait from the ones before
        self._joining: tuple[int, Join | None] = (0, None)

    def begin(self) -> None:
        """Run to the first effect that has to wait."""
        self._go_on(None, None)

    def stop(self) -> None:
        """End it as its runner would: nobody wants the rest."""
        if self.process.is_alive and not self.is_over:
            self._turn += 1
            self.work.close()
            self._end(None, None)

    def _go_on(self, outcome: Any, error: BaseException | None) -> None:
        """Resume the operation, again and again while nothing has to be waited for."""
        while self.process.is_alive and not self.is_over:
            self._turn += 1
            try:
                if error is not None:
                    item = self.work.throw(error)
                else:
                    item = self.work.send(outcome)
            except StopIteration as end:
                self._end(end.value, None)
                return
            except Exception as failure:
                self._end(None, failure)
                return
            outcome = error = None
            if isinstance(item, Transfer):
                try:
                    if _move(item):
                        continue
                except OSError as broken:
                    error = broken
                    continue
                self._wait_for_wire(item)
                return
            if isinstance(item, Join):
                if item.is_ready():
                    continue
                self._wait_for_others(item)
                return
            if isinstance(item, EFFECTS):
                self._begin(item)
                return
            assert self._took is not None, "an operation handed over a block"
            self._took(item)
            # Whoever takes blocks needs a while for each.
            self._later(self._agenda.clock.now_ns + MILLISECOND, lambda: self._go_on(None, None))
            return

    def _end(self, result: Any, error: BaseException | None) -> None:
        self.is_over, self.result, self.error = True, result, error
        self.process.activities.remove(self)
        if self._ended is not None:
            self._ended(self)
        self.process.world.ended()

    # -- waiting -----------------------------------------------------------------------------

    def _later(self, at: int, act: Callable[[], None]) -> None:
        """Do something at a time, unless this wait has ended by then."""
        turn = self._turn
        self._agenda.plan(at, lambda: act() if turn == self._turn else None)

    def _begin(self, item: Open | Encrypt | Pause) -> None:
        if isinstance(item, Pause):
            self._later(_moment(item.until), lambda: self._go_on(None, None))
            return
        self._later(_moment(item.deadline), lambda: self._go_on(None, TimeoutError("no answer")))
        if isinstance(item, Encrypt):
            self._shake_hands(item)
            return
        turn = self._turn

        def connected(wire: Wire | None) -> None:
            if not self.process.is_alive or turn != self._turn:
                if wire is not None:
                    wire.close()
            elif wire is None:
                self._go_on(None, ConnectionRefusedError("nobody listens"))
            else:
                self.process.wires.append(wire)
                self._go_on(Link(wire, BUFFER_BYTES), None)

        self.process.world.connect(self.process, item.server.host, connected)

    def _shake_hands(self, item: Encrypt) -> None:
        """Two round trips of TLS; bytes are not changed by it, and a cut or a stall ends it."""
        wire = item.link.carrier
        assert isinstance(wire, Wire), "the link was made by another runner"
        duration_ns = sum(wire.course.delay_ns() for _ in range(4))

        def shaken() -> None:
            if wire.is_over or wire.course.breaks_handshake():
                self._go_on(None, ssl.SSLEOFError("the peer ended in the middle of a handshake"))
                return
            item.link.is_encrypted = True
            self._go_on(None, None)

        self._later(self._agenda.clock.now_ns + duration_ns, shaken)

    def _wait_for_wire(self, item: Transfer) -> None:
        wire = item.link.carrier
        assert isinstance(wire, Wire), "the link was made by another runner"
        turn = self._turn

        def changed() -> None:
            if turn != self._turn or not self.process.is_alive:
                return
            try:
                is_done = _move(item)
            except OSError as broken:
                wire.changed = _nothing
                self._go_on(None, broken)
                return
            if is_done:
                wire.changed = _nothing
                self._go_on(None, None)

        wire.changed = changed
        self._later(_moment(item.deadline), lambda: self._go_on(None, TimeoutError()))

    def _wait_for_others(self, item: Join) -> None:
        self._joining = (self._turn, item)
        self._later(_moment(item.until), lambda: self._go_on(None, None))

    def look(self) -> None:
        """Somebody has ended; go on if that is what this waits for."""
        turn, join = self._joining
        if turn == self._turn and join is not None and join.is_ready():
            self._go_on(None, None)


def _move(item: Transfer) -> bool:
    """Send and receive what can be; whether the transfer is done.

    Raises:
        OSError: the connection is over.
    """
    link = item.link
    wire = link.carrier
    assert isinstance(wire, Wire), "the link was made by another runner"
    while link.outgoing:
        part = link.outgoing[0]
        sent = wire.send(part)
        if sent < len(part):
            link.outgoing[0] = part[sent:]
            break
        link.outgoing.popleft()
    if item.until is Until.SENT and not link.outgoing:
        return True
    received = 0
    if link.buffer.room:
        received = wire.receive(link.buffer.window())
        link.buffer.stop += received
    return item.until is Until.RECEIVED and received > 0


def _moment(seconds: float) -> int:
    """The nanosecond by which so many seconds have passed for certain."""
    return START + round(seconds * SECOND) + MILLISECOND


def _nothing() -> None:
    pass


def error_name(error: BaseException | None) -> str:
    """The condition of an error of the connector, the type of another."""
    if isinstance(error, ConnectorError):
        return error.condition
    return type(error).__name__
