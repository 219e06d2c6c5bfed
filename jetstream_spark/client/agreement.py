"""For how long a cluster has said what its leader may say before it knows better.

A server goes on in the belief that it leads, after it was halted or cut off, until it hears of the
one that leads now; and one that has just come to lead may lack what was begun before. Each says for
a moment what was true once. So what would end a query is believed when the servers have said it
for `AGREED_S`, without an outage in between. An answer may be on its way for long; what counts is
that the last one was asked for so long after the first was heard.
"""

from __future__ import annotations

from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import GrowingPauses

AGREED_S = 2.0


class Agreement:
    """One thing that is said again and again."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pauses = GrowingPauses(host)
        self._first_at = self._last_at = self._asked_at = float("-inf")

    def wait(self) -> Operation[bool]:
        """Note that it was said; return False if that is to be believed, True after a pause when
        it is time to ask again."""
        now = self._host.now()
        if now > self._last_at + AGREED_S:  # an outage lies between, in which it may have changed
            self._first_at = now
        self._last_at = now
        if self._asked_at >= self._first_at + AGREED_S:
            return False
        yield Pause(now + self._pauses.take_s())
        self._asked_at = self._host.now()
        return True
