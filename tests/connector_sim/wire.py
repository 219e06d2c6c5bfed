"""One simulated connection: bytes that arrive in pieces, late, or not at all; never out of order.

A `Wire` has two ends. The client's is what a process sends to and receives from, as from a socket
that does not block; the server's is the transport of a real `ClientConnection`. How the bytes fare
is up to a `Course`: when each piece arrives, and after which byte of which direction the connection
is cut. Order holds within a connection only; two connections know nothing of each other.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from jetstream_server.base.clock import SECOND

from tests.sim.clock import Agenda

# What the client's kernel takes before the server has read it, and the other way round.
SEND_BUFFER_BYTES = 32 * 1024
RECEIVE_BUFFER_BYTES = 64 * 1024

NEVER = 1 << 62
# After how long a server drops a client that a silent cut has taken from it.
SILENCE_NS = 100 * SECOND


class Course(Protocol):
    """How the bytes of one connection fare.

    Attributes:
        up_max, down_max: bytes that reach the server, and the client, before the connection is cut.
        is_silent: whether a cut is told to nobody: what is sent just does not arrive any more.
    """

    up_max: int
    down_max: int
    is_silent: bool

    def delay_ns(self) -> int:
        """How long the next piece takes."""

    def up_stall_ns(self, piece: bytes) -> int:
        """How much longer a piece to the server takes."""

    def piece(self, size: int, moved: int) -> int:
        """How many of so many bytes go next, when so many have gone before."""

    def told_ns(self) -> int:
        """After how long an end learns of a cut."""

    def breaks_handshake(self) -> bool:
        """Whether a TLS handshake comes to nothing."""


def _nothing() -> None:
    pass


def _as_it_is(data: bytes) -> bytes:
    return data


class Wire:
    """One connection, as the client and the network see it; it is a link's carrier.

    Attributes:
        up, down: bytes that have reached the server, and the client.
        changed: called when the client may go on: bytes or room are there, or the end is.
        said: what each end wrote at once: whether to the server, from which byte on, what.
    """

    def __init__(
        self, agenda: Agenda, course: Course, digest: Callable[[bytes], None], name: str
    ) -> None:
        self.name = name
        self.up = self.down = 0
        self.changed: Callable[[], None] = _nothing
        self.agenda = agenda
        self.course = course
        self.digest = digest
        self.server = Transport(self)
        self.unread = bytearray()  # by the client
        self.said: list[tuple[bool, int, bytes]] = []
        self._error: OSError | None = None  # what the client's next call meets
        self._is_closed = False
        self._is_cut = False
        self._sent = 0
        self._up_at = 0

    @property
    def is_over(self) -> bool:
        """Whether the client's end is told that it broke."""
        return self._error is not None

    def send(self, data: memoryview) -> int:
        """Take what there is room for; return how much.

        Raises:
            OSError: the connection is over.
        """
        if self._error is not None:
            raise self._error
        taken = bytes(data[: max(0, SEND_BUFFER_BYTES - (self._sent - self.up))])
        self.said.append((True, self._sent, taken))
        at, now = 0, self.agenda.clock.now_ns
        while at < len(taken):
            size = self.course.piece(len(taken) - at, self._sent)
            piece = taken[at : at + size]
            delay_ns = self.course.delay_ns() + self.course.up_stall_ns(piece)
            self._up_at = max(self._up_at, now + delay_ns)
            self.agenda.plan(self._up_at, partial(self._reached_server, piece))
            self._sent += size
            at += size
        return len(taken)

    def receive(self, window: memoryview) -> int:
        """Move what has arrived into a window; return how much.

        Raises:
            OSError: the connection is over, and all that arrived was read.
        """
        size = min(len(window), len(self.unread))
        if not size and self._error is not None:
            raise self._error
        window[:size] = self.unread[:size]
        del self.unread[:size]
        if size:
            self.server.drained()
        return size

    def close(self) -> None:
        """End it from the client's side; what was sent may still arrive."""
        if self._is_closed:
            return
        self._is_closed = True
        self._error = self._error or OSError("it was closed here")
        # Behind the last of its bytes, which the server has read and acted on by then.
        self._up_at = max(self._up_at, self.agenda.clock.now_ns) + self.course.delay_ns()
        if not self._is_cut:
            self.agenda.plan(self._up_at, lambda: self.server.ended(None))

    def cut(self) -> None:
        """Nothing arrives any more; each end learns of it in its time, or not at all."""
        if self._is_cut:
            return
        self._is_cut = True
        now, course = self.agenda.clock.now_ns, self.course
        if course.is_silent:
            self.agenda.plan(now + SILENCE_NS, lambda: self.server.ended(TimeoutError()))
            return
        error = ConnectionResetError("the simulated network cut it")
        self.agenda.plan(now + course.told_ns(), lambda: self.server.ended(error))
        self.agenda.plan(now + course.told_ns(), lambda: self.failed(error))

    def find_out(self) -> None:
        """The server notices a cut that nobody told it of."""
        if self._is_cut:
            self.server.ended(TimeoutError())

    def failed(self, error: OSError) -> None:
        """Tell the client that it is over, once it has read what came."""
        self._error = self._error or error
        self.changed()

    def _reached_server(self, piece: bytes) -> None:
        if self._is_cut:
            return
        piece = piece[: self.course.up_max - self.up]
        self.up += len(piece)
        self.digest(piece)
        if piece:
            self.server.take(piece)
        if self.up >= self.course.up_max:
            self.cut()
        self.changed()

    def reached_client(self, piece: bytes) -> None:
        """Take bytes that the server wrote a while ago."""
        if self._is_cut or self._is_closed:
            return
        piece = piece[: self.course.down_max - self.down]
        self.down += len(piece)
        self.unread += piece
        if self.down >= self.course.down_max:
            self.cut()
        self.changed()


