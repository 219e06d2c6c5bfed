"""What is yet to be sent to one client."""

from __future__ import annotations


class Outbox:
    """Bytes for one client's socket.

    Attributes:
        parts: what has not been taken out yet, in order.
        backlog_bytes: how much the socket has not taken; whoever writes to it keeps this true.
    """

    __slots__ = ("backlog_bytes", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.backlog_bytes = 0

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def unsent_bytes(self) -> int:
        """Return how many bytes have not been taken out yet."""
        return sum(map(len, self.parts))

    def put(self, data: bytes) -> int:
        """Append bytes; return the backlog then."""
        self.parts.append(data)
        self.backlog_bytes = backlog_bytes = self.backlog_bytes + len(data)
        return backlog_bytes

    def take(self) -> bytes:
        """Return all of it, and hold nothing any longer."""
        parts = self.parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return data

    def drop(self) -> None:
        """Send nothing of it."""
        self.parts.clear()
