"""How much one stream takes in between two looks: `max_buffered_msgs` and `max_buffered_size`.

The genuine server queues what a stream has yet to store, and refuses what the queue has no room
for with `429 Too Many Requests` (10167). Here nothing queues: a turn stores what it took in, and
publishers that are faster than the disk are read more slowly. So by default nothing is refused. An
operator who sets these limits gets them: they bound what one stream takes in one turn.

Sizes count subject, reply, headers and payload (probed with nats-server 2.15.1).
"""

from __future__ import annotations

from dataclasses import dataclass

REFUSAL_HEADERS = b"NATS/1.0 429 Too Many Requests\r\n\r\n"


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """The most that one stream takes in one turn; 0 is no limit."""

    messages_max: int = 0
    bytes_max: int = 0

    def __bool__(self) -> bool:
        return self.messages_max > 0 or self.bytes_max > 0


class Ingest:
    """What one stream took in this turn."""

    def __init__(self, limits: IngestLimits) -> None:
        self._limits = limits
        self._turn = 0
        self._messages = 0
        self._bytes = 0

    def admit(self, size: int, now: int) -> bool:
        """Count a message, and tell whether there is room for it; `now` names the turn."""
        if now != self._turn:
            self._turn, self._messages, self._bytes = now, 0, 0
        limits = self._limits
        if 0 < limits.messages_max <= self._messages:
            return False
        if 0 < limits.bytes_max < self._bytes + size:
            return False
        self._messages += 1
        self._bytes += size
        return True
