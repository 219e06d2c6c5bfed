"""Which messages interest and work queue streams still need.

A limits stream keeps messages whatever its consumers do. The other two remove a message once no
consumer needs it: a work queue when its one consumer has acknowledged it, an interest stream when
all whose filter matches have; what nobody wants is not even stored there. Specification:
docs/reference/streams.md#retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.store.ports import MessageStore


def is_wanted(consumers: Mapping[str, StreamConsumer], subject: bytes) -> bool:
    """Tell whether any consumer's filter matches."""
    return any(consumer.wants(subject) for consumer in consumers.values())


def settled(
    store: MessageStore, others: list[StreamConsumer], sequences: Iterable[int]
) -> list[int]:
    """Return which of the messages that one consumer is done with no other consumer needs."""
    if not others:
        return list(sequences)
    free: list[int] = []
    for sequence in sequences:
        message = store.load(sequence)
        if message is not None and not _is_needed(others, sequence, message.subject):
            free.append(sequence)
    return free


def unneeded(
    store: MessageStore, consumers: list[StreamConsumer], start: int, count_max: int
) -> tuple[list[int], int]:
    """Look which of the next stored messages no consumer needs.

    Args:
        start: the first sequence to look at.
        count_max: how many messages to look at, at the most.

    Returns:
        Their sequences, and where to go on; 0 if those were all.
    """
    free: list[int] = []
    for count, (sequence, _, subject, _) in enumerate(stored(store, start)):
        if count == count_max:
            return free, sequence
        if not _is_needed(consumers, sequence, subject):
            free.append(sequence)
    return free, 0


def _is_needed(consumers: list[StreamConsumer], sequence: int, subject: bytes) -> bool:
    return any(consumer.needs(sequence, subject) for consumer in consumers)
