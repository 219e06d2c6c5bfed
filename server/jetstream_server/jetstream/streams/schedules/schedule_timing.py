"""When a schedule comes up: what `Nats-Schedule` and `Nats-Schedule-Time-Zone` say.

Specification: docs/reference/publishing.md#schedules.
"""

from __future__ import annotations

from datetime import tzinfo
from functools import lru_cache
from typing import NamedTuple

from jetstream_server.base.clock import SECOND
from jetstream_server.base.time_zone import find_zone
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.schedules.cron import Cron, parse_cron
from jetstream_server.jetstream.wire.go_duration import parse_duration
from jetstream_server.jetstream.wire.go_time import parse_time

TIMING_BYTES_MAX = 1024  # of `Nats-Schedule`; nobody needs more, and others wait while it is read
_CRONS_KEPT = 64  # a pattern is looked at when its message is checked, and when it is stored

_ALIASES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class Timing(NamedTuple):
    """When a schedule comes up: exactly one of these is set.

    Attributes:
        at: once, nanoseconds since the epoch.
        every: seconds between.
        cron: a pattern.
    """

    at: int | None = None
    every: int = 0
    cron: Cron | None = None

    def next_after(self, now: int) -> int | None:
        """Return when a repeated schedule comes up next, in nanoseconds; None for never."""
        if self.every:
            return (now // SECOND + self.every) * SECOND
        second = self.cron.next_after(now // SECOND) if self.cron is not None else None
        return None if second is None else second * SECOND


def parse_timing(text: str, zone_name: str) -> Timing | None:
    """Return what `Nats-Schedule` says, None when it is not a schedule.

    Args:
        zone_name: of a zone that exists; empty for none. Only patterns may have one.
    """
    if text.startswith("@at ") and not zone_name:
        try:
            return Timing(at=int(parse_time(text.removeprefix("@at "))))
        except ValueError:
            return None
    if text.startswith("@every ") and not zone_name:
        period = parse_duration(text.removeprefix("@every "))
        return Timing(every=period // SECOND) if period is not None and period >= SECOND else None
    zone = find_zone(zone_name or "UTC")
    assert zone is not None, zone_name
    cron = _cron_of(_ALIASES.get(text, text), zone)
    return Timing(cron=cron) if cron is not None else None


@lru_cache(_CRONS_KEPT)
def _cron_of(text: str, zone: tzinfo) -> Cron | None:
    return parse_cron(text, zone)


def timing_of(special: dict[bytes, bytes]) -> Timing | None:
    """Return when the schedule that these headers make comes up, None when they make none."""
    said = special.get(names.SCHEDULE, b"")
    if not said or len(said) > TIMING_BYTES_MAX:
        return None
    zone_name = special.get(names.SCHEDULE_TIME_ZONE, b"").decode("utf-8", "replace")
    if zone_name and find_zone(zone_name) is None:
        return None
    return parse_timing(said.decode("utf-8", "replace"), zone_name)
