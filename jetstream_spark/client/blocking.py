"""The shell that runs operations in Spark's processes: blocking sockets, the real clock, real
randomness.

Blocking on purpose: Spark's driver-side runner and its forked workers are single-threaded processes
without an event loop. The sockets never block themselves: every wait is a `poll` with a deadline
(monotonic seconds), so a dead peer costs its own time limit and no more. While sending waits for
room it goes on receiving, so that two full pipes cannot wait for each other.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
import select
import socket
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeVar

from jetstream_spark.client.addresses import LearnedAddresses
from jetstream_spark.client.handshake import connect_fields, tls_context
from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import (
    EFFECTS,
    Effect,
    Encrypt,
    Open,
    Operation,
    Pause,
    Production,
    Transfer,
    Until,
)
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import ServerAddress

T = TypeVar("T")
B = TypeVar("B")

# Enough to make a scan worth its fixed cost, little enough to keep requests flowing.
RECEIVE_BYTES_MAX = 1 << 20
# One call of `send`; on a slow link, progress is noticed in steps of this size.
SEND_BYTES_MAX = 1 << 20


class BlockingHost:
    """This process, as operations see it.

    A worker is forked from a process that may already hold connections; those belong to the parent,
    so nothing is kept across a fork (`this_host`). Threads share a host; each connection is lent to
    one of them at a time.
    """

    def __init__(self) -> None:
        self.name = socket.gethostname()
        self.idle: dict[tuple[ConnectionOptions, str], list[Any]] = {}
        self.learned: dict[ConnectionOptions, LearnedAddresses] = {}

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def wall_time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()

    def token(self, size_bytes: int) -> str:
        """Random hexadecimal digits, two for each byte."""
        return secrets.token_hex(size_bytes)

    def shuffled(self, servers: Sequence[ServerAddress]) -> list[ServerAddress]:
        """The servers in random order."""
        return random.sample(servers, len(servers))

    def connect_fields(
        self, options: ConnectionOptions, info: dict[str, Any], role: str, is_encrypted: bool
    ) -> dict[str, Any]:
        """The fields of CONNECT; credentials are read from files and variables here."""
        name = options.connection_name or f"spark-{role}-{self.name}-{os.getpid()}"
        return connect_fields(options, info, name, is_encrypted)


_lock = threading.Lock()
_host: tuple[int, BlockingHost] | None = None


def this_host() -> BlockingHost:
    """The host of this process, the same for all its operations."""
    global _host
    with _lock:
        pid = os.getpid()
        if _host is None or _host[0] != pid:
            # The parent's connections are dropped with its host; closing our copies of their
            # descriptors does not end them there.
            _host = (pid, BlockingHost())
        return _host[1]


def run(operation: Operation[T]) -> T:
    """Run an operation to its end; return or raise what it does."""
    try:
        effect = next(operation)
        while True:
            effect = _carry_out(operation, effect)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        operation.close()


def iterate(production: Production[B]) -> Iterator[B]:
    """Run an operation that hands over blocks; each has to be used up before the next is asked
    for."""
    try:
        item = next(production)
        while True:
            if isinstance(item, EFFECTS):
                item = _carry_out(production, item)
            else:
                yield item
                item = next(production)
    except StopIteration:
        return
    finally:
        production.close()


def _carry_out(operation: Generator[Any, Any, Any], effect: Effect) -> Any:
    """Do what an operation asked for and resume it; return what it yields next."""
    outcome = None
    try:
        if isinstance(effect, Transfer):
            _transfer(effect)
        elif isinstance(effect, Pause):
            time.sleep(max(0.0, effect.until - time.monotonic()))
        elif isinstance(effect, Open):
            outcome = _open(effect)
        else:
            _encrypt(effect)
    except (OSError, ValueError, ConnectorError) as error:  # ValueError: a host that cannot be one
        return operation.throw(error)
    return operation.send(outcome)


class _SocketCarrier:
    """A socket, and the poll that waits for it.

    Attributes:
        wants_read, wants_write: what the socket raises when it has to wait for one or the other.
    """

    __slots__ = ("poll", "socket", "wants_read", "wants_write")

    def __init__(self, connection: socket.socket) -> None:
        self.wants_read: tuple[type[OSError], ...] = ()
        self.wants_write: tuple[type[OSError], ...] = (BlockingIOError,)
        self._adopt(connection)

    def encrypt(self, options: ConnectionOptions, server_name: str, timeout_s: float) -> None:
        """Shake hands, and go on with the encrypted socket."""
        import ssl  # a tenth of everything the connector imports, and seldom needed

        self.socket.settimeout(timeout_s)
        context = tls_context(options)
        self._adopt(context.wrap_socket(self.socket, server_hostname=server_name))
        self.wants_read = (ssl.SSLWantReadError,)
        self.wants_write = (BlockingIOError, ssl.SSLWantWriteError)

    def _adopt(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.poll = select.poll()
        self.poll.register(connection, select.POLLIN)

    def close(self) -> None:
        self.socket.close()


def _open(effect: Open) -> Link:
    timeout_s = effect.deadline - time.monotonic()
    if timeout_s <= 0:
        raise TimeoutError("there was no time left to connect")
    server = effect.server
    connection = socket.create_connection((server.host, server.port), timeout=timeout_s)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return Link(_SocketCarrier(connection))
    except BaseException:
        connection.close()
        raise


def _encrypt(effect: Encrypt) -> None:
    link, carrier = effect.link, _carrier(effect.link)
    server = effect.server
    name = effect.options.tls_server_name or server.tls_name or server.host
    carrier.encrypt(effect.options, name, max(0.001, effect.deadline - time.monotonic()))
    link.is_encrypted = True


def _carrier(link: Link) -> _SocketCarrier:
    assert isinstance(link.carrier, _SocketCarrier), "the link was made by another runner"
    return link.carrier


def _transfer(effect: Transfer) -> None:
    link, deadline = effect.link, effect.deadline
    carrier = _carrier(link)
    assert effect.until is Until.SENT or link.buffer.room, "nothing can be received without room"
    while True:
        blocked_on = _send_available(link, carrier) if link.outgoing else 0
        if effect.until is Until.SENT and not link.outgoing:
            return
        received = _receive_available(link, carrier) if link.buffer.room else 0
        if effect.until is Until.RECEIVED and received:
            return
        events = blocked_on | (select.POLLIN if link.buffer.room else 0)
        _wait(carrier, events, deadline)


def _send_available(link: Link, carrier: _SocketCarrier) -> int:
    """Send until there is no room; return the event to wait for, 0 when everything has left."""
    outgoing = link.outgoing
    while outgoing:
        try:
            sent = carrier.socket.send(outgoing[0][:SEND_BYTES_MAX])
        except carrier.wants_read:
            return select.POLLIN
        except carrier.wants_write:
            return select.POLLOUT
        if sent == len(outgoing[0]):
            outgoing.popleft()
        else:
            outgoing[0] = outgoing[0][sent:]
    return 0


def _receive_available(link: Link, carrier: _SocketCarrier) -> int:
    buffer, total = link.buffer, 0
    while buffer.room and total < RECEIVE_BYTES_MAX:
        try:
            count = carrier.socket.recv_into(buffer.window())
        except (*carrier.wants_read, *carrier.wants_write):
            break
        except (OSError, ValueError) as error:  # ValueError: a closed TLS socket
            if total:
                break  # what the server said before is read first, and the next call fails
            raise ConnectionResetError(str(error)) from None
        if count == 0:
            if total:
                break
            raise ConnectionResetError("the server closed it")
        buffer.stop += count
        total += count
    return total


def _wait(carrier: _SocketCarrier, events: int, deadline: float) -> None:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    carrier.poll.modify(carrier.socket, events)
    if not carrier.poll.poll(remaining_s * 1000 + 1):
        raise TimeoutError


class Blocking:
    """An object whose operations are run to their end as they are called; for scripts and tests.

    Attributes:
        inner: the object itself, for other operations to use.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        @functools.wraps(attribute)
        def call(*arguments: Any, **keywords: Any) -> Any:
            outcome = attribute(*arguments, **keywords)
            return run(outcome) if isinstance(outcome, Generator) else outcome

        return call
