"""Flow control of push consumers: how many bytes may be on their way to the client.

When half the window is in flight the client is asked. It answers once it has taken everything
before the question; the answer credits what was in flight then, and doubles the window. When the
whole window is in flight nothing more goes (docs/reference/consumers.md#push: 100 KB messages are
asked about after 11, stop after 21, and one answer lets 32 more through).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from jetstream_server.base.nuid import Nuid

WINDOW_BYTES_MAX = 32 * 1024 * 1024
WINDOW_BYTES_START = WINDOW_BYTES_MAX // 16
_TOKEN_CHARACTERS = 4


class FlowControl:
    """The window of one consumer.

    Attributes:
        asked: reply subject of the question that is open, empty when none is.
    """

    def __init__(self, stream: str, consumer: str, nuid: Nuid) -> None:
        self._prefix = f"$JS.FC.{stream}.{consumer}.".encode()
        self._nuid = nuid
        self.reset()

    def reset(self) -> None:
        """Start over, as when the client went away."""
        self.asked = b""
        self._window_bytes = WINDOW_BYTES_START
        self._in_flight = 0  # bytes
        self._asked_about = 0  # bytes in flight when the open question was asked

    @property
    def is_stalled(self) -> bool:
        """Return whether nothing may go until the client answers."""
        return self._in_flight > self._window_bytes

    def has_room(self, size: int) -> bool:
        """Return whether so many bytes may go with nothing to decide."""
        limit = self._window_bytes if self.asked else self._window_bytes // 2
        return self._in_flight + size <= limit

    def allowed(self, sizes: list[int]) -> int:
        """Return how many messages of these sizes may go before something has to be decided:
        the question asked, or a stop made. At least one, unless stalled."""
        if self.is_stalled:
            return 0
        totals = list(accumulate(sizes, initial=self._in_flight))[1:]
        limit = self._window_bytes if self.asked else self._window_bytes // 2
        if not self.asked and self._in_flight > limit:
            return 1
        place = bisect_right(totals, limit) + 1
        return min(place, len(sizes))

    def sent(self, size: int) -> bool:
        """Count bytes on their way; return whether the client is to be asked now."""
        self._in_flight += size
        if self.asked or self._in_flight <= self._window_bytes // 2:
            return False
        self.ask()
        return True

    def ask(self) -> None:
        """Open a question, even if the window does not call for one."""
        self.asked = self._prefix + self._nuid.short(_TOKEN_CHARACTERS).encode()
        self._asked_about = self._in_flight

    def answered(self, subject: bytes) -> bool:
        """Take an answer; return whether it was to the open question."""
        if not self.asked or subject != self.asked:
            return False
        self.asked = b""
        self._in_flight = max(self._in_flight - self._asked_about, 0)
        self._window_bytes = min(self._window_bytes * 2, WINDOW_BYTES_MAX)
        return True
