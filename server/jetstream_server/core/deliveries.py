"""How many subscriptions a turn has time to deliver to.

A message can reach any number of them, and a client can say five hundred such messages in one
write. What a turn has no time for is delivered in the next ones; the client that publishes is not
heard meanwhile.
"""

from __future__ import annotations

DELIVERIES_OF_TURN_MAX = 10_000  # of 0.7 microseconds or more
# To a subscription that takes so many of a client's messages at once, they cost as two.
MESSAGES_OF_DELIVERY = 16


class Deliveries:
    """What is left of a turn, for everybody together.

    Attributes:
        left: deliveries that there is time for; none if it is not above zero.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = DELIVERIES_OF_TURN_MAX

    def begin(self) -> None:
        """A turn begins."""
        self.left = DELIVERIES_OF_TURN_MAX


def cost_of(messages: int, cost: int) -> int:
    """Return what it costs to deliver several messages, each of which costs so much."""
    return cost + cost * messages // MESSAGES_OF_DELIVERY
