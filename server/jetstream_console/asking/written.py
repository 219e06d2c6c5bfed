"""A page of what was written to a bucket or a store, the last first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Written(Protocol):
    """What has a revision, the number of its writing."""

    @property
    def revision(self) -> int: ...


T = TypeVar("T", bound=Written)


@dataclass(frozen=True, slots=True)
class WrittenPage(Generic[T]):
    """Rows, the last written first.

    Attributes:
        start: the page of older ones ends before this revision.
        has_more: whether there may be older ones.
    """

    rows: tuple[T, ...]
    start: int
    has_more: bool


def written_page(found: Sequence[T], count: int, start: int, has_more: bool) -> WrittenPage[T]:
    """Return the first `count` of what was found; the next page begins with those beyond.

    Args:
        found: the last written first, all of them at `start` or after it.
        has_more: whether there may be any before `start`.
    """
    if len(found) > count:
        return WrittenPage(tuple(found[:count]), found[count - 1].revision, True)
    return WrittenPage(tuple(found), start, has_more)
