"""What is yet to be sent to one client."""

from __future__ import annotations

from collections import deque

# Of a client that does not read, very many small parts may come to wait, and to free half a million
# takes 25 ms. So many that came last are made one, if they are not much: 4 KB each.
_JOINED_PARTS = 256
_JOINED_BYTES_MAX = 1024 * 1024


class Outbox:
    """Bytes for one client's socket.

    Attributes:
        parts: what has not been taken out yet, in order; each of whole protocol lines, but for the
            first, of which some may have been taken.
        backlog_bytes: how much of what was put in has not left the socket, as far as is known.
    """

    __slots__ = (
        "_begin",
        "_dropped",
        "_dropped_bytes",
        "_parts_max",
        "_socket_bytes",
        "backlog_bytes",
        "parts",
    )

    def __init__(self) -> None:
        self.parts: deque[bytes] = deque()
        self.backlog_bytes = 0
        self._begin = 0  # where in the first part
        self._dropped: tuple[deque[bytes], ...] = ()  # and not freed yet
        self._dropped_bytes = 0
        self._parts_max = 2 * _JOINED_PARTS  # with so many, the last ones are joined
        self._socket_bytes = 0  # taken out, and not known to have left the socket

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def unsent_bytes(self) -> int:
        """Return how many bytes have not been taken out yet."""
        return self.backlog_bytes - self._socket_bytes

    def put(self, data: bytes) -> int:
        """Append bytes; return the backlog then."""
        parts = self.parts
        parts.append(data)
        if len(parts) >= self._parts_max:
            self._join_last()
        self.backlog_bytes = backlog_bytes = self.backlog_bytes + len(data)
        return backlog_bytes

    def _join_last(self) -> None:
        parts = self.parts
        last = [parts.pop() for _ in range(_JOINED_PARTS)][::-1]
        if sum(map(len, last)) <= _JOINED_BYTES_MAX:
            parts.append(b"".join(last))
        else:
            parts.extend(last)
        self._parts_max = len(parts) + _JOINED_PARTS

    def take(self) -> bytes:
        """Take out all of it.

        It counts as held by the socket until `socket_holds` says otherwise.
        """
        parts = self.parts
        if self._begin:
            parts[0] = parts[0][self._begin :]
            self._begin = 0
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._socket_bytes += len(data)
        return data

    def take_piece(self, bytes_max: int) -> bytes | memoryview:
        """Take out so many bytes, or all if that is less; of a part that is longer than that, some.

        They count as held by the socket until `socket_holds` says otherwise.
        """
        if self.backlog_bytes - self._socket_bytes <= bytes_max:
            return self.take()
        part = self.parts[0]
        is_long = self._begin or len(part) > bytes_max
        data = self._take_some_of(part, bytes_max) if is_long else self._take_whole_parts(bytes_max)
        self._socket_bytes += len(data)
        return data

    def _take_some_of(self, part: bytes, bytes_max: int) -> memoryview:
        begin = self._begin
        if len(part) - begin > bytes_max:
            self._begin = begin + bytes_max
        else:
            self.parts.popleft()
            self._begin = 0
        return memoryview(part)[begin : begin + bytes_max]

    def _take_whole_parts(self, left_bytes: int) -> bytes:
        parts, taken = self.parts, list[bytes]()
        while parts and (left_bytes := left_bytes - len(parts[0])) >= 0:
            taken.append(parts.popleft())
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def socket_holds(self, size: int) -> None:
        """Note how many bytes the socket has not sent yet."""
        self.backlog_bytes += size - self._socket_bytes
        self._socket_bytes = size

    def drop(self) -> None:
        """Send nothing of it; it counts as backlog all the same, and is held until `free`."""
        self._dropped_bytes += self.unsent_bytes
        self._dropped += (self.parts,)
        self.parts = deque()
        self._begin = 0
        self._socket_bytes = self.backlog_bytes

    @property
    def held_bytes(self) -> int:
        """Return how much there is in memory, to be sent or not."""
        return self.unsent_bytes + self._dropped_bytes

    def free(self) -> None:
        """Send nothing of it, and hold nothing."""
        self.drop()
        self._dropped = ()
        self._dropped_bytes = 0
