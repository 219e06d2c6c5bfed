"""How much a turn unwraps of what comes by TLS and WebSocket, of all clients together.

A record or a frame can hold a single byte, so that a read of 256 KB is eleven thousand records, or
forty thousand frames, and hundreds of clients can send that at once. Nor is there time for all that
a kilobyte of each of them may inflate to. What there is no time for stays in the layer, whose
client is not read from until it has gone on. Those that wait for that go on in their order, in
shares; whoever comes new has a little of each turn at least, so that who says little does not wait
for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

STEPS_OF_TURN = 1500  # of one or two microseconds
STEPS_MIN = 4  # of one client that comes new, whatever others have used
STEPS_OF_SHARE_MIN = 64  # of one that waits, if there are many; to come to it takes some, too
BYTES_OF_STEP = 4096  # of what a record or a frame holds
INFLATED_BYTES_OF_STEP = 1024  # which takes 2 to 6 microseconds
RECORD_BYTES_MAX = 1 << 14  # in plain (RFC 8446, 5.1)


class HoldingConnection(Protocol):
    """A connection whose layer has more to give although nothing arrives."""

    def unwrap(self) -> None:
        """Take some of it, and read on when that was all."""
        ...


class Unwrapping:
    """How many records and frames there is still time for in this turn, and whose.

    Args:
        steps_max: of a turn; a layer that nobody else's time depends on has no bound.
        wake: asks for a turn.

    Attributes:
        plain: a place for what a record holds. Not for several threads, as records are decrypted
            with the interpreter's lock released.
        is_used: some of a turn's time was taken, or somebody waits for the next one.
    """

    def __init__(
        self, steps_max: int = sys.maxsize, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._steps_max = steps_max
        self._wake = wake
        self._left = self._share = steps_max
        self.is_used = False
        self._waiting: dict[HoldingConnection, None] = {}  # the longest first
        self.plain = bytearray(RECORD_BYTES_MAX)

    def begin(self) -> None:
        """A turn begins: there is time for `steps_max` again."""
        self._left = self._steps_max

    @property
    def allowance(self) -> int:
        """Return how many steps one client may take now: what is left, or its share of that, or
        `STEPS_MIN` whatever others have used."""
        return max(min(self._left, self._share), STEPS_MIN)

    def spend(self, steps: int) -> None:
        """Note that steps were taken: a record or frame, or `BYTES_OF_STEP` of what one holds, or
        `INFLATED_BYTES_OF_STEP`."""
        self._left -= steps
        self.is_used = True

    def put_off(self, one: HoldingConnection) -> None:
        """Have somebody go on with what its layer holds in one of the next turns, or at the end of
        this one."""
        self._waiting[one] = None
        self.is_used = True
        self._wake()

    def forget(self, one: HoldingConnection) -> None:
        """A connection is gone."""
        self._waiting.pop(one, None)

    def turned(self) -> None:
        """A turn is over: there is time again, and those that wait go on, each with a share."""
        self.begin()
        self.is_used = bool(self._waiting)
        if not self._waiting:
            return
        self._share = max(self._left // len(self._waiting), STEPS_OF_SHARE_MIN)
        waiting, self._waiting = self._waiting, {}
        try:
            while waiting and self._left > 0:
                one = next(iter(waiting))
                del waiting[one]
                one.unwrap()
        finally:
            self._share = self._steps_max
            self._waiting = waiting | self._waiting
            self.is_used = True
        if self._waiting:
            self._wake()
