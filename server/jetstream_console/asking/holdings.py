"""What is kept in a stream each, whose name tells by its beginning what is in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from jetstream_console.asking.answers import Answer, part, text
from jetstream_console.asking.api import Api
from jetstream_console.asking.streams import list_streams


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(frozen=True, slots=True)
class Holdings(Generic[T]):
    """Those of an account, in the order of their names.

    Attributes:
        unseen: streams that could not be looked at, any of which may be one.
    """

    rows: tuple[T, ...]
    unseen: int


async def holdings(api: Api, prefix: str, read: Callable[[Answer], T]) -> Holdings[T]:
    """Return what the streams hold whose names begin with a prefix.

    Args:
        read: makes a row of what a server says about one of these streams.
    """
    listing = await list_streams(api)
    rows = [
        read(answer)
        for answer in listing.answers
        if text(part(answer, "config"), "name").startswith(prefix)
    ]
    return Holdings(tuple(sorted(rows, key=lambda row: row.name)), listing.unseen)