class Transport:
    """The server's end.

    Attributes:
        protocol: who reads, None until somebody does.
        written: takes what is written, and returns what is sent.
        other_address, cluster: added to the first INFO, unless empty.
    """

    def __init__(self, wire: Wire) -> None:
        self.protocol: Any = None
        self.other_address = self.cluster = ""
        self._wire = wire
        self._written = 0
        self._down_at = 0
        self.written: Callable[[bytes], bytes] = _as_it_is
        self._is_closing = False
        self._is_told = False  # the server knows that it is over
        self._is_paused = self._is_full = False
        self._high = 64 * 1024
        self._untaken: deque[bytes] = deque()

    # -- what happens to it ----------------------------------------------------------------

    def take(self, piece: bytes) -> None:
        """Bytes arrive."""
        if self._is_told or self._is_closing:
            return
        if self._is_paused:
            self._untaken.append(piece)
        else:
            self.protocol.data_received(piece)

    def drained(self) -> None:
        """The client has read."""
        if self._is_full and not self._is_told and self.get_write_buffer_size() * 4 <= self._high:
            self._is_full = False
            self.protocol.resume_writing()

    def ended(self, error: Exception | None) -> None:
        """The connection is over."""
        if not self._is_told:
            self._is_told = self._is_closing = True
            if self.protocol is not None:
                self.protocol.connection_lost(error)

    def died(self, is_silent: bool) -> None:
        """The server's process is gone; its machine says so unless it lost power."""
        self._is_told = self._is_closing = True
        if not is_silent:
            self._tell_client("the server closed it")

    def _tell_client(self, reason: str) -> None:
        wire = self._wire
        at = max(self._down_at, wire.agenda.clock.now_ns + wire.course.delay_ns())
        wire.agenda.plan(at, lambda: wire.failed(ConnectionResetError(reason)))

    # -- what the protocol calls -----------------------------------------------------------

    def set_write_buffer_limits(self, high: int) -> None:
        """Say when writing is to pause."""
        self._high = high

    def get_extra_info(self, name: str) -> Any:
        """Return the client's address."""
        return ("10.0.0.1", 5000) if name == "peername" else None

    def is_closing(self) -> bool:
        """Return whether the server closed."""
        return self._is_closing

    def write(self, data: bytes) -> None:
        """Write bytes to the client."""
        wire, at = self._wire, 0
        if not self._written:
            data = self._greeting(bytes(data))
        data = self.written(bytes(data))
        wire.digest(data)
        wire.said.append((False, self._written, data))
        now = wire.agenda.clock.now_ns
        while at < len(data):
            size = wire.course.piece(len(data) - at, self._written)
            self._down_at = max(self._down_at, now + wire.course.delay_ns())
            piece = bytes(data[at : at + size])
            wire.agenda.plan(self._down_at, partial(wire.reached_client, piece))
            self._written += size
            at += size
        if not self._is_full and self.get_write_buffer_size() > self._high:
            self._is_full = True
            self.protocol.pause_writing()

    def _greeting(self, data: bytes) -> bytes:
        added = {"cluster": self.cluster, "connect_urls": [self.other_address]}
        if not self.cluster:
            del added["cluster"]
        if not self.other_address:
            del added["connect_urls"]
        if not added:
            return data
        return data.replace(b"INFO {", b"INFO " + json.dumps(added).encode()[:-1] + b",", 1)

    def get_write_buffer_size(self) -> int:
        """Return what is in neither socket yet."""
        read = self._wire.down - len(self._wire.unread)
        return max(self._written - read - RECEIVE_BUFFER_BYTES, 0)

    def pause_reading(self) -> None:
        """Read no more."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Read on."""
        self._is_paused = False
        agenda = self._wire.agenda
        agenda.plan(agenda.clock.now_ns, self._drain)

    def _drain(self) -> None:
        while self._untaken and not self._is_paused and not self._is_told:
            self.protocol.data_received(self._untaken.popleft())

    def close(self) -> None:
        """Close once everything is written."""
        if not self._is_closing:
            self._is_closing = True
            agenda = self._wire.agenda
            agenda.plan(agenda.clock.now_ns, lambda: self.ended(None))
            self._tell_client("the server closed it")

    abort = close
