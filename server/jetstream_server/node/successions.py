"""Clients of whom it is yet to be found out who they are under new rules.

That takes some ten microseconds for each, and an account may have thousands. A turn has time for
some of them. The others are looked at before they are heard again, so that nobody does anything
under rules that are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.node.accounts.account import Account

if TYPE_CHECKING:
    from jetstream_server.node.session import Session

SESSIONS_OF_TURN = 200  # that have few permissions
_PAUSE_NS = MILLISECOND


class Successions:
    """The clients that wait for it.

    Args:
        account: where it gets its turns.

    Attributes:
        session: the one that is being looked at.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._waiting: dict[Session, None] = {}
        self._look: Callable[[Session], int] = lambda session: 0
        self._finished: list[Callable[[], None]] = []
        self.are_any = False
        self.session: Session | None = None

    def begin(
        self,
        sessions: Iterable[Session],
        look: Callable[[Session], int],
        finished: Callable[[], None],
    ) -> None:
        """Look at clients under new rules, and under these also at those that wait still.

        Args:
            look: has a client go on under the new rules, or not; returns for how many more than one
                it counts.
            finished: called when all were looked at.
        """
        self._look = look
        self._finished.append(finished)
        self.are_any = True
        self._waiting.update(dict.fromkeys(sessions))
        try:
            self.tick(0)
        except Exception as error:
            self._account.containment.contain(error, 0)

    def settle(self, session: Session) -> int:
        """Look at a client now, if it waits for that; return for how many it counts."""
        if session not in self._waiting:
            return 0
        del self._waiting[session]
        self.session = session
        more = 0 if session.closing else self._look(session)
        self.session = None
        return 1 + more

    def tick(self, now: int) -> None:
        """Look at some."""
        # First: whoever trips over one of them goes on with the others.
        self._account.timers.schedule(self, now + _PAUSE_NS)
        self._account.stir()
        left = SESSIONS_OF_TURN
        while self._waiting and left > 0:
            left -= self.settle(next(iter(self._waiting)))
        if not self._waiting:
            while self._finished:
                self._finished.pop(0)()
            self.are_any = bool(self._waiting or self._finished)
            self._account.timers.cancel(self)
