"""What very many requests are told when their consumer goes, some of them in each turn."""

from __future__ import annotations

from collections.abc import Iterable

from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.consumers.delivery import Delivery
from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.jetstream.context import Scheduled
from jetstream_server.structures.deadline_heap import DeadlineHeap

TOLD_OF_TURN_MAX = 500
_UNITS_OF_TURN = 60


class LateEndings:
    """The requests of a consumer that is gone. Scheduled while there are any.

    Args:
        requests: that were waiting.
        line: the status that each of them gets.
        delivery: of the consumer.
        deadlines: where it gets its turns.
        workload: tells what the statuses are worth, which may reach very many.
    """

    def __init__(
        self,
        requests: Iterable[PullRequest],
        line: bytes,
        delivery: Delivery,
        deadlines: DeadlineHeap[Scheduled],
        workload: Workload,
    ) -> None:
        self._requests = iter(requests)
        self._line = line
        self._delivery = delivery
        self._deadlines = deadlines
        self._workload = workload

    def begin(self, now: int) -> None:
        """Tell the first of them at once."""
        self._tell(now)

    def tick(self, now: int) -> None:
        """Tell some more of them."""
        self._tell(now)

    def _tell(self, now: int) -> None:
        enough = self._workload.used + _UNITS_OF_TURN
        for told, request in enumerate(self._requests, 1):
            self._delivery.status(request.reply, self._line)
            if told >= TOLD_OF_TURN_MAX or self._workload.used >= enough:
                self._deadlines.schedule(self, now)
                return
