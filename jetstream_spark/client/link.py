"""The bytes of one connection on their way in and out; its runner moves them.

What is to be sent is kept by reference until it has left, so a frame buffer must not change before.
What was received is in one block that kernels scan in place.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from jetstream_spark.client.receive_buffer import ReceiveBuffer

BUFFER_BYTES = 1 << 20


class Carrier(Protocol):
    """What the link's runner knows the connection by, for example a socket."""

    def close(self) -> None:
        """End the connection, at once and without waiting; safe to call twice."""


class Link:
    """One connection as the operations see it.

    Attributes:
        buffer: received and not consumed: `buffer.data[buffer.start:buffer.stop]`.
        outgoing: what is to be sent, in order.
        is_open: False once it broke or was closed; it never becomes True again.
        is_encrypted: whether it uses TLS.
    """

    __slots__ = ("buffer", "carrier", "is_encrypted", "is_open", "outgoing")

    def __init__(self, carrier: Carrier, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.buffer = ReceiveBuffer(buffer_bytes)
        self.outgoing: deque[memoryview] = deque()
        self.is_open = True
        self.is_encrypted = False
        self.carrier = carrier

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Have bytes sent with the next transfer."""
        if len(data):
            self.outgoing.append(memoryview(data))

    def close(self) -> None:
        """End the connection; what has not left is dropped."""
        self.is_open = False
        self.outgoing.clear()
        self.carrier.close()
