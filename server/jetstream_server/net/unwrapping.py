"""How much a turn unwraps of what comes by TLS and WebSocket, of all clients together.

A record or a frame can hold a single byte, so that a read of 256 KB is eleven thousand records, or
forty thousand frames, and hundreds of clients can send that at once. What there is no time for
stays in the layer, whose client is not read from until it has gone on, which is a little in each
turn at least. Nor is there time for all that a kilobyte of each of them may inflate to.
"""

from __future__ import annotations

import sys

STEPS_OF_TURN = 1500  # of one or two microseconds
STEPS_MIN = 4  # of one client in a turn, whatever others have used
BYTES_OF_STEP = 4096  # of what a record or a frame holds, inflated
RECORD_BYTES_MAX = 1 << 14  # in plain (RFC 8446, 5.1)


class Unwrapping:
    """How many records and frames there is still time for in this turn.

    Args:
        steps_max: of a turn; a layer that nobody else's time depends on has no bound.

    Attributes:
        plain: a place for what a record holds. Not for several threads, as records are decrypted
            with the interpreter's lock released.
    """

    def __init__(self, steps_max: int = sys.maxsize) -> None:
        self._steps_max = steps_max
        self._left = steps_max
        self.plain = bytearray(RECORD_BYTES_MAX)

    def begin(self) -> None:
        """A turn begins: there is time for `steps_max` again."""
        self._left = self._steps_max

    @property
    def allowance(self) -> int:
        """Return how many steps one client may take now: what is left, or `STEPS_MIN` whatever
        others have used."""
        return max(self._left, STEPS_MIN)

    def spend(self, steps: int) -> None:
        """Note that steps were taken: a record or frame, or `BYTES_OF_STEP` of what one holds."""
        self._left -= steps
