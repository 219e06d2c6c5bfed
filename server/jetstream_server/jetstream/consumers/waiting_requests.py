"""The pull requests that wait, in the order in which they are served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.kernels.parts import PartedSequences


class WaitingRequests:
    """Requests by priority; of one priority, who has waited longest comes first.

    Nobody says how many there are: a client may have as many wait as `max_waiting` allows, and it
    is its consumer that sets this. So they are in parts: a dictionary looks for its first key
    behind all that were there, and copies all that is in it when it grows.

    Attributes:
        count: how many wait; others only look at it.
        no_wait: those that are to be answered as soon as there is nothing.
    """

    def __init__(self) -> None:
        self._levels: dict[int, PartedSequences[PullRequest]] = {}  # by place; some are empty
        self._place = 0  # of who came last
        self.count = 0
        self.no_wait: dict[PullRequest, None] = {}

    def __len__(self) -> int:
        return self.count

    def __contains__(self, request: PullRequest) -> bool:
        requests = self._levels.get(request.level)
        return requests is not None and requests.get(request.place) is request

    def __iter__(self) -> Iterator[PullRequest]:
        """Iterate in the order of service; nobody may come or go meanwhile."""
        levels = self._levels
        if len(levels) == 1:
            (only,) = levels.values()
            return iter(only.values())
        return chain.from_iterable([levels[level].values() for level in sorted(levels)])

    def add(self, request: PullRequest, level: int) -> None:
        """Have a request wait, behind all others of its level; lower levels come first."""
        if level not in self._levels:
            self._levels[level] = PartedSequences()
        request.level = level
        self._append(request)
        self.count += 1
        if request.no_wait:
            self.no_wait[request] = None

    def remove(self, request: PullRequest) -> None:
        """Have a request that waits not wait any more."""
        del self._levels[request.level][request.place]
        self.count -= 1
        self.no_wait.pop(request, None)

    def move_back(self, served: Iterable[PullRequest]) -> None:
        """Have requests that wait do so behind all others of their level."""
        for request in served:
            del self._levels[request.level][request.place]
            self._append(request)

    def _append(self, request: PullRequest) -> None:
        self._place += 1
        request.place = self._place
        self._levels[request.level][self._place] = request
