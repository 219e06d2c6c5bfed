"""When a consumer goes because nobody uses it."""

from __future__ import annotations

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.nuid import DIGITS
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext

# Spread of the removal of idle pull consumers, so that many do not go at once.
_JITTER_NS_MIN = 100 * MILLISECOND
_JITTER_NS_MAX = 1000 * MILLISECOND


class Inactivity:
    """The time until one consumer is removed; `inactive` among its timers.

    A pull consumer is used by clients that ask and acknowledge, a push consumer by those that
    listen.
    """

    def __init__(self, shared: ConsumerContext) -> None:
        self._shared = shared

    def touch(self, now: int) -> None:
        """Somebody uses the consumer: the time to its removal starts over."""
        shared = self._shared
        shared.active_at = now
        threshold = shared.config.inactive_threshold
        if threshold > 0 and not shared.config.is_push and "inactive" not in shared.timers:
            shared.timers.schedule("inactive", now + threshold + self._jitter())
            shared.arm()

    def begin(self, now: int) -> None:
        """Nobody listens to a push consumer: the time starts."""
        threshold = self._shared.config.inactive_threshold
        if threshold > 0:
            self._shared.timers.schedule("inactive", now + threshold)

    def end(self) -> None:
        """Somebody listens to a push consumer."""
        self._shared.timers.cancel("inactive")

    def restart(self, now: int) -> None:
        """The config has another threshold: the time starts over."""
        self._shared.timers.cancel("inactive")
        self.touch(now)

    def check(self, now: int, *, is_used: bool) -> bool:
        """Tell whether the time of a pull consumer is over; if not, look again later."""
        shared = self._shared
        threshold = shared.config.inactive_threshold
        idle_until = shared.active_at + threshold
        if not is_used and idle_until <= now:
            return True
        wait_ns = threshold if is_used else idle_until - now
        shared.timers.schedule("inactive", now + wait_ns + self._jitter())
        return False

    def _jitter(self) -> int:
        spread = DIGITS.index(self._shared.nuid.short(1)) / (len(DIGITS) - 1)
        return _JITTER_NS_MIN + int(spread * (_JITTER_NS_MAX - _JITTER_NS_MIN))
