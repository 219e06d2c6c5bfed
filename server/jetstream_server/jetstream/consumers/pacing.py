"""How fast a consumer may deliver: at a rate, or as the messages were once published.

Both look at a window of messages and say how many of them may go now, and when to look again.
"""

from __future__ import annotations

from itertools import takewhile

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.consumers.delivery import timestamp_at
from jetstream_server.store.ports import Window


class RateLimit:
    """A token bucket of bytes (`rate_limit_bps`, docs/reference/consumers.md#configuration).

    A message larger than the bucket goes when the bucket is full.
    """

    def __init__(self, bits_per_second: int, burst_bytes: int) -> None:
        self._bytes_per_second = max(bits_per_second // 8, 1)
        self._burst_bytes = max(burst_bytes, 1)
        self._tokens = self._burst_bytes  # bytes that may go now
        self._filled_at = 0  # nanoseconds since the epoch, 0 for never
        self._remainder = 0  # billionths of a byte

    def allowed(self, sizes: list[int], now: int) -> tuple[int, int]:
        """Return how many messages of these sizes may go now, and when the next one may."""
        self._fill(now)
        tokens = self._tokens
        count = 0
        for size in sizes:
            need = min(size, self._burst_bytes)
            if need > tokens:
                wait = (need - tokens) * SECOND // self._bytes_per_second + 1
                return count, now + max(wait, MILLISECOND)
            tokens -= need
            count += 1
        return count, now

    def spend(self, size: int) -> None:
        """Take the bytes of delivered messages out of the bucket."""
        self._tokens = max(self._tokens - size, 0)

    def _fill(self, now: int) -> None:
        if self._filled_at:
            gained = (now - self._filled_at) * self._bytes_per_second + self._remainder
            tokens, self._remainder = divmod(gained, SECOND)
            self._tokens = min(self._tokens + tokens, self._burst_bytes)
        self._filled_at = now


class OriginalPace:
    """The gaps between messages as they were stored (`replay_policy: original`).

    Holds until the last message that was there at the start has gone; later ones are instant.
    """

    # Shorter gaps are not waited for, as in the genuine server.
    _GAP_NS_MIN = MILLISECOND

    def __init__(self, last_seq: int) -> None:
        self._last_seq = last_seq
        # When the message delivered last was stored, and when it went; 0 for none.
        self._stored_at = 0
        self._sent_at = 0

    def allowed(self, window: Window, now: int) -> tuple[int, int]:
        """Return how many messages of a window may go now, and when the next one may."""
        if window.sequences[0] > self._last_seq:
            return len(window), now
        stored_at = timestamp_at(window, 0)
        if self._stored_at:
            gap = stored_at - self._stored_at
            due = self._sent_at + gap
            if gap > self._GAP_NS_MIN and due > now:
                return 0, due
        together = takewhile(
            lambda at: timestamp_at(window, at) - timestamp_at(window, at - 1) <= self._GAP_NS_MIN,
            range(1, len(window)),
        )
        return 1 + sum(1 for _ in together), now

    def sent(self, window: Window, count: int, now: int) -> None:
        """Note that the first `count` messages of a window went."""
        self._stored_at = timestamp_at(window, count - 1)
        self._sent_at = now
