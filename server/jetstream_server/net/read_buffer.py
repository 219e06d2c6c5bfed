"""The place into which sockets are read, and how much of all of them until the next turn.

The loop reads from every client that has sent something before a turn acts on it. Two hundred who
publish messages of a megabyte have 50 MB for it each time, which takes 0.1 s, and everybody else
waits for that. So once much has been read only a little comes of each of the others, enough for
whoever says little, and the rest stays in the socket until the turn is over. With four times as
much until then the two hundred kept others waiting for 24 to 27 ms, and for 9 to 15 so.
"""

from __future__ import annotations

READ_BYTES_MAX = 1 << 18  # at once
READ_BYTES_MIN = 4096  # at once, whatever others have sent
ROUND_BYTES = 1 << 20  # until the next turn, before everybody is read little from
_PARTS = 2  # what one may have of what is left


class ReadBuffer:
    """A place for what the next socket has; what is read has to be taken before the next read.

    Attributes:
        place: where the next socket is read into; as long as what may be read of it.
        is_used: more than a little was read from somebody since the last turn was over.
    """

    def __init__(self) -> None:
        self._whole = self.place = memoryview(bytearray(READ_BYTES_MAX))
        self._left = ROUND_BYTES
        self.is_used = False

    def begin(self) -> None:
        """A turn is over: `ROUND_BYTES` may be read until the end of the next one."""
        self._left = ROUND_BYTES
        self.place = self._whole
        self.is_used = False

    @property
    def is_spent(self) -> bool:
        """Return whether no more than a little is read from anybody until the next turn."""
        return self._left <= 0

    def take(self, size: int) -> bytes:
        """Return a copy of the first `size` bytes of it, which were read, and count them unless
        that is as little as may be read from everybody."""
        data = bytes(self._whole[:size])
        if size >= READ_BYTES_MIN:
            self.is_used = True
            self._left = left = self._left - size
            if left < _PARTS * READ_BYTES_MAX:
                self.place = self._whole[: max(left // _PARTS, READ_BYTES_MIN)]
        return data
