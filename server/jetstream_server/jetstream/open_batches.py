"""How many batches may be open, and how many are: shared by all streams of a server.

The limits are those of `jetstream { limits { batch { ... } } }`. What the configuration file sets
holds for atomic and for fast batches; by default more fast batches may be open, as the server keeps
no messages for them. Specification: docs/reference/publishing.md#atomic-batches; probed with
nats-server 2.15.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from jetstream_server.base.clock import SECOND

# What messages of open batches are held in memory: of one stream, and on the server.
HELD_OF_STREAM_MAX_BYTES = 256 * 1024 * 1024
HELD_MAX_BYTES = 1024 * 1024 * 1024
# A message that is held takes as much besides its subject, headers and payload.
MESSAGE_OVERHEAD_BYTES = 1024


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
        held_bytes: what is held of the messages of all open batches.
    """

    atomic: OpenCount = field(default_factory=lambda: OpenCount(50, 1000))
    fast: OpenCount = field(default_factory=lambda: OpenCount(1000, 50_000))
    messages_max: int = 1000
    idle_ns: int = 10 * SECOND
    held_bytes: int = 0

    @classmethod
    def limited(cls, per_stream: int, total: int, messages_max: int, idle_ns: int) -> Self:
        """Return the limits, with no batch open yet; a limit of 0 or less means the default."""
        batches = cls()
        for open_count in (batches.atomic, batches.fast):
            open_count.per_stream = per_stream if per_stream > 0 else open_count.per_stream
            open_count.total = total if total > 0 else open_count.total
        batches.messages_max = messages_max if messages_max > 0 else batches.messages_max
        batches.idle_ns = idle_ns if idle_ns > 0 else batches.idle_ns
        return batches


class Idling(Protocol):
    """An open batch, which is given up when nothing of it comes until its deadline."""

    deadline: int


B = TypeVar("B", bound=Idling)


class BatchesOfStream(Generic[B]):
    """The open batches of one stream by their ids, the one that idles longest first.

    Args:
        count: of the batches of this kind on the whole server.
        limits: say how long a batch may idle.
    """

    def __init__(self, count: OpenCount, limits: OpenBatches) -> None:
        self._count = count
        self._limits = limits
        self._open: dict[bytes, B] = {}
        self._held: dict[bytes, int] = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def get(self, batch_id: bytes) -> B | None:
        """Return an open batch."""
        return self._open.get(batch_id)

    def has_room(self) -> bool:
        """Tell whether one more may be opened."""
        return self._count.has_room(len(self._open))

    def add(self, batch_id: bytes, batch: B) -> None:
        """Open a batch."""
        self._open[batch_id] = batch
        self._count.count += 1

    def hold(self, batch_id: bytes, message_bytes: int) -> str:
        """Note that a message of a batch is held in memory.

        Args:
            message_bytes: of its subject, headers and payload.

        Returns:
            What is full, for the refusal, where there is no room for it; then it is not noted.
        """
        size = message_bytes + MESSAGE_OVERHEAD_BYTES
        if self._held_bytes + size > HELD_OF_STREAM_MAX_BYTES:
            return f"open batches hold at most {HELD_OF_STREAM_MAX_BYTES} bytes of a stream"
        if self._limits.held_bytes + size > HELD_MAX_BYTES:
            return f"open batches hold at most {HELD_MAX_BYTES} bytes on the server"
        self._held[batch_id] = self._held.get(batch_id, 0) + size
        self._held_bytes += size
        self._limits.held_bytes += size
        return ""

    def keep(self, batch_id: bytes, now: int) -> None:
        """Note that a message of a batch has come; its deadline is now the latest of all."""
        batch = self._open[batch_id] = self._open.pop(batch_id)
        batch.deadline = now + self._limits.idle_ns

    def forget(self, batch_id: bytes) -> bool:
        """Close a batch; tell whether it was open."""
        if self._open.pop(batch_id, None) is None:
            return False
        self._count.count -= 1
        held_bytes = self._held.pop(batch_id, 0)
        self._held_bytes -= held_bytes
        self._limits.held_bytes -= held_bytes
        return True

    def close(self) -> None:
        """Forget all."""
        for batch_id in list(self._open):
            self.forget(batch_id)

    def expired(self, now: int) -> Iterator[bytes]:
        """Yield the ids of batches that idled too long; each is to be forgotten at once."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            yield next(iter(self._open))

    def next_deadline(self) -> int | None:
        """Return when the next one has idled too long."""
        return next((batch.deadline for batch in self._open.values()), None)
