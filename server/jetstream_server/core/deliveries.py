"""How many subscriptions a turn has time to deliver to, and how many subjects it may look up.

A message can reach any number of subscriptions, and a client can say five hundred such messages, or
subjects that nobody has said before, in one write. What a turn has no time for is delivered in the
next ones; the client that publishes is not heard meanwhile, and others come before it then. Each
delivery copies what it delivers, once here and once more into the socket, so that many bytes cost
as much as many deliveries. What reaches few, by a subject that is known, and is not much for all of
them together, takes no time from either and never waits for it.

Each client that is sent something costs a call of the system besides, at the end of the turn, in
the time of ten deliveries, but only one however much it is sent. So the clients are counted as
well, and what reaches any has to wait as soon as they are many. And there is no time for what
reaches very many when the turn has taken long by the clock, whatever it was for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sized

DELIVERIES_OF_TURN_MAX = 6000  # of 0.7 to 2 microseconds
CLIENTS_OF_TURN_MAX = 400  # of 10 to 25 microseconds
SUBJECTS_OF_TURN_MAX = 1250  # of some microseconds; long ones count more than once
# Of the tree of subscriptions, looked at in the time of one: a subject may meet as many as others
# have subscribed to patterns that begin like it.
NODES_OF_SUBJECT = 12
TURN_NS = 10_000_000  # after which there is no time, by the clock
# To a subscription that takes so many of a client's messages at once, they cost as two.
MESSAGES_OF_DELIVERY = 16
# Copied in the time of one: 1.5 MB in that of a turn, which take 2 ms, or 8 ms where the kernel
# has to find memory for them.
BYTES_OF_DELIVERY = 256


class Deliveries:
    """What is left of a turn, for everybody together.

    Args:
        clients: those for whom there is something to send, as they are at any time.
        clock: tells the nanoseconds since any moment; one that stands still counts nothing.

    Attributes:
        left: deliveries that there is time for; none if it is not above zero.
        subjects_left: new subjects, likewise.
        most: deliveries that a whole turn has time for.
        clients: those for whom there is something to send.
        clients_max: as soon as they are so many, nothing more is sent to any.
    """

    __slots__ = ("_clock", "_over_at", "clients", "clients_max", "left", "most", "subjects_left")

    def __init__(self, clients: Sized = (), clock: Callable[[], int] = lambda: 0) -> None:
        self.clients = clients
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """A turn begins."""
        self._over_at = self._clock() + TURN_NS
        self.left = self.most = DELIVERIES_OF_TURN_MAX
        self.subjects_left = SUBJECTS_OF_TURN_MAX
        # Those who could not be written to in the turns before are nobody's in this one.
        self.clients_max = len(self.clients) + CLIENTS_OF_TURN_MAX

    def begin_short(self, part: int) -> None:
        """A turn begins that has time for one part in so many of what others have time for."""
        self.begin()
        self._over_at -= TURN_NS - TURN_NS // part
        self.left //= part
        self.subjects_left //= part
        self.clients_max = len(self.clients) + CLIENTS_OF_TURN_MAX // part

    def allow_some(self, part: int) -> None:
        """Have time for one part in so many of a turn at least."""
        self._over_at = max(self._over_at, self._clock() + TURN_NS // part)
        self.left = max(self.left, self.most // part, 1)
        some = max(CLIENTS_OF_TURN_MAX // part, 1)
        self.clients_max = max(self.clients_max, len(self.clients) + some)

    def allow_all(self) -> None:
        """Have time for everything: there is no other turn."""
        self.left = self.clients_max = self._over_at = sys.maxsize

    @property
    def has_time(self) -> bool:
        """Return whether there is time for what reaches very many."""
        is_any_left = self.left > 0 and len(self.clients) < self.clients_max
        return is_any_left and self._clock() < self._over_at

    @property
    def are_spent(self) -> bool:
        """Return whether somebody may have to wait for the next turn."""
        if self.left <= 0 or self.subjects_left <= 0:
            return True
        return len(self.clients) >= self.clients_max or self._clock() >= self._over_at


def cost_of(messages: int, cost: int, copied_bytes: int = 0) -> int:
    """Return what it costs to deliver several messages, each of which costs so much.

    Args:
        copied_bytes: what all whom they reach are sent, together.
    """
    copying = copied_bytes // BYTES_OF_DELIVERY
    return cost + cost * messages // MESSAGES_OF_DELIVERY + copying
