"""A client's socket that is read from when `readiness.py` says so, and not when the loop does.

It stands between the loop's transport and the connection: it is the protocol of the one and the
transport of the other. What is written, and every end but that which is read, is the loop's as it
would be without it. As long as clients are few it steps aside, and the loop reads.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Protocol, cast

from jetstream_server.net.readiness import Readiness


class WatchedConnection(Protocol):
    """A connection: an `asyncio.BufferedProtocol` that can put off its end when it is reset."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        ...

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the socket is to be read into."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that were read."""
        ...

    def eof_received(self) -> bool | None:
        """Return whether the socket is to stay open for now: the other side has ended."""
        ...

    def reset_received(self, error: OSError) -> bool:
        """Return whether the socket is to stay open for now: it cannot be read from any more."""
        ...

    def pause_writing(self) -> None:
        """Write no more for now."""
        ...

    def resume_writing(self) -> None:
        """Write on."""
        ...


class WatchedSocket(asyncio.BufferedProtocol, asyncio.Transport):
    """The socket of one connection.

    Args:
        readiness: tells when there is something to read.
        connection: the connection.
        may_step_aside: the loop may read from it, as long as clients are few.
    """

    __slots__ = (
        "_connection",
        "_descriptor",
        "_has_ended",
        "_inner",
        "_is_paused",
        "_is_read_by_loop",
        "_is_watched",
        "_may_step_aside",
        "_readiness",
    )

    def __init__(
        self, readiness: Readiness, connection: WatchedConnection, *, may_step_aside: bool
    ) -> None:
        super().__init__()
        self._readiness = readiness
        self._connection = connection
        self._may_step_aside = may_step_aside
        self._inner: asyncio.Transport
        self._descriptor = -1
        self._is_read_by_loop = True  # until it is taken over
        self._is_watched = False
        self._is_paused = False
        self._has_ended = False  # there is nothing to be read any more

    # -- the protocol of the loop's transport --------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the connection begin."""
        self._inner = cast(asyncio.Transport, transport)
        readiness = self._readiness
        if not readiness.is_available or (self._may_step_aside and readiness.are_few):
            self._inner.set_protocol(cast(asyncio.BufferedProtocol, self._connection))
            self._connection.connection_made(transport)
            return
        self._descriptor = self._inner.get_extra_info("socket").fileno()
        # The loop begins to read when this is over, whatever is said to it before.
        asyncio.get_running_loop().call_soon(self._take_over)
        self._connection.connection_made(self)

    def _take_over(self) -> None:
        if not self._inner.is_closing():
            self._inner.pause_reading()
            self._is_read_by_loop = False
            if not self._is_paused and not self._has_ended:
                self._watch()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the loop is to read into, as long as it does."""
        return self._connection.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what the loop has read."""
        self._connection.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        """Pass on what the loop has found; return whether the socket stays open for now."""
        self._has_ended = True
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        """Have the connection write no more for now."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Have it write on."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch the socket no more, which is closed as soon as this is over."""
        self._has_ended = True
        self._unwatch()
        self._connection.connection_lost(exc)
        del self._connection  # which holds this socket: neither has to wait for the collector

    # -- the transport of the connection -------------------------------------------------------

    def read(self) -> None:
        """Read once, into where the connection says; cut it off if that goes wrong in a way that
        nobody foresaw."""
        try:
            self._read()
        except Exception:
            self._end()
            self._inner.abort()
            raise

    def _read(self) -> None:
        if self._is_paused or self._inner.is_closing():
            self._unwatch()
            return
        connection = self._connection
        try:
            size = os.readv(self._descriptor, (connection.get_buffer(-1),))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._break(error)
            return
        if size:
            connection.buffer_updated(size)
            return
        self._end()
        if not connection.eof_received():
            self._inner.close()

    def _end(self) -> None:
        self._has_ended = True
        self._unwatch()

    def _watch(self) -> None:
        try:
            self._readiness.watch(self._descriptor, self)
        except OSError as error:  # no more sockets can be watched
            self._break(error)
        else:
            self._is_watched = True

    def _break(self, error: OSError) -> None:
        self._end()
        if not self._connection.reset_received(error):
            self._inner.abort()

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._readiness.forget(self._descriptor)

    def pause_reading(self) -> None:
        """Read no more for now. It is still watched until there is something: most are read on
        before that."""
        self._is_paused = True
        if self._is_read_by_loop:
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._is_paused = False
        if not (self._is_watched or self._is_read_by_loop or self._has_ended):
            self._watch()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another connection take what is read from now on."""
        self._connection = cast(WatchedConnection, protocol)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write."""
        self._inner.write(data)

    def is_closing(self) -> bool:
        """Return whether it ends, or has ended."""
        return self._inner.is_closing()

    def close(self) -> None:
        """End it when everything is written."""
        self._inner.close()

    def abort(self) -> None:
        """End it at once."""
        self._inner.abort()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not left."""
        return self._inner.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say with how many bytes that have not left writing is paused, and goes on."""
        self._inner.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the loop's transport knows of the socket."""
        return self._inner.get_extra_info(name, default)
