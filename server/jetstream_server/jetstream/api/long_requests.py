"""Requests whose body is long are answered in steps, each in a turn of its own.

Reading a megabyte, understanding it, and doing what it says take some tens of milliseconds each.
What a short one asks for is done at once, unless something long has to come before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from jetstream_server.core.workload import UNITS_OF_TURN
from jetstream_server.jetstream.api.request import Later, Request
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.slices import Sliced

BODY_AT_ONCE_MAX = 8 * 1024  # bytes
# What a short request asks for has fewer, unless it is about something long.
STEPS_AT_ONCE_MAX = 5


def is_long(request: Request) -> bool:
    """Tell whether a request is read in a turn of its own."""
    return len(request.body) > BODY_AT_ONCE_MAX


def at_once_or_later(
    context: Context, steps: Iterator[dict[str, Any] | None], *, changes: bool = False
) -> dict[str, Any] | Later:
    """Answer a request that takes one step in most cases.

    Args:
        steps: give None after each step, and the answer at the end.
        changes: each step changes something, so that they must not end before the last.

    Raises:
        ApiError: it is refused.
    """
    if (answer := next(steps)) is not None:
        return answer
    context.workload.spend(UNITS_OF_TURN)
    return Sliced(context.slices, lambda: steps, is_begun=changes)


def answered_in_steps(
    context: Context,
    request: Request,
    steps: Iterator[dict[str, Any] | None],
    *,
    takes_turns: bool = False,
) -> dict[str, Any] | Later:
    """Answer a request; its client is not heard while that takes more than a turn.

    Args:
        steps: give None after each step, and the answer at the end.
        takes_turns: however short it is.

    Raises:
        ApiError: it is refused.
    """
    if takes_turns or is_long(request):
        return Sliced(context.slices, lambda: steps)
    for answer in islice(steps, STEPS_AT_ONCE_MAX):
        if answer is not None:
            return answer
    return Sliced(context.slices, lambda: steps, is_begun=True)
