"""A time in which no server answers the driver of a query: when to look again, and what to say.

Spark asks again ten milliseconds after "nothing new", a hundred times a second. So while the
servers are away each answer is held back until the next look is due, though no longer than a
second, because the other sources of a query wait as long. Nothing waits beyond the next look, so a
server that comes back is found no later for it.
"""

from __future__ import annotations

import logging
from typing import Any

from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import GrowingPauses
from jetstream_spark.errors import RetryableError

_log = logging.getLogger("jetstream_spark")

HOLD_MAX_S = 1.0


class DriverOutage:
    """Whether the servers answer, and since when they do not.

    Args:
        limit_s: how long to go on looking after the first failure.
    """

    def __init__(self, host: Host, limit_s: float) -> None:
        self._host = host
        self._limit_s = limit_s
        self._since: float | None = None
        self._reason = ""  # of the last failure
        self._pauses = GrowingPauses(host)
        self._quiet_until = 0.0  # when the next look is due

    @property
    def is_on(self) -> bool:
        """Whether the last look failed."""
        return self._since is not None

    @property
    def is_pausing(self) -> bool:
        """Whether it is too soon for another look."""
        return self.is_on and self._host.now() < self._quiet_until

    def wait(self, answer_by: float) -> Operation[None]:
        """Wait until it is time for another look, if that comes before an answer has to."""
        if self.is_pausing:
            yield Pause(min(self._quiet_until, answer_by))

    def note(self, error: RetryableError) -> None:
        """Note that a look failed.

        Raises:
            the error: the outage has lasted for `outageTimeout`.
        """
        now = self._host.now()
        if self._since is None:
            self._since = now
            _log.warning("waiting for the servers, for %g s at most: %s", self._limit_s, error)
        if now - self._since >= self._limit_s:
            raise error
        self._reason = error.what
        self._quiet_until = now + self._pauses.take_s()

    def end(self) -> None:
        """Note that a look worked."""
        if self._since is not None:
            _log.warning("the servers answer again, after %.0f s", self._host.now() - self._since)
        self._since = None
        self._pauses.restart()

    def report(self) -> dict[str, Any]:
        """What it is waiting for, for the query's progress; empty when it is not waiting."""
        if self._since is None:
            return {}
        return {"waitingFor": self._reason, "waitingSeconds": int(self._host.now() - self._since)}
