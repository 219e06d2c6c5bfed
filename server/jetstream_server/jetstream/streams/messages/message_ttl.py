"""Messages with a life of their own: the header `Nats-TTL`.

A TTL is whole seconds, a Go duration of at least one second (fractions are cut off), or `never`,
which exempts a message from the stream's `max_age`. A TTL does not exempt: the shorter of the two
wins. The deadlines are kept in memory and rebuilt from the stored headers. Specification:
docs/reference/publishing.md#headers.
"""

from __future__ import annotations

import heapq

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.wire.go_duration import parse_duration
from jetstream_server.kernels.parts import PartedSequences

NEVER = -1
_TIME_MAX = 2**63 - 1


def parse_ttl(value: bytes) -> int | None:
    """Return the seconds of a `Nats-TTL` value, `NEVER`, or None when it is not a TTL."""
    if value.lower() == b"never":
        return NEVER
    if value.isdigit():
        # Numbers wrap at 64 bits, as they do in the genuine server; 10**64 is a multiple of 2**64.
        seconds = int(value[-64:]) % 2**64
        return seconds if 0 < seconds <= _TIME_MAX else None
    duration = parse_duration(value.decode("utf-8", "replace"))
    return None if duration is None or duration < SECOND else duration // SECOND


class MessageTtls:
    """Deadlines of single messages.

    Attributes:
        lasting: sequences whose TTL is `never`; the values say nothing.
    """

    def __init__(self) -> None:
        self.lasting: PartedSequences[bool] = PartedSequences()
        self._deadlines: list[tuple[int, int]] = []

    def record(self, sequence: int, ttl: int, timestamp: int) -> None:
        """Note the TTL (seconds, or `NEVER`) of a stored message, the latest of all."""
        if ttl == NEVER:
            self.lasting[sequence] = True
            return
        deadline = timestamp + ttl * SECOND
        if deadline <= _TIME_MAX:
            heapq.heappush(self._deadlines, (deadline, sequence))

    def next_deadline(self) -> int | None:
        """Return when the next message ends; it may be gone by then for other reasons."""
        return self._deadlines[0][0] if self._deadlines else None

    def pop_due(self, now: int, count_max: int) -> list[int]:
        """Take out and return the sequences whose time is up, at most this many, rising."""
        due: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(due) < count_max:
            due.append(heapq.heappop(self._deadlines)[1])
        return sorted(due)
