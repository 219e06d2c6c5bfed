"""Lame duck: the server takes no more clients and moves on those it has, one by one.

Clients are told first and have a grace period to go by themselves. Then connections are closed,
spread over what is left of the duration but at most about a second apart, in random order, so that
they do not all arrive elsewhere at once (docs/reference/protocol.md#lame-duck).

JetStream serves until the last client has gone: there is no other server that could take over.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from jetstream_server.base.clock import SECOND
from jetstream_server.core.containment import Incident
from jetstream_server.node.session import Session

_GAP_NS_MAX = SECOND
_REASON = "Server Shutdown"


class LameDuck:
    """The end of a server, planned.

    Args:
        sessions: the clients.
        now: when the clients were told.
        duration_ns: time until the last is closed, at most.
        grace_ns: time before the first is closed.
        random: decides the order, and how far apart.
    """

    def __init__(
        self,
        sessions: Iterable[Session],
        now: int,
        *,
        duration_ns: int,
        grace_ns: int,
        random: Random,
    ) -> None:
        self._waiting = list(sessions)
        random.shuffle(self._waiting)
        self._random = random
        whole = max(duration_ns - grace_ns, SECOND)
        self._gap_ns = min(whole // max(len(self._waiting), 1), _GAP_NS_MAX)
        self._close_at = now + grace_ns
        self.has_begun_closing = False

    @property
    def is_over(self) -> bool:
        """Return whether no client is left."""
        return not self._waiting

    def next_deadline(self) -> int:
        """Return when the next client is to be closed."""
        return self._close_at

    def give_up(self, incident: Incident, now: int) -> None:
        """Close everybody at once: it has failed to do so one by one."""
        waiting, self._waiting = self._waiting, []
        self.has_begun_closing = True
        for session in waiting:
            session.close(_REASON)

    def run(self, now: int) -> None:
        """Close whom it is time to close."""
        self._waiting = [each for each in self._waiting if not each.closing]
        while self._waiting and now >= self._close_at:
            self.has_begun_closing = True
            self._waiting.pop().close(_REASON)
            self._close_at += self._random.randrange(self._gap_ns // 2, self._gap_ns + 1)
