"""Who gets which message when several requests wait: one each in turn, as cards are dealt.

Only arithmetic on strides: between two requests that are used up, each of those left gets every
n-th message.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain


def deal(batches: Sequence[int], count: int) -> list[list[range]]:
    """Return which messages each request gets.

    Args:
        batches: how many messages each wants, in the order of their turns; at least one.
        count: how many messages there are.

    Returns:
        For each request, ranges of places from 0 up to `count`, rising.
    """
    shares: list[list[range]] = [[] for _ in batches]
    left = list(batches)
    live = [index for index, batch in enumerate(batches) if batch > 0]
    at = 0
    while at < count and live:
        rounds = min((count - at) // len(live), min(left[index] for index in live))
        stop = at + rounds * len(live) if rounds else count  # the last round may be incomplete
        for place, index in enumerate(live[: stop - at], at):
            share = range(place, stop, len(live))
            shares[index].append(share)
            left[index] -= len(share)
        at = stop
        live = [index for index in live if left[index]]
    return shares


def picked(ranges: Iterable[range]) -> array[int]:
    """Return the places of several ranges, rising."""
    return array("Q", sorted(chain.from_iterable(ranges)))
