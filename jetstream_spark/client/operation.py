"""The form of all work on connections: generators that do no I/O and say what they wait for.

An *operation* is a generator. Whenever it needs the world - to open a connection, carry bytes or
wait - it yields an effect, and is resumed with the outcome or has the failure thrown into it.
Between two effects it only computes: it reads no clock, draws no random numbers and touches no
file, except through its `Host`. So the same operations run over sockets in Spark's processes
(`blocking.py`) and over a simulated network with simulated time, where every step may be cut,
delayed or killed.

    Operation[T]        yields effects, returns a T
    Production[B]       yields effects and, in between, blocks of type B for whoever asked for them

The runner of an operation owes it this: effects are carried out one at a time, in order; a deadline
that passes is thrown as TimeoutError, a connection that cannot be made or that broke as another
OSError; and a runner that stops early closes the generator, whose `finally` clauses do no I/O.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from jetstream_spark.client.addresses import LearnedAddresses
from jetstream_spark.client.link import Link
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import ServerAddress

T = TypeVar("T")
B = TypeVar("B")
C = TypeVar("C")


class Until(enum.Enum):
    """What ends a transfer before its deadline."""

    RECEIVED = enum.auto()  # at least one byte was added to the link's buffer
    SENT = enum.auto()  # everything that was to be sent has left


@dataclass(frozen=True, slots=True)
class Open:
    """Connect to a server; the outcome is a `Link`."""

    server: ServerAddress
    deadline: float


@dataclass(frozen=True, slots=True)
class Encrypt:
    """Go over to TLS on a link; nothing may be waiting in either direction."""

    link: Link
    options: ConnectionOptions
    server: ServerAddress
    deadline: float


@dataclass(frozen=True, slots=True)
class Transfer:
    """Send what the link holds and receive what its buffer has room for."""

    link: Link
    until: Until
    deadline: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Let time pass until a moment."""

    until: float


Effect = Open | Encrypt | Transfer | Pause
EFFECTS = (Open, Encrypt, Transfer, Pause)
Operation = Generator[Effect, Any, T]
Production = Generator[Effect | B, Any, None]


def mapped(production: Production[B], change: Callable[[B], C]) -> Production[C]:
    """The same production, with each block changed on its way."""
    return _driven(production, lambda block: (change(block),))


def consumed(production: Production[B], take: Callable[[B], None]) -> Operation[None]:
    """Run a production to its end; its blocks are taken as they come."""

    def taken(block: B) -> tuple[()]:
        take(block)
        return ()

    yield from _driven(production, taken)


def _driven(
    production: Production[B], instead: Callable[[B], tuple[C, ...]]
) -> Generator[Effect | C, Any, None]:
    """Pass the effects on, and in place of each block whatever `instead` makes of it."""
    try:
        item = next(production)
        while True:
            if not isinstance(item, EFFECTS):
                yield from instead(item)
                item = next(production)
                continue
            try:
                outcome = yield item
            except Exception as error:
                item = production.throw(error)
            else:
                item = production.send(outcome)
    except StopIteration:
        return
    finally:
        production.close()


class Host(Protocol):
    """What an operation may ask of its process without waiting.

    Attributes:
        name: of the machine, for messages and for the connection's name.
        idle: connections that nobody uses at the moment, by options and role; see `pool.py`.
        learned: addresses that servers named, by the options of the connection.
    """

    name: str
    idle: dict[tuple[ConnectionOptions, str], list[Any]]
    learned: dict[ConnectionOptions, LearnedAddresses]

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    def wall_time_ns(self) -> int:
        """Nanoseconds since 1970."""

    def token(self, size_bytes: int) -> str:
        """Random hexadecimal digits, two for each byte, that nobody else has."""

    def shuffled(self, servers: Sequence[ServerAddress]) -> list[ServerAddress]:
        """The servers in random order."""

    def connect_fields(
        self, options: ConnectionOptions, info: dict[str, Any], role: str, is_encrypted: bool
    ) -> dict[str, Any]:
        """The fields of CONNECT, with the credentials as they are now (`handshake.py`).

        Raises:
            SecretUnreadableError: a credential cannot be read in this process.
            AuthenticationFailedError: a credential is malformed.
        """
