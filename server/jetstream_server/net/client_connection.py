"""A client's socket: bytes in to the session, the session's output out.

Back-pressure towards publishers is `intake.py`. Towards subscribers: the transport says when its
buffer is full (`pause_writing`); until it has drained, the session's backlog counts what is in it;
consumers stop delivering to the client at the high mark, and a client that keeps not reading is cut
off at `max_pending`, or when it has taken nothing for as long as `write_deadline`. A closing
connection waits no longer than that for its client to take what is left.
"""

from __future__ import annotations

import asyncio
from typing import cast

from jetstream_server.base.clock import SECOND
from jetstream_server.base.limits import OUTBOX_HIGH_BYTES, OUTBOX_LOW_BYTES
from jetstream_server.core.containment import Incident
from jetstream_server.net.listening import peer_of
from jetstream_server.net.pump import Pump
from jetstream_server.net.read_buffer import READ_BYTES_MIN
from jetstream_server.node.listener import Listener
from jetstream_server.node.session import Session
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault

# How long a closing connection may last where `write_deadline` is off.
_CLOSING_NS_MAX = 10 * SECOND


class ClientConnection(asyncio.BufferedProtocol):
    """One TCP connection."""

    def __init__(self, pump: Pump, listener: Listener | None = None) -> None:
        self._pump = pump
        self._listener = listener
        self._transport: asyncio.Transport
        self._session: Session
        self._handed_over = 0  # bytes handed to the transport so far
        self._is_given_up = False
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session; its INFO goes out in this turn."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=OUTBOX_LOW_BYTES)
        host, port = peer_of(transport)
        now = self._pump.clock.now()
        self._session = self._pump.node.open_session(host, port, now, self._listener)
        self._pump.connections[self._session] = self
        if self._pump.node.lame_duck is not None:
            self._session.close("Server Shutdown")  # it came before the listeners closed
        self._pump.wake()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the socket is to be read into."""
        return self._pump.read_buffer.place()

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that were read."""
        read_buffer = self._pump.read_buffer
        self.data_received(read_buffer.take(nbytes))
        if nbytes >= READ_BYTES_MIN and read_buffer.is_spent:
            self._pump.intake.rest(self)

    def data_received(self, data: bytes) -> None:
        """Feed the session; the pump's next turn acts on it."""
        try:
            self._session.feed(data)
        except Exception as error:
            self._contain(error)
        self._pump.intake.took(self, len(data))
        self._pump.wake()

    def _contain(self, error: Exception) -> None:
        self._pump.node.containment.contain(error, self._pump.clock.now())

    def give_up(self, incident: Incident, now: int) -> None:
        """End the connection; at once if it cannot even be told."""
        if self._is_given_up or not hasattr(self, "_session"):
            self._transport.abort()
            return
        self._is_given_up = True
        self._session.give_up(incident, now)
        self._pump.node.note_output(self._session)
        self._pump.wake()

    @property
    def published(self) -> int:
        """Return how many messages the client has published so far."""
        return self._session.traffic.in_msgs

    @property
    def has_postponed(self) -> bool:
        """Return whether it has to wait before it can act on what the client said."""
        return self._session.has_postponed

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def write_output(self) -> None:
        """Write the session's outbox; close afterwards if the session says so."""
        session, transport = self._session, self._transport
        outbox = session.outbox
        if outbox.parts and not transport.is_closing():
            was_high = outbox.backlog_bytes >= OUTBOX_HIGH_BYTES
            self._write(session.take_output())
            outbox.backlog_bytes = transport.get_write_buffer_size()
            if was_high and outbox.backlog_bytes <= OUTBOX_LOW_BYTES:
                # The socket took it all, so `resume_writing` will not come to say so.
                self._pump.node.drained(session)
                self._pump.wake()
        if session.closing:
            if outbox or self._is_stuck():
                transport.abort()
            elif not transport.is_closing():
                self._say_goodbye(session.closing)
                self._close()
            # The socket may live on for a while; the client's share of a queue group must not.
            self._end_session(session.closing)

    def _write(self, data: bytes) -> None:
        self._send(data)

    def _send(self, data: bytes) -> None:
        self._handed_over += len(data)
        self._transport.write(data)

    def _say_goodbye(self, reason: str) -> None:
        """Say that the connection ends; in plain NATS there is nothing to say."""

    def close(self) -> None:
        """Close after what is written has gone out; the server is ending."""
        if self._transport.is_closing():
            return
        self._session.close("Server Shutdown")
        self._say_goodbye("Server Shutdown")
        self._close()

    def _close(self) -> None:
        """Close once all has gone out, or when that takes too long; no more is read."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._stop_watching()
            delay_ns = self._deadline_ns or _CLOSING_NS_MAX
            loop = asyncio.get_running_loop()
            self._stall = loop.call_later(delay_ns / SECOND, self._transport.abort)

    @property
    def _deadline_ns(self) -> int:
        return self._pump.node.options.write_deadline_ns

    def _is_stuck(self) -> bool:
        return self._session.closing.startswith("Slow Consumer")

    def pause_writing(self) -> None:
        """Watch a client that reads more slowly than it is written to."""
        if not self._transport.is_closing():
            self._watch(self._taken)

    @property
    def _taken(self) -> int:
        """Return how many bytes the client's side has taken."""
        return self._handed_over - self._transport.get_write_buffer_size()

    def _watch(self, taken: int) -> None:
        if self._deadline_ns > 0:
            loop = asyncio.get_running_loop()
            delay = self._deadline_ns / SECOND
            self._stall = loop.call_later(delay, self._check_progress, taken)

    def _check_progress(self, before: int) -> None:
        """Cut off a client that has taken nothing within the write deadline."""
        if (taken := self._taken) > before:
            self._watch(taken)
            return
        self._cut_off(faults.SLOW_CONSUMER_WRITE_DEADLINE)

    def _cut_off(self, fault: Fault) -> None:
        """End the connection of a client that does not take what it is sent."""
        node = self._pump.node
        node.stats.slow_consumers += 1
        self._session.close(fault.reason)
        node.note_output(self._session)
        self._pump.wake()

    def _stop_watching(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def resume_writing(self) -> None:
        """Let consumers deliver to this client again."""
        if self._transport.is_closing():
            return
        self._stop_watching()
        outbox = self._session.outbox
        outbox.backlog_bytes = outbox.unsent_bytes + self._transport.get_write_buffer_size()
        self._pump.node.drained(self._session)
        self._pump.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the session."""
        self._stop_watching()
        self._pump.intake.forget(self)
        self._pump.connections.pop(self._session, None)
        self._end_session(self._reason_of_loss(exc))

    def _end_session(self, reason: str) -> None:
        self._pump.node.close_session(self._session, reason, self._pump.clock.now())
        self._pump.wake()

    def _reason_of_loss(self, exc: Exception | None) -> str:
        return "Read Error" if exc else "Client Closed"
