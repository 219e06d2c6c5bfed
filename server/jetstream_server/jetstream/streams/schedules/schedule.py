"""Message schedules: a stored message that makes the stream store other messages later.

A schedule is the newest message of its subject when that carries `Nats-Schedule`: a time (`@at`), a
period (`@every`), or a cron pattern. When it comes up, the stream stores a copy on the target
subject, with the body of the schedule or of the newest message of a source subject. A copy that
says `Nats-Schedule-Next: purge` ends its schedule; so does a message of any client that says the
same.

What comes up, and when, is kept in memory and rebuilt from the stored headers. The newest copy of a
schedule tells when it was to come up next, so what fell into a time when the server was down is
made up for, once. Specification: docs/reference/publishing.md#schedules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.publish_headers import special_headers
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.jetstream.streams.schedules.schedule_timing import Timing, timing_of
from jetstream_server.jetstream.wire.go_time import format_time, parse_time
from jetstream_server.kernels.parts import PartedNames
from jetstream_server.protocol import headers as blocks
from jetstream_server.store.ports import MessageStore, StoredMessage
from jetstream_server.structures.deadline_heap import DeadlineHeap

PURGE = b"purge"
FIRED_AT_ONCE = 40  # schedules, in some 8 ms
FIRED_BYTES_AT_ONCE = 512 * 1024  # that are weighed, and one copy more
FIRED_BYTES_OF_UNIT = 8192  # of the workload, on top of one for each copy
_HEADER_WEIGHT = 8  # of a byte: lines are looked at one by one
# What a copy does not take over. The batch id because the copy is in no batch: a store must not
# seem to end in the middle of one (`atomic_batch.py`). The genuine server keeps that one.
_DROPPED = (b"Nats-Schedule", b"Nats-Expected-")
_DROPPED_WHOLE = frozenset((names.MESSAGE_ID, names.TTL, names.ROLLUP, names.BATCH_ID))


class Schedules:
    """The schedules of one stream.

    A schedule that fails in a way that nobody foresaw is left out; the others go on.
    """

    def __init__(self, containment: Containment = UNCONTAINED) -> None:
        self._containment = containment
        self._due: DeadlineHeap[bytes] = DeadlineHeap()
        # Of those that come up again and again, so that their patterns are not read each time.
        self._repeated: PartedNames[Timing] = PartedNames()
        self._subjects: PartedNames[bool] = PartedNames()  # on which a schedule is stored

    def recover(self, store: MessageStore, now: int) -> None:
        """Find the schedules that are stored, and when each was to come up next; a message that
        trips this is left out."""
        planned: dict[bytes, int] = {}
        found: dict[bytes, tuple[int, dict[bytes, bytes]]] = {}
        for sequence, timestamp, subject, block in stored(store, store.first_seq, names.SCHEDULE):
            if names.SCHEDULE not in block:
                continue
            try:
                special = special_headers(block)
                following = _parse_next(special.get(names.SCHEDULE_NEXT, b""))
            except Exception as error:
                self._containment.contain(error, now)
                continue
            if names.SCHEDULE in special and store.subject_last(subject) == sequence:
                found[subject] = timestamp, special
            if names.SCHEDULER in special and following is not None:
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
        timing = timing_of(special)
        if timing is None:
            return
        # A planned time that is not later than the message is from an earlier schedule there, or
        # from none.
        self._begin(subject, timing, now, planned if planned > timestamp else None)

    def noted(self, subject: bytes, special: dict[bytes, bytes], now: int) -> None:
        """A message was stored: begin its schedule, or end the one that it replaces."""
        if names.SCHEDULE in special:
            timing = timing_of(special)
            assert timing is not None, special
            self._begin(subject, timing, now)
        elif subject in self._subjects:
            self._plan(subject, None)

    def are_among(self, subjects: Iterable[bytes]) -> bool:
        """Tell whether a schedule is stored on one of some subjects."""
        return any(map(self._subjects.__contains__, subjects))

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

    def next_deadline(self) -> int | None:
        """Return when the next schedule comes up."""
        return self._due.next_deadline()

    def pop_due(self, store: MessageStore, now: int) -> list[Copy]:
        """Return what is to be stored by now, or some of it when that is much: then the next
        deadline has passed as well. Repeated schedules are set for their next time."""
        copies: list[Copy] = []
        weight = 0
        for _ in range(FIRED_AT_ONCE):
            due = self._due.pop_due(now, 1) if weight < FIRED_BYTES_AT_ONCE else []
            if not due:
                break
            (subject,) = due
            try:
                copy = self._pop(store, subject, now)
            except StoreError:
                self._plan(subject, now)
                self.postpone(copies, now)
                raise
            except Exception as error:
                self._containment.contain(error, now)
                self._plan(subject, None)
                continue
            if copy is not None:
                copies.append(copy)
                weight += copy.weight
        return copies

    def _pop(self, store: MessageStore, subject: bytes, now: int) -> Copy | None:
        newest = store.load(store.subject_last(subject))
        special = special_headers(newest.headers) if newest is not None else {}
        if newest is None or names.SCHEDULE not in special:  # gone, by a limit or a purge
            self._plan(subject, None)
            return None
        timing = self._repeated.get(subject)
        following = timing.next_after(now) if timing is not None else None
        self._plan(subject, following)
        return _copy(store, newest, special, following)

    def _begin(self, subject: bytes, timing: Timing, now: int, planned: int | None = None) -> None:
        if timing.at is not None:
            _discard(self._repeated, subject)
            self._plan(subject, timing.at)
        else:
            self._repeated[subject] = timing
            self._plan(subject, planned if planned is not None else timing.next_after(now))

    def _plan(self, subject: bytes, due: int | None) -> None:
        if due is None:
            _discard(self._repeated, subject)
            _discard(self._subjects, subject)
            self._due.cancel(subject)
        else:
            self._subjects[subject] = True
            self._due.schedule(subject, due)


def _discard(held: PartedNames[Any], subject: bytes) -> None:
    if subject in held:
        del held[subject]


class Copy(NamedTuple):
    """What a schedule has the stream store.

    Attributes:
        scheduler: the schedule's subject.
        target: where it is stored.
        headers, payload: of the copy.
        weight: bytes that were read for it, those of headers several times.
    """

    scheduler: bytes
    target: bytes
    headers: bytes
    payload: bytes
    weight: int


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
    headers = blocks.append(blocks.strip(origin.headers, _DROPPED_WHOLE, _DROPPED), added)
    weight = _weight(schedule) if origin is schedule else _weight(schedule) + _weight(origin)
    return Copy(schedule.subject, special[names.SCHEDULE_TARGET], headers, origin.payload, weight)


def _weight(message: StoredMessage) -> int:
    return len(message.headers) * _HEADER_WEIGHT + len(message.payload)


def _parse_next(value: bytes) -> int | None:
    try:
        return int(parse_time(value.decode("ascii", "replace")))
    except ValueError:
        return None
