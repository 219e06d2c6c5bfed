"""Whether a client is still there, and how far away: PING, and the time until its PONG."""

from __future__ import annotations

from jetstream_server.base.clock import SECOND

# The genuine server measures the round trip about two seconds after CONNECT; before that, a client
# may be busy with TLS, where a plain PING would be out of place.
FIRST_PING_NS = 2 * SECOND


class Pings:
    """The pings of one client.

    Args:
        now: when the client came.
        interval_ns: until the first.

    Attributes:
        rtt_ns: the round trip as last measured, 0 before that.
        next_at: when the next is due.
    """

    __slots__ = ("_asked_at", "_open", "_since", "next_at", "rtt_ns")

    def __init__(self, now: int, interval_ns: int) -> None:
        self._since = now
        self._asked_at = 0
        self._open = 0  # sent since the last PONG
        self.next_at = now + interval_ns
        self.rtt_ns = 0

    def heard_connect(self, now: int) -> None:
        """Take the first measure: how long the answer to INFO took."""
        if not self.rtt_ns:
            self.rtt_ns = max(now - self._since, 1)

    def connected(self, now: int, interval_ns: int) -> None:
        """Have the round trip measured soon."""
        self.next_at = now + min(FIRST_PING_NS, interval_ns)

    def has_lost(self, count_max: int) -> bool:
        """Tell whether so many are unanswered that the client counts as gone."""
        return self._open >= count_max

    def sent(self, now: int, interval_ns: int) -> None:
        """Note that one was sent: wait for its answer, and for the time of the next."""
        self._open += 1
        self._asked_at = now
        self.next_at = now + interval_ns

    def answered(self, now: int) -> None:
        """Take a PONG."""
        self._open = 0
        if self._asked_at:
            self.rtt_ns = now - self._asked_at
            self._asked_at = 0
