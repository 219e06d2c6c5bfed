"""How often the driver looks at its streams, and how long it holds back that nothing is new.

While rows come, the next ones are likely to be near, so a look follows the last one soon; the
longer nothing has come, the longer the pauses, up to `pollInterval`. So a row waits for a part of
the time that has passed without any, and an idle query costs no more than one look each time.

Spark asks again about ten milliseconds after "nothing new", which each time takes a good part of a
millisecond in this process and in the JVM. So that is held back until the next look is almost due.
It is held back after the look and not before the next one: the time in which there is nothing to
do is not part of a micro-batch, and not of what Spark says that it took.
"""

from __future__ import annotations

# Other sources of a query wait just as long.
LULL_MAX_S = 0.1
# Before Spark asks again.
SPARKS_PAUSE_S = 0.01
# A pause is no longer than this part of the time in which nothing has come ...
PART = 4
# ... and no shorter than this part of `pollInterval`.
PARTS_MAX = 10


class Pace:
    """When the streams are looked at.

    Args:
        interval_s: `pollInterval`, the longest time between two looks.

    Attributes:
        age_max_s: how old the answers of a look may be.
    """

    def __init__(self, interval_s: float) -> None:
        self.age_max_s = interval_s
        self._interval_s = interval_s
        self._quiet_since: float | None = None  # since when nothing has come
        self._said_at = float("-inf")  # when Spark was last told that nothing is new

    def note_rows(self) -> None:
        """Note that something is new."""
        self._quiet_since = None
        self.age_max_s = self._interval_s / PARTS_MAX

    def nothing_new(self, looked_at: float, now: float) -> float:
        """Note that nothing is new; return when to say so.

        Args:
            looked_at: when the streams were looked at; seconds, as all times here.
        """
        if self._quiet_since is None:
            self._quiet_since = looked_at
        quiet_s = looked_at - self._quiet_since
        self.age_max_s = max(self._interval_s / PARTS_MAX, min(self._interval_s, quiet_s / PART))
        # Spark that comes back late, as with a trigger of its own, has waited by itself.
        is_asking_on = now - self._said_at < LULL_MAX_S
        due = looked_at + self.age_max_s - SPARKS_PAUSE_S
        self._said_at = max(now, min(due, now + LULL_MAX_S)) if is_asking_on else now
        return self._said_at
