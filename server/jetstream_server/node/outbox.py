"""What is yet to be sent to one client."""

from __future__ import annotations

import sys
from collections import deque


class Outbox:
    """Bytes for one client's socket.

    Attributes:
        parts: what has not been taken out yet, in order; each of whole protocol lines.
        backlog_bytes: how much of what was put in has not left the socket, as far as is known.
    """

    __slots__ = ("_socket_bytes", "backlog_bytes", "parts")

    def __init__(self) -> None:
        self.parts: deque[bytes] = deque()
        self.backlog_bytes = 0
        self._socket_bytes = 0  # taken out, and not known to have left the socket

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def unsent_bytes(self) -> int:
        """Return how many bytes have not been taken out yet."""
        return self.backlog_bytes - self._socket_bytes

    def put(self, data: bytes) -> int:
        """Append bytes; return the backlog then."""
        self.parts.append(data)
        self.backlog_bytes = backlog_bytes = self.backlog_bytes + len(data)
        return backlog_bytes

    def take(self, bytes_max: int = sys.maxsize) -> bytes:
        """Take out so many bytes, or more, if that is in the middle of a part.

        They count as held by the socket until `socket_holds` says otherwise.
        """
        parts = self.parts
        if len(parts) == 1:
            data = parts.popleft()
        elif self.unsent_bytes <= bytes_max:
            data = b"".join(parts)
            parts.clear()
        else:
            taken, taken_bytes = [], 0
            while taken_bytes < bytes_max:
                part = parts.popleft()
                taken.append(part)
                taken_bytes += len(part)
            data = b"".join(taken)
        self._socket_bytes += len(data)
        return data

    def socket_holds(self, size: int) -> None:
        """Note how many bytes the socket has not sent yet."""
        self.backlog_bytes += size - self._socket_bytes
        self._socket_bytes = size

    def drop(self) -> None:
        """Send nothing of it; it counts as backlog all the same."""
        self.parts.clear()
        self._socket_bytes = self.backlog_bytes
