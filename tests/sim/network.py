"""A simulated network: bytes cut anywhere, late, and lost with their connection; never reordered.

`Link` is one connection. The server's end is the real `ClientConnection` on a transport that this
module plays; the client's end gets whole frames once their last byte has come. Every frame is
parsed, and shown to `said`, at the moment when the server writes it: from then on somebody may
have seen it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol

import orjson
from jetstream_server.base.clock import MICROSECOND, MILLISECOND, SECOND

from tests.sim.clock import Agenda

WINDOW_BYTES = 256 * 1024  # what a socket holds for a client that does not read


class WireError(AssertionError):
    """The server wrote something that is not the protocol."""


@dataclass(slots=True)
class Frame:
    """One thing the server says."""

    verb: bytes
    subject: bytes = b""
    sid: bytes = b""
    reply: bytes = b""
    headers: bytes = b""
    payload: bytes = b""

    @property
    def status(self) -> bytes:
        """Return the code of a status message, empty for a message."""
        if not self.headers:
            return b""
        line = self.headers.partition(b"\r\n")[0]
        return line[9:12] if len(line) > 9 else b""


def read_frames(data: bytes) -> list[tuple[int, Frame]]:
    """Return the frames of a write, each with the position behind it."""
    frames: list[tuple[int, Frame]] = []
    at = 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        if end < 0:
            raise WireError(f"a write ends within a line: {data[at:][:80]!r}")
        verb, _, rest = data[at:end].partition(b" ")
        at = end + 2
        if verb in (b"MSG", b"HMSG"):
            parts = rest.split(b" ")
            numbers = 1 if verb == b"MSG" else 2
            if len(parts) not in (2 + numbers, 3 + numbers) or not all(parts):
                raise WireError(f"bad arguments: {verb!r} {rest!r}")
            reply = parts[2] if len(parts) == 3 + numbers else b""
            sizes = [int(part) for part in parts[-numbers:]]
            stop, split = at + sizes[-1], at + (sizes[0] if numbers == 2 else 0)
            if data[stop : stop + 2] != b"\r\n" or split > stop:
                raise WireError(f"sizes do not fit: {verb!r} {rest!r}")
            headers = data[at:split]
            if numbers == 2 and not (
                headers.startswith(b"NATS/1.0") and headers.endswith(b"\r\n\r\n")
            ):
                raise WireError(f"bad header block: {headers!r}")
            frame = Frame(verb, parts[0], parts[1], reply, headers, data[split:stop])
            at = stop + 2
        elif verb == b"INFO":
            orjson.loads(rest)
            frame = Frame(verb, payload=rest)
        elif verb in (b"PING", b"PONG", b"+OK", b"-ERR"):
            frame = Frame(verb, payload=rest)
        else:
            raise WireError(f"unknown verb: {data[at - 40 : at]!r}")
        frames.append((at, frame))
    return frames


class Client(Protocol):
    """The program at the other end."""

    def arrived(self, frame: Frame) -> None:
        """Take a frame."""
        ...

    def lost(self, link: Link) -> None:
        """The connection is gone."""
        ...


class Network:
    """Makes links and decides how they behave.

    Attributes:
        is_rough: whether bytes dawdle and connections break.
        said: shown every frame when the server writes it.
        digest: fed everything the server writes.
    """

    def __init__(
        self,
        agenda: Agenda,
        random: Random,
        said: Callable[[Link, Frame], None],
        digest: Callable[[bytes], None],
    ) -> None:
        self.agenda = agenda
        self.random = random
        self.said = said
        self.digest = digest
        self.is_rough = True
        self.links = 0  # made so far

    def delay(self) -> int:
        """Return how long some bytes take."""
        random = self.random
        if self.is_rough and random.random() < 0.03:
            return random.randrange(2 * SECOND)
        return random.randrange(100 * MICROSECOND, 3 * MILLISECOND)

    def cuts(self, data: bytes) -> list[bytes]:
        """Return the pieces in which some bytes arrive."""
        random, pieces = self.random, []
        while data:
            most = len(data) if random.random() < 0.5 else min(len(data), 200)
            size = random.randrange(1, most + 1) if random.random() < 0.4 else len(data)
            pieces.append(data[:size])
            data = data[size:]
        return pieces


class Link:
    """One connection: the transport of the server's end, and the client's end."""

    def __init__(self, network: Network, client: Client) -> None:
        self.network = network
        self.client = client
        self.protocol: Any = None
        self.is_open = True  # as the client sees it
        self.is_asleep = False  # the client does not read
        self._is_closing = False  # as the server sees it
        self._is_told = False  # the server knows
        self._is_paused = False
        self._is_full = False
        self._high = 64 * 1024
        self._unread: deque[bytes] = deque()  # arrived while the server did not read
        self._frames: deque[tuple[int, Frame]] = deque()
        self._written = self._arrived = 0
        self._up_at = self._down_at = 0
        # The server watches every other socket itself, and has time to close what is reset.
        self._is_watched = network.links % 2 == 1
        network.links += 1

    # -- the client's end ------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes to the server."""
        agenda, network = self.network.agenda, self.network
        for piece in network.cuts(data):
            self._up_at = max(self._up_at, agenda.clock.now_ns + network.delay())
            agenda.plan(self._up_at, partial(self._reached_server, piece))

    def break_off(self) -> None:
        """Lose the connection; each end learns of it in its time."""
        if self.is_open:
            self.is_open = False
            late = self.network.random.randrange(SECOND) if self.network.is_rough else 0
            agenda = self.network.agenda
            agenda.plan(agenda.clock.now_ns + late, self._reset)
            self.client.lost(self)

    def wake_up(self) -> None:
        """Read again."""
        if self.is_asleep:
            self.is_asleep = False
            self._reached_client(self._written)

    # -- in between ------------------------------------------------------------------------

    def _reached_server(self, piece: bytes) -> None:
        if self._is_told or self._is_closing or not self.is_open:
            return
        if self._is_paused or self._unread:  # what came before is read first
            self._unread.append(piece)
        else:
            self.protocol.data_received(piece)

    def _reached_client(self, position: int) -> None:
        if not self.is_open or self.is_asleep:
            return
        self._arrived = max(self._arrived, position)
        while self.is_open and self._frames and self._frames[0][0] <= self._arrived:
            self.client.arrived(self._frames.popleft()[1])
        if self._is_full and not self._is_told and self.get_write_buffer_size() * 4 <= self._high:
            self._is_full = False
            self.protocol.resume_writing()

    def _reset(self) -> None:
        error = ConnectionResetError()
        may_wait = self._is_watched and not self._is_closing
        if not (may_wait and self.protocol.reset_received(error)):
            self._tell(error)

    def _tell(self, error: Exception | None) -> None:
        if not self._is_told:
            self._is_told = self._is_closing = True
            self.protocol.connection_lost(error)

    def server_died(self) -> None:
        """The process is gone; the client notices at once, or with what still arrives."""
        self._is_told = self._is_closing = True
        if self.is_open:
            self.is_open = False
            self.client.lost(self)

    # -- the server's end: a transport -----------------------------------------------------

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
        network, agenda = self.network, self.network.agenda
        network.digest(data)
        for end, frame in read_frames(data):
            network.said(self, frame)
            self._frames.append((self._written + end, frame))
        for piece in network.cuts(data):
            self._written += len(piece)
            self._down_at = max(self._down_at, agenda.clock.now_ns + network.delay())
            agenda.plan(self._down_at, partial(self._reached_client, self._written))
        if not self._is_full and self.get_write_buffer_size() > self._high:
            self._is_full = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return what is not in the socket yet."""
        return max(self._written - self._arrived - WINDOW_BYTES, 0)

    def pause_reading(self) -> None:
        """Read no more."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Read on."""
        self._is_paused = False
        agenda = self.network.agenda
        agenda.plan(agenda.clock.now_ns, self._drain)

    def _drain(self) -> None:
        while self._unread and not self._is_paused and not self._is_told:
            self.protocol.data_received(self._unread.popleft())

    def close(self) -> None:
        """Close once everything is written."""
        if not self._is_closing:
            self._is_closing = True
            agenda = self.network.agenda
            agenda.plan(agenda.clock.now_ns, self._closed)

    abort = close

    def _closed(self) -> None:
        self._tell(None)
        if self.is_open:
            self.is_open = False
            self.client.lost(self)
