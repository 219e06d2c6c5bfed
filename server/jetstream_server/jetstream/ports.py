"""How a stream sees its consumers.

Streams and consumers know each other; to keep imports in one direction, `consumer` imports
`stream`, and `stream` knows consumers only by this port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jetstream_server.jetstream.ending import Ending
from jetstream_server.structures.sequence_set import SequenceSet


class StreamConsumer(Protocol):
    """A consumer, as its stream uses it."""

    @property
    def name(self) -> str:
        """Return the consumer's name."""
        ...

    @property
    def internal(self) -> bool:
        """Return whether it is a mirror's or source's (direct) consumer: not listed or counted."""
        ...

    @property
    def info_cost(self) -> int:
        """Return how many others could be described in the time that it takes now."""
        ...

    @property
    def outage(self) -> str:
        """Return why it was given up, empty while it serves."""
        ...

    @property
    def patterns(self) -> Sequence[bytes]:
        """Return the filter subjects; empty for everything."""
        ...

    def wants(self, subject: bytes) -> bool:
        """Tell whether the filter matches the subject."""
        ...

    def needs(self, sequence: int, subject: bytes) -> bool:
        """Tell whether a stored message is still to be delivered to or acknowledged by this
        consumer; interest and work queue streams keep what anybody needs."""
        ...

    def stored(self, first_seq: int, last_seq: int, now: int) -> None:
        """Messages were stored (or sequences skipped); wake up if they matter."""
        ...

    def removed(self, gone: SequenceSet, now: int) -> None:
        """Messages are gone, by limit, age or delete: drop what is pending of them (advisory
        `Unacknowledged message was deleted` for each), recount, move floors."""
        ...

    def purged(self, first_seq: int, gone: SequenceSet, now: int, *, is_single: bool) -> None:
        """The stream was purged: it begins at a sequence now, and some messages are gone, of which
        one may have been picked out."""
        ...

    def stop(self, ending: Ending, now: int) -> None:
        """Stop for good or for now: waiting pulls are told, subscriptions go, timers end."""
        ...

    def info(self, now: int) -> dict[str, Any]:
        """Return ConsumerInfo as STREAM.INFO and CONSUMER.INFO show it, without `type`."""
        ...
