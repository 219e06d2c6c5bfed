"""Whether a stream takes a message that is a schedule, or that ends one.

Specification: docs/reference/publishing.md#schedules.
"""

from __future__ import annotations

from jetstream_server.base.time_zone import find_zone, is_at_hand
from jetstream_server.core.subject import is_valid_literal, matches
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.message_ttl import parse_ttl
from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    has_header,
    special_headers,
)
from jetstream_server.jetstream.streams.schedules.schedule import PURGE
from jetstream_server.jetstream.streams.schedules.schedule_timing import timing_of
from jetstream_server.jetstream.wire.go_json import Spend, spend_nothing
from jetstream_server.store.ports import MessageStore

_ZONE_UNITS = 5  # of the workload, to look for a zone on the disk, which may have to be waited for


def check_schedule(
    config: StreamConfig,
    store: MessageStore,
    message: Candidate,
    now: int,
    spend: Spend = spend_nothing,
) -> None:
    """Check the schedule headers of a message, and have a schedule replace its predecessor.

    Args:
        spend: told of the units of work that it takes to find its time zone.

    Raises:
        ApiError: 10223, 10189, 10166, 10191, 10190, 10203, 10192, 10212.
    """
    special = message.special
    if has_header(message.headers, names.SCHEDULE_TIME_ZONE) and not _is_zone_known(special, spend):
        raise errors.MESSAGE_SCHEDULES_TIME_ZONE_INVALID()
    if names.SCHEDULE in special:
        _check_own(config, message, now)
    if names.SCHEDULER in special or names.SCHEDULE_NEXT in special:
        _check_end(store, message)


def _is_zone_known(special: dict[bytes, bytes], spend: Spend) -> bool:
    zone_name = special.get(names.SCHEDULE_TIME_ZONE, b"").decode("utf-8", "replace")
    if not zone_name:
        return False
    if not is_at_hand(zone_name):
        spend(_ZONE_UNITS)
    return find_zone(zone_name) is not None


def _check_own(config: StreamConfig, message: Candidate, now: int) -> None:
    special, subject = message.special, message.subject
    timing = timing_of(special)
    if timing is None or (timing.at is None and timing.next_after(now) is None):
        raise errors.MESSAGE_SCHEDULES_PATTERN_INVALID()
    if ttl := special.get(names.SCHEDULE_TTL):
        if parse_ttl(ttl) is None:
            raise errors.MESSAGE_SCHEDULES_TTL_INVALID()
        if not config.allow_msg_ttl:
            raise errors.MESSAGE_TTL_DISABLED()
    target = special.get(names.SCHEDULE_TARGET, b"")
    if not is_valid_literal(target) or target == subject:
        raise errors.MESSAGE_SCHEDULES_TARGET_INVALID()
    source = special.get(names.SCHEDULE_SOURCE, b"")
    if source and (not is_valid_literal(source) or source in (subject, target)):
        raise errors.MESSAGE_SCHEDULES_SOURCE_INVALID()
    if message.rollup not in (b"", b"sub"):
        raise errors.MESSAGE_SCHEDULES_ROLLUP_INVALID()
    if special.get(names.SCHEDULE_ROLLUP, b"sub") != b"sub":
        raise errors.MESSAGE_SCHEDULES_ROLLUP_INVALID()
    patterns = config.subject_patterns
    if not any(matches(pattern, target) for pattern in patterns):
        raise errors.MESSAGE_SCHEDULES_TARGET_INVALID()
    if source and not any(matches(pattern, source) for pattern in patterns):
        raise errors.MESSAGE_SCHEDULES_SOURCE_INVALID()
    if not message.rollup:
        special[names.ROLLUP] = b"sub"
        message.headers = extended(message.headers, b"%b: sub\r\n" % names.ROLLUP)


def asks_for_schedules(message: Candidate, spend: Spend = spend_nothing) -> bool:
    """Tell whether a message has headers that a stream without schedules must refuse.

    A time zone alone is not refused, unless the zone does not exist.

    Args:
        spend: as in `check_schedule`.
    """
    special = message.special
    if any(name in special for name in names.SCHEDULES if name != names.SCHEDULE_TIME_ZONE):
        return True
    return names.SCHEDULE_TIME_ZONE in special and not _is_zone_known(special, spend)


def refuse_schedule(message: Candidate) -> None:
    """Refuse the schedule headers of a message on a stream without schedules.

    Raises:
        ApiError: 10212, 10188.
    """
    special = message.special
    ends = names.SCHEDULER in special or names.SCHEDULE_NEXT in special
    if ends and names.SCHEDULE not in special:
        _check_scheduler(message)
    raise errors.MESSAGE_SCHEDULES_DISABLED()


def _check_scheduler(message: Candidate) -> bytes:
    """Return which schedule a message ends."""
    scheduler = message.special.get(names.SCHEDULER, b"")
    if (
        message.special.get(names.SCHEDULE_NEXT) != PURGE
        or not is_valid_literal(scheduler)
        or scheduler == message.subject
    ):
        raise errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
    return scheduler


def _check_end(store: MessageStore, message: Candidate) -> None:
    """Only a schedule may be ended, by a message on another subject."""
    scheduler = _check_scheduler(message)
    newest = store.load(store.subject_last(scheduler))
    if newest is not None and names.SCHEDULE not in special_headers(newest.headers):
        raise errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID()
