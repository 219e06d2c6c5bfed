"""Message schedules: a stored message that makes the stream store other messages later.

A schedule is the newest message of its subject when that carries `Nats-Schedule`: a time (`@at`),
a period (`@every`), or a cron pattern. When it comes up, the stream stores a copy on the target
subject, with the body of the schedule or of the newest message of a source subject. A copy that
says `Nats-Schedule-Next: purge` ends its schedule; so does any client's message that says the same.

What comes up when is kept in memory and rebuilt from the stored headers. The newest copy of a
schedule tells when it was to come up next, so what fell into a time when the server was down is
made up for, once. Specification: docs/reference/publishing.md#schedules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.core.subject import is_valid_literal, matches
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.streams import publish_headers as names
from jetstream_server.jetstream.streams.cron import Cron, find_zone, parse_cron
from jetstream_server.jetstream.streams.message_ttl import parse_ttl
from jetstream_server.jetstream.streams.publish_headers import extended, has_header, special_headers
from jetstream_server.jetstream.streams.scan import stored
from jetstream_server.jetstream.wire.go_duration import parse_duration
from jetstream_server.jetstream.wire.go_time import format_time, parse_time
from jetstream_server.protocol import headers as blocks
from jetstream_server.store.ports import MessageStore, StoredMessage
from jetstream_server.structures.deadline_heap import DeadlineHeap

if TYPE_CHECKING:
    from jetstream_server.jetstream.streams.candidate import Candidate
    from jetstream_server.jetstream.streams.stream import Stream

PURGE = b"purge"
_ALIASES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
# What a copy does not take over. The batch id because the copy is in no batch: a store must not
# seem to end in the middle of one (`atomic_batch.py`). The genuine server keeps that one.
_DROPPED = (b"Nats-Schedule", b"Nats-Expected-")
_DROPPED_WHOLE = (names.MESSAGE_ID, names.TTL, names.ROLLUP, names.BATCH_ID)


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
    cron = parse_cron(_ALIASES.get(text, text), zone)
    return Timing(cron=cron) if cron is not None else None


def _timing(special: dict[bytes, bytes]) -> Timing | None:
    zone_name = special.get(names.SCHEDULE_TIME_ZONE, b"").decode("utf-8", "replace")
    if zone_name and find_zone(zone_name) is None:
        return None
    text = special.get(names.SCHEDULE, b"").decode("utf-8", "replace")
    return parse_timing(text, zone_name) if text else None


def check_schedule(stream: Stream, message: Candidate, now: int) -> None:
    """Check the schedule headers of a message, and have a schedule replace its predecessor.

    Raises:
        ApiError: 10223, 10189, 10166, 10191, 10190, 10203, 10192, 10212.
    """
    special = message.special
    if has_header(message.headers, names.SCHEDULE_TIME_ZONE) and not _is_zone_known(special):
        raise errors.MESSAGE_SCHEDULES_TIME_ZONE_INVALID()
    if names.SCHEDULE in special:
        _check_own(stream, message, now)
    if names.SCHEDULER in special or names.SCHEDULE_NEXT in special:
        _check_end(stream.store, message)


def _is_zone_known(special: dict[bytes, bytes]) -> bool:
    zone_name = special.get(names.SCHEDULE_TIME_ZONE, b"").decode("utf-8", "replace")
    return zone_name != "" and find_zone(zone_name) is not None


def _check_own(stream: Stream, message: Candidate, now: int) -> None:
    special, subject = message.special, message.subject
    timing = _timing(special)
    if timing is None or (timing.at is None and timing.next_after(now) is None):
        raise errors.MESSAGE_SCHEDULES_PATTERN_INVALID()
    if ttl := special.get(names.SCHEDULE_TTL):
        if parse_ttl(ttl) is None:
            raise errors.MESSAGE_SCHEDULES_TTL_INVALID()
        if not stream.config.allow_msg_ttl:
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
    patterns = stream.config.subject_patterns
    if not any(matches(pattern, target) for pattern in patterns):
        raise errors.MESSAGE_SCHEDULES_TARGET_INVALID()
    if source and not any(matches(pattern, source) for pattern in patterns):
        raise errors.MESSAGE_SCHEDULES_SOURCE_INVALID()
    if not message.rollup:
        special[names.ROLLUP] = b"sub"
        message.headers = extended(message.headers, b"%b: sub\r\n" % names.ROLLUP)


def asks_for_schedules(message: Candidate) -> bool:
    """Tell whether a message has headers that a stream without schedules must refuse.

    A time zone alone is not refused, unless there is no such zone.
    """
    special = message.special
    if any(name in special for name in names.SCHEDULES if name != names.SCHEDULE_TIME_ZONE):
        return True
    return names.SCHEDULE_TIME_ZONE in special and not _is_zone_known(special)


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


class Schedules:
    """The schedules of one stream.

    One that trips over itself in a way that nobody foresaw is left out; the others go on.

    Attributes:
        subjects: on which a schedule is stored.
    """

    def __init__(self, containment: Containment = UNCONTAINED) -> None:
        self._containment = containment
        self._due: DeadlineHeap[bytes] = DeadlineHeap()
        self.subjects: set[bytes] = set()

    def recover(self, store: MessageStore, now: int) -> None:
        """Find the schedules that are stored, and when each was to come up next."""
        planned: dict[bytes, int] = {}
        found: dict[bytes, tuple[int, dict[bytes, bytes]]] = {}
        for sequence, timestamp, subject, block in stored(store, store.first_seq, names.SCHEDULE):
            if names.SCHEDULE not in block:
                continue
            special = special_headers(block)
            if names.SCHEDULE in special and store.subject_last(subject) == sequence:
                found[subject] = timestamp, special
            if names.SCHEDULER in special and names.SCHEDULE_NEXT in special:
                following = _parse_next(special[names.SCHEDULE_NEXT])
                if following is not None:
                    planned[special[names.SCHEDULER]] = following
        for subject, (timestamp, special) in found.items():
            try:
                self._resume(subject, timestamp, special, planned.get(subject, 0), now)
            except Exception as error:
                self._containment.contain(error, now)

    def _resume(
        self,
        subject: bytes,
        timestamp: int,
        special: dict[bytes, bytes],
        planned: int,
        now: int,
    ) -> None:
        timing = _timing(special)
        if timing is None:
            return
        due = timing.at
        if due is None:
            # What was planned is of an earlier schedule there, or of none, if it is not later.
            due = planned if planned > timestamp else timing.next_after(now)
        self._plan(subject, due)

    def noted(self, subject: bytes, special: dict[bytes, bytes], now: int) -> None:
        """A message was stored: begin its schedule, or end the one that it takes the place of."""
        if names.SCHEDULE in special:
            timing = _timing(special)
            assert timing is not None, special
            self._plan(subject, timing.at if timing.at is not None else timing.next_after(now))
        elif subject in self.subjects:
            self._plan(subject, None)

    def end(self, special: dict[bytes, bytes]) -> bytes:
        """Return the subject of the schedule that a message ends, to be purged; empty for none."""
        if special.get(names.SCHEDULE_NEXT) != PURGE:
            return b""
        ended = special.get(names.SCHEDULER, b"")
        self._plan(ended, None)
        return ended

    def postpone(self, copies: list[Copy], now: int) -> None:
        """Have copies that could not be stored come up again."""
        for copy in copies:
            self._plan(copy.scheduler, now)

    def fire(self, stream: Stream, store: Callable[[Copy], object], now: int) -> None:
        """Have what has come up stored; what is refused is left out, and noted.

        Raises:
            StoreError: what is left comes up again.
        """
        copies = self.pop_due(stream.store, now)
        try:
            while copies:
                copy = copies[0]
                try:
                    store(copy)
                except ApiError as error:
                    text = f"schedule {copy.scheduler.decode(errors='replace')} did not fire"
                    stream.context.log("WRN", f"stream '{stream.name}': {text}: {error}")
                del copies[0]
        except StoreError:
            self.postpone(copies, now)
            raise

    def next_deadline(self) -> int | None:
        """Return when the next schedule comes up."""
        return self._due.next_deadline()

    def pop_due(self, store: MessageStore, now: int) -> list[Copy]:
        """Return what is to be stored by now; repeated schedules are set for their next time."""
        copies = []
        for subject in self._due.pop_due(now):
            try:
                copy = self._pop(store, subject, now)
            except StoreError:
                raise
            except Exception as error:
                self._containment.contain(error, now)
                self._plan(subject, None)
                continue
            if copy is not None:
                copies.append(copy)
        return copies

    def _pop(self, store: MessageStore, subject: bytes, now: int) -> Copy | None:
        newest = store.load(store.subject_last(subject))
        special = special_headers(newest.headers) if newest is not None else {}
        timing = _timing(special)
        if newest is None or timing is None:  # gone, by a limit or a purge
            self.subjects.discard(subject)
            return None
        following = timing.next_after(now)
        self._plan(subject, following)
        return _copy(store, newest, special, following)

    def _plan(self, subject: bytes, due: int | None) -> None:
        if due is None:
            self.subjects.discard(subject)
            self._due.cancel(subject)
        else:
            self.subjects.add(subject)
            self._due.schedule(subject, due)


class Copy(NamedTuple):
    """What a schedule has the stream store."""

    scheduler: bytes
    target: bytes
    headers: bytes
    payload: bytes


def _copy(
    store: MessageStore, schedule: StoredMessage, special: dict[bytes, bytes], following: int | None
) -> Copy:
    origin: StoredMessage | None = None
    if source := special.get(names.SCHEDULE_SOURCE):
        origin = store.load(store.subject_last(source))
    if origin is None:
        origin = schedule
    when = PURGE if following is None else format_time(following).encode()
    added = [(names.SCHEDULER, schedule.subject), (names.SCHEDULE_NEXT, when)]
    if ttl := special.get(names.SCHEDULE_TTL):
        added.append((names.TTL, ttl))
    if rollup := special.get(names.SCHEDULE_ROLLUP):
        added.append((names.ROLLUP, rollup))
    dropped = [key for key, _ in blocks.pairs(origin.headers) if _is_dropped(key)]
    headers = blocks.append(blocks.strip(origin.headers, dropped), added)
    return Copy(schedule.subject, special[names.SCHEDULE_TARGET], headers, origin.payload)


def _is_dropped(key: bytes) -> bool:
    return key.startswith(_DROPPED) or key in _DROPPED_WHOLE


def _parse_next(value: bytes) -> int | None:
    try:
        return int(parse_time(value.decode("ascii", "replace")))
    except ValueError:
        return None
