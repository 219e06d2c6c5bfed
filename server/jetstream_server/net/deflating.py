"""How much a turn compresses of what goes out by WebSocket, for all clients together.

A turn can have a megabyte for each of fifty clients, and to compress that takes a second, in which
nobody is heard. What there is no time for goes out as it is, which a client that has asked for
compression must take just as well (RFC 7692, 6); as each message is compressed by itself, those
after it do not depend on it.
"""

from __future__ import annotations

import sys

# 17 ms for each megabyte of random bytes, which take longest.
BYTES_OF_TURN = 256 * 1024
# That each frame counts besides what it holds, as an encoder is made for it.
BYTES_OF_FRAME = 1024


class Deflating:
    """How many bytes there is still time to compress in this turn.

    Args:
        bytes_max: that a turn compresses; a layer that nobody else's time depends on has no bound.

    Attributes:
        is_used: some of a turn's time was taken.
    """

    def __init__(self, bytes_max: int = sys.maxsize) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max
        self.is_used = False

    def begin(self) -> None:
        """A turn begins: there is time for `bytes_max` again."""
        self._left = self._bytes_max
        self.is_used = False

    def take(self, size: int) -> int:
        """Take time to compress something; return how many of its first bytes there is time for:
        all, some, or 0.

        Args:
            size: of all of it, in bytes.
        """
        taken = max(min(size, self._left - BYTES_OF_FRAME), 0)
        if taken:
            self.is_used = True
            self._left -= BYTES_OF_FRAME + taken
        return taken
