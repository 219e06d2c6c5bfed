"""How many entries one page of a list holds: as many as usual, or fewer if they are very long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Listed = TypeVar("Listed")

# Subjects, filters and the like in one answer, above those of its first entry. Clients that ask for
# the rest begin where the page says that it ends.
TEXTS_MAX = 20_000


def page_of(
    entries: Sequence[Listed], offset: int, limit: int, texts: Callable[[Listed], int]
) -> Sequence[Listed]:
    """Return the entries of a page.

    Args:
        offset: where it begins, `len(entries)` at most.
        limit: how many it holds at most.
        texts: tells how many an entry has.
    """
    total = 0
    for stop in range(offset, min(offset + limit, len(entries))):
        total += texts(entries[stop])
        if total > TEXTS_MAX and stop > offset:
            return entries[offset:stop]
    return entries[offset : offset + limit]
