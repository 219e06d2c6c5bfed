"""What may lie between a socket and a session: TLS, WebSocket, or one on the other.

A layer works on bytes and has no socket, so it can be fed in pieces of any size.
`LayeredConnection` passes what arrives up through its layer and what the session sends down through
it.

A layer that has failed takes no more, and sends no more except its goodbye.
"""

from __future__ import annotations

from typing import Protocol


class LayerError(Exception):
    """The peer broke the rules of a layer.

    Attributes:
        reason: why the connection closes, as `/connz` names it.
        received: what had arrived for the layer above before that; it still counts.
    """

    def __init__(self, reason: str, detail: str, received: bytes = b"") -> None:
        super().__init__(detail)
        self.reason = reason
        self.received = received


class Layer(Protocol):
    """One layer of one connection."""

    @property
    def is_over(self) -> bool:
        """Return whether the peer has ended the conversation in an orderly way."""
        ...

    @property
    def is_holding(self) -> bool:
        """Return whether `receive` has more to give although nothing arrives."""
        ...

    def receive(self, data: bytes) -> bytes:
        """Take what arrived from below; return what that holds for above, maybe nothing.

        Raises:
            LayerError: the connection cannot go on. What `take_output` then returns is still sent.
        """
        ...

    def send(self, data: bytes | memoryview) -> None:
        """Take what is to be sent; before the layer is set up it waits."""
        ...

    def end(self, reason: str) -> None:
        """Say goodbye; `reason` is why the connection closes."""
        ...

    def take_output(self) -> bytes:
        """Return the bytes for below since the last call."""
        ...


class Stacked:
    """Two layers as one.

    Args:
        lower: next to the socket.
        upper: next to the session.
    """

    def __init__(self, lower: Layer, upper: Layer) -> None:
        self._lower, self._upper = lower, upper

    @property
    def is_over(self) -> bool:
        """Return whether the peer has said goodbye in either layer."""
        return self._upper.is_over or (self._lower.is_over and not self.is_holding)

    @property
    def is_holding(self) -> bool:
        """Return whether either has more."""
        return self._upper.is_holding or self._lower.is_holding

    def receive(self, data: bytes) -> bytes:
        """Pass bytes up through both.

        Raises:
            LayerError: of the layer that failed first.
        """
        failures: list[LayerError] = []
        for layer in (self._lower, self._upper):
            try:
                data = layer.receive(data)
            except LayerError as error:
                failures.append(error)
                data = error.received
        if failures:
            raise LayerError(failures[0].reason, str(failures[0]), data) from failures[0]
        return data

    def send(self, data: bytes | memoryview) -> None:
        """Pass bytes down."""
        self._upper.send(data)

    def end(self, reason: str) -> None:
        """Say goodbye in both."""
        self._upper.end(reason)
        self._pass_down()
        self._lower.end(reason)

    def take_output(self) -> bytes:
        """Return the bytes for the socket."""
        self._pass_down()
        return self._lower.take_output()

    def _pass_down(self) -> None:
        if data := self._upper.take_output():
            self._lower.send(data)
