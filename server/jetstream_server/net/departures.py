"""How many of the clients whose connections are lost leave in a turn.

A thousand may go at once, as when their machine is switched off. To forget one takes the time of
some operations, and more with thousands of subscriptions, and all of them would be forgotten before
anybody else is heard. So those for whom there is no time leave in the next turns, in their order;
until then what they have subscribed to reaches them no less than it did on its way to them.

The socket of a client that has ended its side is closed when the client leaves, as to close it
takes longer than to be told: ten thousand that ended together kept others waiting for 200 ms. Where
few descriptors are left each is closed at once, so that others may come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

PARTS_OF_TURN = 40  # of some 60 microseconds
# While there is more to be heard than a look may find: others wait for all who were lost before
# them, and those who leave can wait.
PARTS_OF_BUSY_TURN = 4
SUBSCRIPTIONS_OF_PART = 500
# That it was to be sent: 40 MB in parts of a megabyte take 0.4 to 0.9 ms to be freed.
BYTES_OF_PART = 4 * 1024 * 1024


class DepartingConnection(Protocol):
    """A connection that is lost, and whose client is yet to be forgotten."""

    @property
    def subscription_count(self) -> int:
        """Return how many subscriptions its client still has."""
        ...

    @property
    def held_bytes(self) -> int:
        """Return how much of what it was to be sent is in memory."""
        ...

    def depart(self, reason: str) -> None:
        """Forget the client, and close its socket if it is open."""
        ...


class Socket(Protocol):
    """The socket of somebody who is no client."""

    def close(self) -> None:
        """Close it."""
        ...


class _Unclaimed:
    """A connection of nobody: there is only its socket to be closed."""

    subscription_count = held_bytes = 0

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    def depart(self, reason: str) -> None:
        """Close it."""
        self._socket.close()


class Departures:
    """Decides whose client leaves in this turn.

    Args:
        wake: asks for a turn.

    Attributes:
        keep_sockets: those that wait may keep theirs open.
        is_used: some of a turn's time was taken, or somebody waits for the next one.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.keep_sockets = True
        self._left = PARTS_OF_TURN
        self.is_used = False
        self._waiting: deque[tuple[DepartingConnection, str]] = deque()

    def add(self, one: DepartingConnection, reason: str) -> None:
        """Have a client leave: now, if there is time for it and nobody waits, else in one of the
        next turns."""
        self._waiting.append((one, reason))
        if len(self._waiting) > 1:
            return  # a turn comes as long as somebody waits, and ten thousand may be told at once
        self.is_used = True
        self._go_on()
        if self._waiting:
            self._wake()

    def close_later(self, socket: Socket) -> bool:
        """Close the socket of somebody who is no client, and has ended it, when there is time for
        that; return whether it may stay open until then. If not, whoever asks closes it."""
        if self.keep_sockets:
            self.add(_Unclaimed(socket), "Client Closed")
        return self.keep_sockets

    def turned(self, *, is_busy: bool = False) -> None:
        """A turn is over: those that wait leave in their order, as far as there is time.

        Args:
            is_busy: there is less of it, as many others wait to be heard.
        """
        self._left = PARTS_OF_BUSY_TURN if is_busy else PARTS_OF_TURN
        self.is_used = False
        self._go_on()
        if self._waiting:
            self.is_used = True
            self._wake()

    def make_room(self) -> None:
        """Have whoever waits longest leave, although there is no time for it: somebody comes who
        needs the place."""
        if self._waiting:
            self._left = max(self._left, 1)
            self._go_on()

    def finish(self) -> None:
        """Have all of them leave: there are no more turns."""
        while self._waiting:
            self._left = PARTS_OF_TURN
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._left > 0:
            one, reason = self._waiting.popleft()
            self.is_used = True
            self._left -= 1 + one.subscription_count // SUBSCRIPTIONS_OF_PART
            self._left -= one.held_bytes // BYTES_OF_PART
            one.depart(reason)
