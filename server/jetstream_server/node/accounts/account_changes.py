"""Changes of a node's accounts, one after the other in the order in which they were asked for.

To find out what thousands of exports and imports come to takes longer than a turn. So it is found
out in steps, and only what came of it is followed at one moment. The next change begins after that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from jetstream_server.base.errors import ApiError
from jetstream_server.core.steps import InSteps, grouped
from jetstream_server.core.workload import Workload, units_of
from jetstream_server.jetstream.slices import Outcome, Slices
from jetstream_server.node.accounts.account import Account

UNITS_OF_STEP = 2_000  # of some microseconds
_CAME_OF_IT = "came of it"

T = TypeVar("T")


class AccountChanges:
    """The changes that are under way.

    Args:
        account: where steps get their turns.
        workload: tells what a turn has time for.
    """

    def __init__(self, account: Account, workload: Workload) -> None:
        self._account = account
        self._workload = workload
        self._slices = Slices(account.timers, workload, begun_max=1)
        self._under_way = 0

    def begin(
        self, change: Generator[int, None, T], finished: Callable[[T | ApiError], None], size: int
    ) -> None:
        """Make a change: at once if that takes one step, nothing is under way and the turn has time
        for it, else later.

        Args:
            change: gives after each small step what it took, in units of some microseconds; returns
                what came of it.
            finished: told of that, or why nothing did.
            size: bytes of the request for it.
        """
        steps = grouped(change, UNITS_OF_STEP)
        if not self._under_way and self._workload.takes(units_of(size, is_costly=True)):
            try:
                next(steps)
            except StopIteration as end:
                finished(end.value)
                return
        self._under_way += 1

        def ended(outcome: Outcome) -> None:
            self._under_way -= 1
            finished(outcome if isinstance(outcome, ApiError) else outcome[_CAME_OF_IT])

        self._slices.add(lambda: _outcomes(steps), ended)
        self._account.stir()


def _outcomes(steps: InSteps[T]) -> Iterator[Outcome | None]:
    came_of_it = yield from steps
    yield {_CAME_OF_IT: came_of_it}
