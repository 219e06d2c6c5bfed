"""Answers that take more than a turn's worth of work: each turn does a slice of one of them.

A few are worked on in turn, so that a short one does not wait for a long one. The others wait, and
what they report is looked up only when they begin; so the memory held for them is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream import errors
from jetstream_server.structures.deadline_heap import DeadlineHeap

_PAUSE_NS = MILLISECOND  # between two slices
BEGUN_MAX = 4
WAITING_MAX = 1000

Outcome = dict[str, Any] | ApiError
Work = Callable[[], Iterator[Outcome | None]]


@dataclass(slots=True, eq=False)
class _Job:
    work: Work
    finished: Callable[[Outcome], None]
    slices: Iterator[Outcome | None] | None = None


class Slices:
    """The answers of one account that take long. Scheduled while there are any.

    Args:
        deadlines: where it gets its turns.
        workload: tells whether a turn has time for a slice.
        begun_max: how many are worked on in turn; of one at a time each ends before the next.
    """

    def __init__(
        self, deadlines: DeadlineHeap[Any], workload: Workload, begun_max: int = BEGUN_MAX
    ) -> None:
        self._begun_max = begun_max
        self._deadlines = deadlines
        self._workload = workload
        self._sliced_in = 0  # the turn that did the last slice
        self._waits_since = 0  # the one in which the next slice was put off first
        self._begun: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()
        self._now: int = 0
        self._job: _Job | None = None  # the answer whose slice is being worked on

    def add(
        self, work: Work, finished: Callable[[Outcome], None], *, is_begun: bool = False
    ) -> None:
        """Take on an answer.

        Args:
            work: begins it; what it returns gives None after each slice, and the answer at the end.
            finished: told of the answer.
            is_begun: something has been changed for it already, so it is taken on however many
                wait: there is one of each client at most.
        """
        if len(self._waiting) >= WAITING_MAX and not is_begun:
            finished(errors.INSUFFICIENT_RESOURCES())
            return
        self._waiting.append(_Job(work, finished))
        if len(self._waiting) + len(self._begun) == 1:
            self._deadlines.schedule(self, self._now)

    def tick(self, now: int) -> None:
        """Work on the one whose turn it is."""
        self._now = now
        turn = self._workload.turn
        self._waits_since = self._waits_since or (turn if turn != self._sliced_in else 0)
        if not self._workload.takes_slice(self._waits_since):
            self._deadlines.schedule(self, now)
            return
        self._sliced_in, self._waits_since = turn, 0
        while self._waiting and len(self._begun) < self._begun_max:
            self._begun.append(self._waiting.popleft())
        self._deadlines.schedule(self, now + _PAUSE_NS)
        self._job = job = self._begun.popleft()
        try:
            if job.slices is None:
                job.slices = job.work()
            outcome = next(job.slices)
        except ApiError as error:
            outcome = error
        except StoreError as error:
            outcome = errors.STREAM_GENERAL_ERROR(error.reason)
        self._job = None
        if outcome is None:
            self._begun.append(job)
        else:
            self._end(job, outcome)

    def give_up(self, incident: Incident, now: int) -> None:
        """End the one whose slice it was, and report it."""
        job, self._job = self._job, None
        if job is not None:
            self._end(job, errors.STREAM_GENERAL_ERROR(str(incident)))

    def _end(self, job: _Job, outcome: Outcome) -> None:
        if not self._begun and not self._waiting:
            self._deadlines.cancel(self)
        job.finished(outcome)


@dataclass(slots=True)
class Sliced:
    """An answer that is given when its turns have come. Whoever asked is not heard until then, so
    that what it asks for next finds what this makes, and nobody has more than one under way.

    Attributes:
        slices: those of its account.
        work: as `Slices.add` says.
        is_begun: likewise.
    """

    slices: Slices
    work: Work
    is_begun: bool = False

    def go_on(self, finished: Callable[[Outcome], None]) -> None:
        """Work on it, then hand over the fields or the refusal."""
        self.slices.add(self.work, finished, is_begun=self.is_begun)
