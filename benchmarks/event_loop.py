"""The loop that drives many sockets at once: epoll, big buffers, nothing per message.

A `Flow` counts bytes, or a byte pattern, in what it receives instead of parsing it. The pattern is
longer than anything else in a frame resembles it, so that the search skips ahead (some GB/s); that
is what keeps the load ahead of the servers, which the null server proves in each report.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from benchmarks.wire import LoadError, Wire

CHUNK_BYTES = 1 << 20
STALL_S = 45.0
_PARTS_MAX = 64
# All flows of a process read into the same memory: so it stays in the processor's cache.
_BUFFER = bytearray(CHUNK_BYTES)
_VIEW = memoryview(_BUFFER)


class Flow:
    """One socket in the loop.

    Args:
        marker: occurs once in each message that is received.
        frame_bytes: how long each message is, where all are alike; then bytes are counted instead.

    Attributes:
        messages: how many markers came.
        received_bytes: all bytes that came.
        on_data: called after each chunk with the buffer and the end of what is in it.
        on_drained: called when all that was given to `send` has left.
    """

    def __init__(self, wire: Wire, marker: bytes = b"", frame_bytes: int = 0) -> None:
        self.wire = wire
        self.sock: socket.socket = wire.sock
        self.sock.setblocking(False)
        self.messages = 0
        self.received_bytes = 0
        self.on_data: Callable[[bytearray, int], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self.is_blocked = False
        self._marker = marker
        self._frame_bytes = frame_bytes
        self._buffer = _BUFFER
        self._carried = b""
        self._outbox: deque[memoryview] = deque()
        self._watch_writing: Callable[[Flow, bool], None] = lambda flow, is_wanted: None

    def attach(self, watch_writing: Callable[[Flow, bool], None]) -> None:
        """Let the loop know when there is something left to write."""
        self._watch_writing = watch_writing
        if self.is_blocked:
            watch_writing(self, True)

    def send(self, *parts: memoryview | bytes) -> None:
        """Send now what the socket takes, the rest when it can."""
        self._outbox.extend(map(memoryview, parts))
        if not self.is_blocked:
            self.write()

    def write(self) -> None:
        """Write on; called by the loop when the socket has room."""
        was_blocked = self.is_blocked
        if self._outbox:
            try:
                count = self.sock.sendmsg(islice(self._outbox, _PARTS_MAX))
            except BlockingIOError:
                count = 0
            while self._outbox and count >= len(self._outbox[0]):
                count -= len(self._outbox.popleft())
        if self._outbox:
            self._outbox[0] = self._outbox[0][count:]
            self.is_blocked = True
            if not was_blocked:
                self._watch_writing(self, True)
            return
        self.is_blocked = False
        if was_blocked:
            self._watch_writing(self, False)
            if self.on_drained is not None:
                self.on_drained()

    def read(self) -> None:
        """Read one chunk and count the messages in it."""
        carried = len(self._carried)
        try:
            count = self.sock.recv_into(_VIEW[carried:])
        except BlockingIOError:
            return
        if count == 0:
            raise LoadError("the server closed the connection")
        end = carried + count
        _VIEW[:carried] = self._carried
        self.received_bytes += count
        rest = self.count(end)
        if self.on_data is not None:
            self.on_data(self._buffer, end)
        self._carried = bytes(_VIEW[rest:end])

    def count(self, end: int) -> int:
        """Count the messages in the buffer up to `end`; return from where on it is kept."""
        if self._frame_bytes:
            self.messages = self.received_bytes // self._frame_bytes
            return end
        self.messages += self._buffer.count(self._marker, 0, end)
        # A marker that is cut in two is whole in the next chunk, and a whole one never comes twice.
        return max(0, end + 1 - len(self._marker))


class EventLoop:
    """Waits for sockets and lets their flows read and write."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self._epoll = select.epoll()
        self._flows = {flow.sock.fileno(): flow for flow in flows}
        for number, flow in self._flows.items():
            self._epoll.register(number, select.EPOLLIN)
            flow.attach(self._watch_writing)

    def _watch_writing(self, flow: Flow, is_wanted: bool) -> None:
        wanted = select.EPOLLIN | select.EPOLLOUT if is_wanted else select.EPOLLIN
        self._epoll.modify(flow.sock.fileno(), wanted)

    def run(self, is_done: Callable[[], bool]) -> None:
        """Run until `is_done`, which is asked after every wake-up.

        Raises:
            LoadError: nothing moved for a long time, or a connection was closed.
        """
        last_event = time.perf_counter()
        while not is_done():
            events = self._epoll.poll(0.05)
            if not events:
                if time.perf_counter() - last_event > STALL_S:
                    counts = [flow.messages for flow in self._flows.values()]
                    raise LoadError(f"nothing moved for {STALL_S:g} s; received so far: {counts}")
                continue
            last_event = time.perf_counter()
            for number, event in events:
                flow = self._flows[number]
                if event & ~select.EPOLLOUT:
                    flow.read()
                if event & select.EPOLLOUT:
                    flow.write()

    def close(self) -> None:
        self._epoll.close()
