"""Rates from counters that were looked at again and again, kept for a quarter of an hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from jetstream_console.asking.streams import Streams

WINDOW_S = 900.0
# Between looks that are further apart than this, nobody knows what came in when.
GAP_S = 60.0


@dataclass(frozen=True, slots=True)
class RateSample:
    """What counters and gauges were at a moment.

    Attributes:
        at_s: seconds since the epoch.
        values: by their names; one that could not be asked for is missing.
    """

    at_s: float
    values: Mapping[str, float]


class Samples:
    """The samples of the last quarter of an hour, at most one for each second."""

    def __init__(self) -> None:
        self._kept: deque[RateSample] = deque(maxlen=int(WINDOW_S) + 1)

    def add(self, sample: RateSample) -> None:
        """Take a sample that is younger than those before; others are passed over."""
        if self._kept and sample.at_s < self._kept[-1].at_s + 1:
            return
        self._kept.append(sample)
        while self._kept[0].at_s < sample.at_s - WINDOW_S:
            self._kept.popleft()

    @property
    def latest_s(self) -> float:
        """When the newest sample was taken, 0 before the first."""
        return self._kept[-1].at_s if self._kept else 0.0

    def values(self, name: str) -> list[tuple[float, float | None]]:
        """Return moments and the value of a gauge at each; None where nobody looked."""
        found: list[tuple[float, float | None]] = []
        before: RateSample | None = None
        for sample in self._kept:
            if before is not None and sample.at_s - before.at_s > GAP_S:
                found.append((before.at_s + 1, None))
            found.append((sample.at_s, sample.values.get(name)))
            before = sample
        return found

    def rates(self, name: str) -> list[tuple[float, float | None]]:
        """Return moments and how much a counter had gone up per second until each.

        A counter that went down has started again, and says nothing about the time before.
        """
        found: list[tuple[float, float | None]] = []
        before: RateSample | None = None
        for sample in self._kept:
            if before is not None:
                found.append((sample.at_s, _rate(before, sample, name)))
            before = sample
        return found

    def latest_rate(self, name: str) -> float | None:
        """Return the newest rate, None while there is none."""
        return self.rates(name)[-1][1] if len(self._kept) > 1 else None


class StreamRates:
    """How many messages per second each stream has taken in between two looks at all of them."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[datetime | None, int]] = {}
        self._before_s = 0.0
        self._taken_in = 0
        self._rates: dict[str, float] = {}

    @property
    def taken_in(self) -> int:
        """All messages that streams have taken in since the first look: a counter."""
        return self._taken_in

    def of(self, stream: str) -> float | None:
        """Return messages per second; None for a stream that was seen only once."""
        return self._rates.get(stream)

    def look(self, now_s: float, streams: Streams) -> None:
        """Take what streams are now; a stream that is younger than the previous look counts from
        its start."""
        past_s = now_s - self._before_s
        seen = {row.name: (row.created, row.last_sequence) for row in streams.rows}
        if self._before_s and past_s <= 0:
            return
        rates = {}
        for name, (created, last) in seen.items() if self._before_s else ():
            known = self._before.get(name)
            came = last - known[1] if known and known[0] == created else last
            self._taken_in += max(0, came)
            if known:
                rates[name] = max(0, came) / past_s
        self._before, self._before_s, self._rates = seen, now_s, rates


def _rate(before: RateSample, after: RateSample, name: str) -> float | None:
    past_s = after.at_s - before.at_s
    if past_s > GAP_S or name not in before.values or name not in after.values:
        return None
    rise = after.values[name] - before.values[name]
    return rise / past_s if rise >= 0 else None
