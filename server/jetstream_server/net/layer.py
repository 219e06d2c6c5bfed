"""What may lie between a socket and a session: TLS, WebSocket, or one on the other.

A layer works on bytes and has no socket, so it can be fed in any cuts. `ClientConnection` passes
what arrives up through its layers and what the session sends down through them.
"""

from __future__ import annotations

from typing import Protocol


class LayerError(Exception):
    """The peer broke the rules of a layer.

    Attributes:
        reason: why the connection closes, as `/connz` names it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Layer(Protocol):
    """One layer of one connection."""

    @property
    def is_over(self) -> bool:
        """Return whether the peer has ended the conversation in an orderly way."""
        ...

    def receive(self, data: bytes) -> bytes:
        """Take what arrived from below; return what that holds for above, maybe nothing.

        Raises:
            LayerError: the connection cannot go on. What `take_output` then returns is still sent.
        """
        ...

    def send(self, data: bytes) -> None:
        """Take what is to be sent; before the layer is set up it waits."""
        ...

    def end(self, reason: str) -> None:
        """Say goodbye; `reason` is why the connection closes."""
        ...

    def take_output(self) -> bytes:
        """Return the bytes for below since the last call."""
        ...
