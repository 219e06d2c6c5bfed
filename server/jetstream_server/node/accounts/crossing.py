"""Messages on their way to another account or subject, where they may reach very many.

A turn may have no time for all of them. The client that has sent them is not heard until they have
arrived, so that they do so in its order; what a part of the server sends arrives at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.core.answers import Answers
from jetstream_server.core.subscription import Sender, Stretch
from jetstream_server.node.router import Router
from jetstream_server.protocol.ops import PubRun

# A message that is made anew for another account, in deliveries; a client says very many at once.
DELIVERIES_OF_CROSSING = 8


def has_to_wait(stretch: Stretch, index: int) -> bool:
    """Put off the messages of a stretch from an index on, if something waits that their client has
    sent before them; tell whether that is so."""
    answers = stretch.answers
    if answers is None or not answers.postponed:
        return False
    answers.postpone(stretch.postponed_from(index))
    return True


def put_off(stretch: Stretch, index: int, answers: Answers) -> None:
    """Put off the messages of a stretch from an index on until the next turn has time for them."""
    answers.postpone(stretch.postponed_from(index))
    answers.look_again()


def cross(
    router: Router, run: PubRun, sender: Sender | None, now: int, answers: Answers | None
) -> None:
    """Publish messages where they go, as turns have time for it.

    Args:
        router: of the account there.
        sender: in whose name.
        answers: of the client that has to wait; None if nobody can be made to wait.
    """
    if answers is None:
        router.route(run, sender, now)
    else:
        _Crossing(router, run, sender, answers).receive(now)


@dataclass(slots=True, eq=False)
class _Crossing:
    """Messages of which some have yet to arrive, from the next one on. Postponable."""

    router: Router
    run: PubRun
    sender: Sender | None
    answers: Answers
    next: int = 0

    def receive(self, now: int) -> None:
        """Go on, unless it is all done."""
        self.next = self.router.route(self.run, self.sender, now, self.next, answers=self.answers)
        if self.next < self.run.count:
            self.answers.postpone(self)
            self.answers.look_again()
