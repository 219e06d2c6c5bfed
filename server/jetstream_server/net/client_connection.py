"""A client's socket: bytes in to the session, the session's output out.

Back-pressure towards publishers is `intake.py`. Towards subscribers: the transport is handed the
outbox a piece at a time, and says when it can take no more (`pause_writing`); the rest stays in the
outbox until it can. So what many clients have not read is not written to all their sockets at once
when they read on. The session's backlog counts both; consumers stop delivering to the client at the
high mark, and a client that keeps not reading is cut off at `max_pending`, or when it has taken
nothing for as long as `write_deadline`. A closing connection waits no longer than that for its
client to take what is left.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from jetstream_server.base.clock import SECOND
from jetstream_server.base.limits import OUTBOX_LOW_BYTES
from jetstream_server.core.containment import Incident
from jetstream_server.net.listening import peer_of
from jetstream_server.net.pump import Pump
from jetstream_server.net.read_buffer import READ_BYTES_MIN
from jetstream_server.node.listener import Listener
from jetstream_server.node.session import Session
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault

# Handed to the transport at once, and in a turn, as long as it passes all of it on and there is
# time: a piece takes 0.7 ms, and ten times as long where the system has to look for memory. What is
# left of one the transport writes by itself, without asking whether there is time.
_PIECE_BYTES = 256 * 1024
_PIECES_BYTES_MAX = 2 * 1024 * 1024
# How long a closing connection may last where `write_deadline` is off.
_CLOSING_NS_MAX = 10 * SECOND


class ClientConnection(asyncio.BufferedProtocol):
    """One TCP connection."""

    def __init__(self, pump: Pump, listener: Listener | None = None) -> None:
        self._pump = pump
        self._read_buffer = pump.read_buffer
        self._listener = listener
        self._transport: asyncio.Transport
        self._session: Session
        self._handed_over = 0  # bytes handed to the transport so far
        self._is_given_up = False
        self._is_leaving = False  # as soon as there is time for it
        self._has_ended = False  # the session, though the socket may live on
        self._is_parting = False  # the socket lives on until the client has taken what is left
        self._is_full = False  # the transport takes no more for now
        self._is_behind = False  # the backlog was above the low mark, and is to fall below it
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session; its INFO goes out in this turn."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # it holds what is left of a piece at most
        host, port = peer_of(transport)
        now, node = self._pump.clock.now(), self._pump.node
        if node.is_full:
            self._pump.departures.make_room()
        self._session = node.open_session(host, port, now, self._listener)
        self._pump.connections[self._session] = self
        if node.lame_duck is not None:
            self._session.close("Server Shutdown")  # it came before the listeners closed
        self._pump.wake()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the socket is to be read into."""
        return self._read_buffer.place

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that were read."""
        read_buffer = self._read_buffer
        if nbytes < READ_BYTES_MIN:  # as nearly always: so little is not counted
            self.data_received(bytes(read_buffer.place[:nbytes]))
            return
        self.data_received(read_buffer.take(nbytes))
        if read_buffer.is_spent:
            self._pump.intake.rest(self)

    def data_received(self, data: bytes) -> None:
        """Feed the session; the pump's next turn acts on it."""
        session, pump = self._session, self._pump
        try:
            session.feed(data)
        except Exception as error:
            self._contain(error)
        pump.intake.took(self, len(data), session.traffic.in_msgs)
        if not pump.is_turn_due:
            pump.wake()

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
        """Read on, unless there is nothing more to be heard."""
        if not self._transport.is_closing() and not self._is_parting:
            self._transport.resume_reading()

    def write_output(self, over_at: int = sys.maxsize) -> int:
        """Write the session's outbox piece by piece, as far as the socket takes it; close
        afterwards if the session says so.

        Args:
            over_at: when there is no time for another piece, in nanoseconds since the epoch; what
                is left is for the next turn.

        Returns:
            How many bytes that was.
        """
        session = self._session
        if session.closing:
            return self._write_last(session.closing, over_at)
        outbox, transport = session.outbox, self._transport
        if not outbox.parts or transport.is_closing():
            return 0
        backlog_bytes = outbox.backlog_bytes
        if backlog_bytes <= _PIECE_BYTES and not self._is_full:
            data = session.take_output()  # as nearly always
            self._write(data)
            outbox.socket_holds(transport.get_write_buffer_size())
            return len(data)
        if backlog_bytes > OUTBOX_LOW_BYTES:
            self._is_behind = True
        return self._write_pieces(over_at)

    def _write_pieces(self, over_at: int) -> int:
        outbox, written_bytes = self._session.outbox, 0
        while outbox.parts and not self._is_full:
            written_bytes += self._write_piece()
            if written_bytes >= _PIECES_BYTES_MAX or self._pump.clock.now() >= over_at:
                break
        self._go_on()
        return written_bytes

    def _write_piece(self) -> int:
        session = self._session
        data = session.take_piece(_PIECE_BYTES)
        self._write(data)
        session.outbox.socket_holds(self._transport.get_write_buffer_size())
        if self._is_behind:
            self._look_at_backlog()
        return len(data)

    def _write_last(self, reason: str, over_at: int) -> int:
        """Write what is left for a client whose session ends, and close when that was all."""
        if not self._has_ended:
            # The socket may live on for a while; the client's share of a queue group must not.
            self._end_session(reason)
        transport, outbox = self._transport, self._session.outbox
        if self._is_stuck() or (outbox.parts and transport.is_closing()):
            transport.abort()
        if transport.is_closing():
            return 0
        written_bytes = self._write_pieces(over_at)
        if outbox.parts:
            self._part()
        else:
            self._say_goodbye(reason)
            self._close()
        return written_bytes

    def _look_at_backlog(self) -> None:
        outbox = self._session.outbox
        outbox.socket_holds(self._transport.get_write_buffer_size())
        if self._is_behind and outbox.backlog_bytes <= OUTBOX_LOW_BYTES:
            self._is_behind = False
            self._pump.node.drained(self._session)
            self._pump.wake()

    def _go_on(self) -> None:
        """Write the next piece in the next turn, if there is one and the transport takes it."""
        if self._session.outbox.parts and not self._is_full:
            self._pump.node.note_output(self._session)
            self._pump.wake()

    def _write(self, data: bytes | memoryview) -> None:
        self._handed_over += len(data)
        self._transport.write(data)

    def _say_goodbye(self, reason: str) -> None:
        """Say that the connection ends; in plain NATS there is nothing to say."""

    def close(self) -> None:
        """Close after what is written has gone out; the server is ending."""
        if self._transport.is_closing():
            return
        self._session.close("Server Shutdown")
        while self._session.outbox.parts:
            self._write_piece()
        self._say_goodbye("Server Shutdown")
        self._close()

    def _close(self) -> None:
        """Close once all has gone out, or when that takes too long; no more is read."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._part()

    def _part(self) -> None:
        """Hear the client no more, and give it so much time to take what is left for it."""
        if self._is_parting:
            return
        self._is_parting, self._is_behind = True, False
        self._stop_watching()
        delay_ns = self._deadline_ns or _CLOSING_NS_MAX
        loop = asyncio.get_running_loop()
        self._stall = loop.call_later(delay_ns / SECOND, self._give_up_rest)
        self.pause_reading()

    def _give_up_rest(self) -> None:
        """Let go of what the client has not taken, when there is time for that."""
        if not self._is_leaving:
            self._is_leaving = True
            self._pump.departures.add(self, "")

    @property
    def _deadline_ns(self) -> int:
        return self._pump.node.options.write_deadline_ns

    def _is_stuck(self) -> bool:
        return self._session.closing.startswith("Slow Consumer")

    def pause_writing(self) -> None:
        """Write no more for now; watch whether the client reads at all."""
        self._is_full = True
        if not self._transport.is_closing() and not self._is_parting:
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
        """Write on, and let consumers deliver to this client again."""
        self._is_full = False
        if self._transport.is_closing():
            return
        if not self._is_parting:
            self._stop_watching()
        self._look_at_backlog()
        self._go_on()

    def eof_received(self) -> bool:
        """Have a client leave that has ended its side; return whether the socket stays open until
        there is time for that."""
        return self._leave_later(None)

    def reset_received(self, error: OSError) -> bool:
        """Have a client leave whose connection is broken; return whether the socket stays open
        until there is time for that."""
        return self._leave_later(error)

    def _leave_later(self, error: OSError | None) -> bool:
        keeps_socket = self._pump.departures.keep_sockets and not self._has_ended
        if keeps_socket:
            self._leave(error)
        return keeps_socket

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the client leave."""
        self._stop_watching()
        self._pump.intake.forget(self)
        self._pump.connections.pop(self._session, None)
        if not self._has_ended:
            self._leave(exc)
        elif self._session.outbox.held_bytes:
            self._give_up_rest()

    def _leave(self, exc: Exception | None) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._pump.departures.add(self, self._reason_of_loss(exc))

    @property
    def subscription_count(self) -> int:
        """Return how many subscriptions the client still has."""
        return self._session.subscription_count

    @property
    def held_bytes(self) -> int:
        """Return how much of what the client was to be sent is in memory."""
        return self._session.outbox.held_bytes

    def depart(self, reason: str) -> None:
        """Forget the session of a connection that is lost, and close the socket."""
        try:
            if not self._has_ended:
                self._end_session(reason)
        except Exception as error:
            self._contain(error)
        # Matches that are kept may know its subscriptions for long; what it did not take is not to
        # be kept with them.
        self._session.outbox.free()
        if self._is_parting:
            self._transport.abort()  # its time is over
        else:
            self._transport.close()

    def _end_session(self, reason: str) -> None:
        self._has_ended = True
        self._pump.node.close_session(self._session, reason, self._pump.clock.now())
        self._pump.wake()

    def _reason_of_loss(self, exc: Exception | None) -> str:
        return "Read Error" if exc else "Client Closed"
