"""Which messages interest and work queue streams still need.

A limits stream keeps messages whatever its consumers do. The other two remove a message once no
consumer needs it: a work queue when its one consumer has acknowledged it, an interest stream when
all whose filter matches have; what nobody wants is not even stored there. Specification:
docs/reference/streams.md#retention.
"""

from __future__ import annotations

from collections.abc import Iterable

from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.streams.audience import Audience
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.store.ports import MessageStore


def settled(
    store: MessageStore,
    consumers: Audience,
    sequences: Iterable[int],
    done: StreamConsumer | None = None,
) -> list[int]:
    """Return which messages of an interest stream no consumer needs.

    Args:
        done: a consumer that does not need them.
    """
    is_alone = done is not None and len(consumers) == 1 and done.name in consumers
    if is_alone or not consumers:
        return list(sequences)
    free: list[int] = []
    for sequence in sequences:
        message = store.load(sequence)
        if message is not None and not _is_needed(consumers, sequence, message.subject, done):
            free.append(sequence)
    return free


def unneeded(
    store: MessageStore, consumers: Audience, start: int, count_max: int
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


def _is_needed(
    consumers: Audience, sequence: int, subject: bytes, done: StreamConsumer | None = None
) -> bool:
    return any(
        consumer.needs(sequence, subject)
        for consumer in consumers.who_wants(subject)
        if consumer is not done
    )
