"""What a client has asked for and has yet to be told.

A request can be ten thousand times smaller than its answer: what a client asks for in one turn may
be more than it can take before it counts as a slow consumer, and more than fits into memory. So
only a limited amount is under way to a client at a time. Once that is reached, the rest of its
requests are put off, and with them whatever it says after them, until it has taken what it was
sent. It is not read from meanwhile, so TCP slows it down. The same is done with requests that a
turn has no time for (`core/workload.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jetstream_server.base.limits import OUTBOX_HIGH_BYTES
from jetstream_server.core.containment import UNCONTAINED, Containment


class Backlogged(Protocol):
    """A client, as far as its unsent output is concerned."""

    @property
    def backlog_bytes(self) -> int:
        """Output not yet taken by the socket."""
        ...


class Postponable(Protocol):
    """Requests that can be received another time."""

    def receive(self, now: int) -> None:
        """Receive them; they may be put off again."""
        ...


class UnderWay:
    """A request that is being answered, for as many turns as that takes: its client is not heard
    meanwhile. Postponable.

    Args:
        answers: what is under way to the client.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._is_over = False
        answers.postpone(self)

    def receive(self, now: int) -> None:
        """Go on waiting, unless it is answered by now."""
        if not self._is_over:
            self._answers.postpone(self)

    def end(self) -> None:
        """Hear the client again: it is answered."""
        self._is_over = True
        self._answers.look_again()


class Answers:
    """The answers under way to one client, and the requests put off until there is room for more.

    Args:
        outlet: the client, or what is yet to be sent to it.
        go_on: called when there is room again and something was put off.
        containment: of exceptions in answers that nobody foresaw.

    Attributes:
        postponed: what was put off, in order.
    """

    def __init__(
        self,
        outlet: Backlogged,
        go_on: Callable[[], None],
        containment: Containment = UNCONTAINED,
    ) -> None:
        self._outlet = outlet
        self._containment = containment
        self._go_on = go_on
        self._owed_bytes = 0
        self.postponed: list[Postponable] = []

    @property
    def room_bytes(self) -> int:
        """Return how much more may be answered now; no request begins if that is nothing."""
        room = OUTBOX_HIGH_BYTES - self._outlet.backlog_bytes - self._owed_bytes
        return room if room > 0 else 0

    def owe(self, size: int) -> None:
        """Count bytes that were answered, and that are not in the client's backlog yet."""
        self._owed_bytes += size

    def release(self, size: int) -> None:
        """Take off bytes that are in the client's backlog by now, or will never be."""
        self._owed_bytes -= size
        self.look_again()

    def look_again(self) -> None:
        """Go on if something was put off and there is room: the client has taken something, or
        there is time again."""
        if self.postponed and self.room_bytes:
            self._go_on()

    def postpone(self, requests: Postponable) -> None:
        """Have requests received again when there is room."""
        self.postponed.append(requests)

    def resume(self, now: int) -> None:
        """Have what was put off received, as far as there is room."""
        waiting, self.postponed = self.postponed, []
        for number, requests in enumerate(waiting):
            if self.postponed or not self.room_bytes:
                self.postponed += waiting[number:]
                return
            try:
                requests.receive(now)
            except Exception as error:
                self._containment.contain(error, now)

    def forget(self) -> None:
        """Let go of what was put off, and of whoever would go on: the client is gone."""
        self.postponed.clear()
        self._go_on = _nobody


def _nobody() -> None:
    """Go on with nothing."""
