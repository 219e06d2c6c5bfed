"""The bytes received and not yet understood, in one block that is filled from the socket.

Positions are indexes into `data`, and stay valid until `make_room` moves the bytes.
So a reader may scan a growing buffer, keep the positions of what it found, and build columns from
them at the end, as long as it does not call `make_room` before that.
"""

from __future__ import annotations


class ReceiveBuffer:
    """A block of memory with unread bytes in `data[start:stop]`."""

    __slots__ = ("data", "start", "stop")

    def __init__(self, capacity: int) -> None:
        self.data = bytearray(capacity)
        self.start = 0
        self.stop = 0

    def __len__(self) -> int:
        """How many bytes are unread."""
        return self.stop - self.start

    @property
    def room(self) -> int:
        """How many bytes can be received without moving anything."""
        return len(self.data) - self.stop

    def window(self) -> memoryview:
        """The free memory after the unread bytes, for `recv_into`."""
        return memoryview(self.data)[self.stop :]

    def grow(self, capacity: int) -> None:
        """Replace the block by a larger one; positions stay valid."""
        replacement = bytearray(max(capacity, len(self.data)))
        replacement[: self.stop] = memoryview(self.data)[: self.stop]
        self.data = replacement

    def make_room(self, at_least: int) -> None:
        """Free `at_least` bytes after the unread ones; positions become invalid.

        The block is replaced, never resized: Arrow or a memoryview may still be using the old one.
        """
        unread = len(self)
        if unread == 0 and len(self.data) >= at_least:
            self.start = self.stop = 0
            return
        capacity = len(self.data)
        while capacity < unread + at_least:
            capacity *= 2
        if capacity == len(self.data):
            self.data[:unread] = self.data[self.start : self.stop]
        else:
            replacement = bytearray(capacity)
            replacement[:unread] = memoryview(self.data)[self.start : self.stop]
            self.data = replacement
        self.start, self.stop = 0, unread
