"""Outages are waited out: when to try again, and when to stop trying.

A server that is restarted, a leader that is elected, a network that is gone for a minute cost a
pause. What may pass is `PASSING`; anything else will be the same until somebody acts. The pauses
grow, so that a server that comes back is not met by a herd, and each is cut by chance, so that
those who lost it together do not come back together (docs/guarantees.md counts them).
"""

from __future__ import annotations

import logging

from jetstream_spark import errors
from jetstream_spark.client.operation import Host, Operation, Pause

_log = logging.getLogger("jetstream_spark")

PASSING = (
    errors.ConnectionFailedError,
    errors.ConnectionLostError,
    errors.CredentialsOutdatedError,
    errors.NoRespondersError,
    errors.RequestTimeoutError,
    errors.UnavailableError,
)

PAUSE_S = 0.1
PAUSE_MAX_S = 2.0
# Tasks that lose their connections in one instant come back spread over this.
SPREAD_S = 0.5


def by_chance(host: Host, pause_s: float) -> float:
    """Return between half of a pause and all of it."""
    return pause_s * (1 + _chance(host)) / 2


def spread(host: Host) -> float:
    """Return any part of `SPREAD_S`."""
    return SPREAD_S * _chance(host)


def _chance(host: Host) -> float:
    return int(host.token(2), 16) / 0xFFFF


class GrowingPauses:
    """The pauses between tries: each twice the one before, up to a bound.

    Attributes:
        longest_s: the most that the next one can take.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.longest_s = PAUSE_S

    def take_s(self, *, spreads: bool = False) -> float:
        """Return the next one: by chance, between half of it and all.

        Args:
            spreads: the first one is any part of `SPREAD_S` instead.
        """
        pause_s = self.longest_s
        self.longest_s = min(2 * pause_s, PAUSE_MAX_S)
        if spreads and pause_s == PAUSE_S:
            return spread(self._host)
        return by_chance(self._host, pause_s)

    def restart(self) -> None:
        """Begin with a short one again."""
        self.longest_s = PAUSE_S


class Patience:
    """One outage, from the first failure to the first sign of life.

    Args:
        limit_s: how long to go on trying after the first failure.
    """

    def __init__(self, host: Host, limit_s: float) -> None:
        self._host = host
        self._limit_s = limit_s
        self._pauses = GrowingPauses(host)
        self._failing_since: float | None = None

    def note_progress(self) -> None:
        """Forget the outage: something worked."""
        self._failing_since = None
        self._pauses.restart()

    def wait(self, error: Exception, what: str = "") -> Operation[None]:
        """Wait before the next try.

        Args:
            error: why the last one failed.
            what: who is trying, for the log; nothing is logged when it is empty.

        Raises:
            the error itself: the next try would come after the limit.
        """
        now = self._host.now()
        if self._failing_since is None:
            self._failing_since = now
        if now + self._pauses.longest_s - self._failing_since > self._limit_s:
            raise error
        if what:
            waited_s = now - self._failing_since
            _log.warning("%s: trying again, since %.0f s, after: %s", what, waited_s, error)
        yield Pause(now + self._pauses.take_s())
