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

from typing import NamedTuple

from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.publish_headers import special_headers
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.jetstream.streams.schedules.schedule_timing import timing_of
from jetstream_server.jetstream.wire.go_time import format_time, parse_time
from jetstream_server.protocol import headers as blocks
from jetstream_server.store.ports import MessageStore, StoredMessage
from jetstream_server.structures.deadline_heap import DeadlineHeap

PURGE = b"purge"
FIRED_AT_ONCE = 40  # schedules, in some 8 ms
# What a copy does not take over. The batch id because the copy is in no batch: a store must not
# seem to end in the middle of one (`atomic_batch.py`). The genuine server keeps that one.
_DROPPED = (b"Nats-Schedule", b"Nats-Expected-")
_DROPPED_WHOLE = (names.MESSAGE_ID, names.TTL, names.ROLLUP, names.BATCH_ID)


class Schedules:
    """The schedules of one stream.

    A schedule that fails in a way that nobody foresaw is left out; the others go on.

    Attributes:
        subjects: on which a schedule is stored.
    """

    def __init__(self, containment: Containment = UNCONTAINED) -> None:
        self._containment = containment
        self._due: DeadlineHeap[bytes] = DeadlineHeap()
        self.subjects: set[bytes] = set()

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
        due = timing.at
        if due is None:
            # A planned time that is not later than the message is from an earlier schedule there,
            # or from none.
            due = planned if planned > timestamp else timing.next_after(now)
        self._plan(subject, due)

    def noted(self, subject: bytes, special: dict[bytes, bytes], now: int) -> None:
        """A message was stored: begin its schedule, or end the one that it replaces."""
        if names.SCHEDULE in special:
            timing = timing_of(special)
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

    def next_deadline(self) -> int | None:
        """Return when the next schedule comes up."""
        return self._due.next_deadline()

    def pop_due(self, store: MessageStore, now: int) -> list[Copy]:
        """Return what is to be stored by now, or some of it when that is much: then the next
        deadline has passed as well. Repeated schedules are set for their next time."""
        copies = []
        for subject in self._due.pop_due(now, FIRED_AT_ONCE):
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
        timing = timing_of(special)
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
