"""What is yet to be sent to one client."""

from __future__ import annotations


class Outbox:
    """Bytes for one client's socket.

    Attributes:
        backlog_bytes: how much the socket has not taken; whoever writes to it keeps this true.
    """

    __slots__ = ("_parts", "backlog_bytes")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.backlog_bytes = 0

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def unsent_bytes(self) -> int:
        """Return how many bytes have not been taken out yet."""
        return sum(map(len, self._parts))

    def put(self, data: bytes) -> None:
        """Append bytes."""
        self._parts.append(data)
        self.backlog_bytes += len(data)

    def take(self) -> bytes:
        """Return all of it, and hold nothing any longer."""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        return data

    def drop(self) -> None:
        """Send nothing of it."""
        self._parts.clear()
