"""How many steps of handshakes a turn takes, of TLS and of WebSocket.

To answer a client's greeting by TLS takes half a millisecond or one and a half, which is a
signature of RSA with 2,048 bits, a request to monitoring nearly as long, to grant an upgrade to
WebSocket a tenth of that, and hundreds come at once where a server has been away. So a turn takes
some of the steps, by what they are worth. Whoever comes after that is not read from, and goes on in
one of the next turns; who came first is first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

UNITS_OF_TURN = 48  # of 0.1 to 0.2 milliseconds
UNITS_OF_TLS = 8
UNITS_OF_QUESTION = 6  # to monitoring
UNITS_OF_UPGRADE = 3


class HandshakingConnection(Protocol):
    """A connection whose handshake is not over."""

    @property
    def step_units(self) -> int:
        """Return what a step of it is worth."""
        ...

    def pause_reading(self) -> None:
        """Read no more."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...

    def go_on(self, data: bytes) -> None:
        """Take what arrived when there was no time for it."""
        ...


class Handshakes:
    """Decides whose handshake goes on in this turn.

    Args:
        wake: asks for a turn.

    Attributes:
        is_used: some of a turn's time was taken, or somebody waits for the next one.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._left = UNITS_OF_TURN
        self.is_used = False
        self._waiting: dict[HandshakingConnection, bytearray] = {}  # and what they have sent

    def takes(self, one: HandshakingConnection, data: bytes) -> bool:
        """Take on a step of a handshake; return False if there is no time for it: then what has
        arrived is kept, and `go_on` is called with it in one of the next turns.

        Args:
            one: whose step it is; not read from while it waits.
            data: what has arrived.
        """
        self._wake()
        self.is_used = True
        if self._left > 0 and not self._waiting:
            self._left -= one.step_units
            return True
        self.put_off(one, data)
        return False

    def put_off(self, one: HandshakingConnection, data: bytes = b"") -> None:
        """Have somebody go on in one of the next turns, with what has arrived."""
        self._wake()
        self.is_used = True
        self._waiting.setdefault(one, bytearray()).extend(data)
        one.pause_reading()

    def forget(self, one: HandshakingConnection) -> None:
        """A connection is gone."""
        self._waiting.pop(one, None)

    def turned(self) -> None:
        """A turn is over: those that wait go on in their order, as far as those that came before it
        have left time."""
        left, self._left = self._left, UNITS_OF_TURN
        self.is_used = False
        while self._waiting and left > 0:
            one = next(iter(self._waiting))
            left -= one.step_units
            data = self._waiting.pop(one)
            one.resume_reading()
            one.go_on(bytes(data))
        if self._waiting:
            self.is_used = True
            self._wake()
