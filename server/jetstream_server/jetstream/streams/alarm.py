"""The timer of a stream: one, whichever of its parts has something to do and when."""

from __future__ import annotations

import weakref

from jetstream_server.base.clock import NEVER
from jetstream_server.jetstream.context import Scheduled
from jetstream_server.structures.deadline_heap import DeadlineHeap


class Alarm:
    """Rings once, at the earliest of the times that it was set to.

    Args:
        deadlines: of the account.
        owner: whose `tick` is called; it says with `rang` that it was.

    Attributes:
        at: when it rings, in nanoseconds; `NEVER` while it is not set.
    """

    def __init__(self, deadlines: DeadlineHeap[Scheduled], owner: Scheduled) -> None:
        self._deadlines = deadlines
        self._owner_ref = weakref.ref(owner)  # it holds this, and is not to be held by it
        self.at = NEVER

    def set(self, deadline: int | None, earliest: int) -> None:
        """Ring at a deadline, but not before `earliest`; None leaves the alarm as it is."""
        if deadline is None:
            return
        at = max(deadline, earliest)
        if at < self.at and (owner := self._owner_ref()) is not None:
            self.at = at
            self._deadlines.schedule(owner, at)

    def rang(self) -> None:
        """It rang: it is not set any more."""
        self.at = NEVER

    def cancel(self) -> None:
        """Do not ring any more."""
        self.at = NEVER
        if (owner := self._owner_ref()) is not None:
            self._deadlines.cancel(owner)
