"""Work that is done a step at a time, so that others have their turn between two steps.

Such work is a generator: it gives None after each step, and returns what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NoReturn, TypeVar

T = TypeVar("T")
InSteps = Generator[None, None, T]


class Stint:
    """Tells when a step has done enough.

    Args:
        most: that one step does.
    """

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def spend(self, done: int = 1) -> bool:
        """Note what was done; return whether the step ends with it."""
        self._left -= done
        if self._left > 0:
            return False
        self._left = self._most
        return True


def grouped(steps: Generator[int, None, T], most: int) -> InSteps[T]:
    """Do very small steps, each of which gives what it took, as fewer ones.

    Args:
        most: that one step takes; the last of its parts may take more.
    """
    stint = Stint(most)
    while True:
        try:
            took = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if stint.spend(took):
            yield


def without_pauses(steps: Generator[object, None, T]) -> T:
    """Do all the steps, and return what came of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def found_out(steps: InSteps[T], *refusals: type[Exception]) -> InSteps[Callable[[], T]]:
    """Find something out before it is asked for.

    Args:
        steps: find it out.
        refusals: what they may raise; it is raised when the answer is asked for.

    Returns:
        What gives the answer.
    """
    try:
        result = yield from steps
    except refusals as refusal:
        return _refusing(refusal)
    return lambda: result


def _refusing(refusal: Exception) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        raise refusal

    return refuse
