"""How many entries one page of a list holds: as many as usual, or fewer if they are very long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from orjson import Fragment

from jetstream_server.jetstream.wire.go_json import encode

Listed = TypeVar("Listed")

# Subjects, filters and the like in one answer, above those of its first entry. Clients that ask for
# the rest begin where the page says that it ends.
TEXTS_MAX = 20_000
# As JSON, likewise.
PAGE_BYTES_MAX = 1_000_000


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


class PageEntries:
    """The entries of a page, encoded one by one until they are as long as a page may be.

    Attributes:
        encoded: those that it holds, ready to be part of an answer.
        stopped: why others of its entries do not serve, by their names.
        last_bytes: how long the last one was that it was offered.
    """

    def __init__(self) -> None:
        self.encoded: list[Fragment] = []
        self.stopped: dict[str, str] = {}
        self.last_bytes = 0
        self._bytes = 0

    def add(self, entry: dict[str, Any]) -> bool:
        """Take one more; return whether there was room for it."""
        text = encode(entry)
        self.last_bytes = len(text)
        self._bytes += len(text)
        if self._bytes > PAGE_BYTES_MAX and self.encoded:
            return False
        self.encoded.append(Fragment(text))
        return True

    @property
    def count(self) -> int:
        """Return how many of the list the page is about."""
        return len(self.encoded) + len(self.stopped)

    def fields(self, name: str) -> dict[str, Any]:
        """Return what an answer says of them.

        Args:
            name: of the field that lists them.
        """
        if not self.stopped:
            return {name: self.encoded}
        return {name: self.encoded, "missing": list(self.stopped), "offline": self.stopped}
