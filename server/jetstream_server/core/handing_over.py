"""How many messages consumers may have on their way to others within the server, as to mirrors.

A client that does not read stops the consumers that deliver to it. Whoever is within the server
takes everything at once, and everybody else would wait meanwhile: a message takes some 15
microseconds until a mirror has stored it, and more where that is republished. So only a few are
under way at a time, from when a consumer hands them over until, perhaps after a flush, they are
taken. Consumers that have more go on once there is room: those that handed over nothing come first.
"""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.core.match import Match
from jetstream_server.core.subscription import Receiver

UNDER_WAY_AT_ONCE = 400
BYTES_OF_ONE = 512  # so many bytes count as a message more
OF_ONE_AT_ONCE = 4  # that a consumer may hand over as long as there is any room


class HandingOver:
    """What is under way within one server.

    Attributes:
        weights: of receivers that take longer over a message than others, as many times as long.
    """

    __slots__ = ("_served", "_under_way", "_unserved", "weights")

    def __init__(self) -> None:
        self.weights: dict[Receiver, int] = {}
        self._under_way = 0
        self._unserved: dict[Callable[[], None], None] = {}
        self._served: dict[Callable[[], None], None] = {}

    def room_for(self, match: Match) -> int:
        """Return how many messages a consumer may hand over now to those whom a match reaches."""
        left = UNDER_WAY_AT_ONCE - self._under_way
        if left <= 0:
            return 0
        if self.weights:
            reached = match.some().subscriptions()
            weights = (self.weight_of(each.receiver) for each in reached)
            left //= max(weights, default=1)
        return max(left, OF_ONE_AT_ONCE)

    def weight_of(self, receiver: Receiver) -> int:
        """Return how many messages one to this receiver counts as."""
        return self.weights.get(receiver, 1)

    def began(self, weight: int) -> None:
        """Messages that count as so many were handed over."""
        self._under_way += weight

    def taken(self, weight: int) -> None:
        """They were taken, or are lost with a flush; whoever waits for room goes on."""
        self._under_way -= weight
        if self._under_way < UNDER_WAY_AT_ONCE and (self._unserved or self._served):
            waiting = [*self._unserved, *self._served]
            self._unserved.clear()
            self._served.clear()
            for go_on in waiting:
                go_on()

    def wait(self, go_on: Callable[[], None], *, is_served: bool) -> None:
        """Have something called once there is room.

        Args:
            is_served: whoever waits has handed over something since it was called last.
        """
        (self._served if is_served else self._unserved)[go_on] = None
