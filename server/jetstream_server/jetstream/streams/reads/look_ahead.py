"""What a store finds out about very many subjects before it answers for all of them at once."""

from __future__ import annotations

from collections.abc import Iterator

from jetstream_server.store.ports import MessageStore, SubjectFilter

# Each in some milliseconds.
DECIDED_AT_ONCE = 100_000  # subjects that are compared with a filter
COUNTED_AT_ONCE = 2_500  # whose messages are counted
_COST_OF_MANY = 128  # subjects in whose time one is compared with very many wildcards


def look_ahead(
    store: MessageStore, wanted: SubjectFilter | None, decided_max: int = DECIDED_AT_ONCE
) -> Iterator[None]:
    """Find it out, one slice a step, for a question about all that is wanted.

    Args:
        decided_max: subjects that one step compares with the filter.
    """
    at_once, steps = decided_max, 0
    known = store.state().num_subjects * _COST_OF_MANY // at_once  # steps, at most
    while not store.decide(wanted, decided_max):
        yield
        steps += 1
        if steps > known:  # it ends, however many subjects come meanwhile
            decided_max += 1 + at_once // 64
    counted_max, steps = COUNTED_AT_ONCE, 0
    known = store.state().num_subjects // COUNTED_AT_ONCE  # steps, for those that are there
    while not store.prepare_subjects(wanted, counted_max):
        yield
        steps += 1
        if steps > known:  # it ends, however many change meanwhile
            counted_max += 1 + COUNTED_AT_ONCE // 64


def count_ahead(
    store: MessageStore, wanted: SubjectFilter | None, start: int, counted_max: int
) -> Iterator[None]:
    """Count what is wanted from a sequence on, one slice a step.

    Args:
        counted_max: messages that one step counts, or somewhat more.
    """
    at_once = counted_max
    while not store.prepare_count(wanted, start, counted_max):
        yield
        # It ends, however many blocks the store has: it remembers so many only.
        counted_max += 1 + at_once // 64
