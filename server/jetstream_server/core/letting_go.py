"""Letting go of what may be a million, while turns have time for it.

Whoever keeps all of it in a list until the last one is taken lets go of all in one moment then,
which takes a quarter of a second for a million subscriptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeVar

from jetstream_server.kernels.parts import PartedOrder

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def let_go(those: PartedOrder[KeyT, ValueT]) -> Iterator[ValueT]:
    """Return the values in their order, each of which is let go of as it is taken; nobody else may
    use `those` any more, or keep them."""
    return _taken_from(deque(those.parts))


def _taken_from(parts: deque[dict[KeyT, ValueT]]) -> Iterator[ValueT]:
    while parts:
        left = list(parts.popleft().values())
        left.reverse()
        while left:
            yield left.pop()
