"""The pull requests that wait, in the order in which they are served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jetstream_server.jetstream.consumers.pull_request import PullRequest


class WaitingRequests:
    """Requests by priority; of one priority, who has waited longest comes first.

    Nobody says how many there are: a client may have as many wait as `max_waiting` allows, and it
    is its consumer that sets this.

    Attributes:
        level_of: the level of each that waits; others only look at it.
        no_wait: those that are to be answered as soon as there is nothing.
    """

    def __init__(self) -> None:
        self._levels: dict[int, dict[PullRequest, None]] = {}
        self.level_of: dict[PullRequest, int] = {}
        self.no_wait: dict[PullRequest, None] = {}

    def __len__(self) -> int:
        return len(self.level_of)

    def __contains__(self, request: object) -> bool:
        return request in self.level_of

    def __iter__(self) -> Iterator[PullRequest]:
        """Iterate in the order of service; nobody may come or go meanwhile."""
        if len(self._levels) == 1:
            (only,) = self._levels.values()
            return iter(only)
        return (request for level in sorted(self._levels) for request in self._levels[level])

    def add(self, request: PullRequest, level: int) -> None:
        """Have a request wait, behind all others of its level; lower levels come first."""
        self.level_of[request] = level
        self._levels.setdefault(level, {})[request] = None
        if request.no_wait:
            self.no_wait[request] = None

    def remove(self, request: PullRequest) -> None:
        """Have a request that waits not wait any more."""
        level = self.level_of.pop(request)
        requests = self._levels[level]
        del requests[request]
        if not requests:
            del self._levels[level]
        self.no_wait.pop(request, None)

    def move_back(self, served: Iterable[PullRequest]) -> None:
        """Have requests that wait do so behind all others of their level."""
        for request in served:
            requests = self._levels[self.level_of[request]]
            del requests[request]
            requests[request] = None
