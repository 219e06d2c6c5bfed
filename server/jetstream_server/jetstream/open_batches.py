"""How many batches may be open, and how many are: shared by all streams of a server.

The limits are those of `jetstream { limits { batch { ... } } }`. What the file names holds for
atomic and for fast batches; by default a fast batch, of which the server keeps no messages, may
be open more often. Specification: docs/reference/publishing.md#atomic-batches; probed with
nats-server 2.15.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from jetstream_server.base.clock import SECOND


@dataclass(slots=True)
class OpenCount:
    """Batches of one kind.

    Attributes:
        per_stream: most open in one stream.
        total: most open on the server.
        count: open now on the server.
    """

    per_stream: int
    total: int
    count: int = 0

    def has_room(self, in_stream: int) -> bool:
        """Tell whether a stream with so many open may open one more."""
        return in_stream < self.per_stream and self.count < self.total


@dataclass(slots=True)
class OpenBatches:
    """Both kinds of batches, and the limits that each batch has.

    Attributes:
        messages_max: most messages of an atomic batch.
        idle_ns: how long a batch may wait for its next message.
    """

    atomic: OpenCount = field(default_factory=lambda: OpenCount(50, 1000))
    fast: OpenCount = field(default_factory=lambda: OpenCount(1000, 50_000))
    messages_max: int = 1000
    idle_ns: int = 10 * SECOND

    @classmethod
    def limited(cls, per_stream: int, total: int, messages_max: int, idle_ns: int) -> Self:
        """Return none open, with limits; one of 0 or less is the default."""
        batches = cls()
        for open_count in (batches.atomic, batches.fast):
            open_count.per_stream = per_stream if per_stream > 0 else open_count.per_stream
            open_count.total = total if total > 0 else open_count.total
        batches.messages_max = messages_max if messages_max > 0 else batches.messages_max
        batches.idle_ns = idle_ns if idle_ns > 0 else batches.idle_ns
        return batches
