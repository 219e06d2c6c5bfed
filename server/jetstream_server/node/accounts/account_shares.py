"""How much of a turn all accounts of a node take together.

Each account has a bound of its own for what its consumers deliver in a turn and for what its timers
do. One message may wake the consumers of sixty accounts that import it, and timers of many may come
due at once. So a turn lets accounts deliver until they have had enough together; the others come
first in the next one. What they have to send is sent meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.base.limits import OUTBOX_LOW_BYTES
from jetstream_server.core.workload import PART_OF_FRESH, UNITS_OF_TIMERS, Workload

if TYPE_CHECKING:
    from jetstream_server.node.accounts.account import Account

# Consumers that deliver, of some 50 microseconds; the last account may take as much again.
STEPS_OF_TURN_MAX = 150
_STEPS_OF_TIMER = 2  # which may wake a consumer
_TIMEOUTS_OF_STEP = 8  # requests reported because nobody has answered them
DELIVERED_OF_TURN_MAX = 4 * OUTBOX_LOW_BYTES  # bytes
MESSAGES_OF_TURN_MAX = 20_000  # delivered; of a stream in memory each takes nearly a microsecond


class AccountShares:
    """What accounts have taken of a turn.

    Args:
        workload: what the turn takes on besides.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._turn = -1
        self.begin()

    def begin(self) -> None:
        """There is a whole turn's time."""
        self._turn = self._workload.turn
        part = PART_OF_FRESH if self._workload.is_short else 1
        self._steps_left = STEPS_OF_TURN_MAX // part
        self._bytes_left = DELIVERED_OF_TURN_MAX // part
        self._messages_left = MESSAGES_OF_TURN_MAX // part
        self._units_left = self._workload.timer_units

    def shorten(self) -> None:
        """There is no more than a short turn's time, and no more than was left."""
        self.follow()
        left = self._steps_left, self._bytes_left, self._messages_left, self._units_left
        self._steps_left = min(left[0], STEPS_OF_TURN_MAX // PART_OF_FRESH)
        self._bytes_left = min(left[1], DELIVERED_OF_TURN_MAX // PART_OF_FRESH)
        self._messages_left = min(left[2], MESSAGES_OF_TURN_MAX // PART_OF_FRESH)
        self._units_left = min(left[3], UNITS_OF_TIMERS / PART_OF_FRESH)

    def follow(self) -> None:
        """Have a whole turn's time again if another turn has begun since."""
        if self._turn != self._workload.turn:
            self.begin()

    @property
    def are_spent(self) -> bool:
        """Return whether accounts have had enough of this turn."""
        return (
            self._steps_left <= 0
            or self._bytes_left <= 0
            or self._messages_left <= 0
            or self._units_left <= 0
        )

    def run(self, account: Account, now: int) -> None:
        """Let an account do what is due, and note how much that was."""
        output, workload = account.output, self._workload
        workload.look_at_clock()  # what has passed before is not this account's
        self._steps_left -= account.ready_count()
        timers, timeouts = account.timers_run, account.replies.timed.popped
        delivered_bytes, units = output.delivered_bytes, workload.used
        delivered_messages = output.delivered_messages
        account.run(now)
        workload.look_at_clock()
        self._steps_left -= (
            _STEPS_OF_TIMER * (account.timers_run - timers)
            + (account.replies.timed.popped - timeouts) // _TIMEOUTS_OF_STEP
        )
        self._bytes_left -= output.delivered_bytes - delivered_bytes
        self._messages_left -= output.delivered_messages - delivered_messages
        self._units_left -= workload.used - units
