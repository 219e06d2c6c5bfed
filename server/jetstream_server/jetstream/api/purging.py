"""A purge of some messages, a slice a turn, so that a large one holds nobody up.

What matched when it began is removed; what is published meanwhile stays. It is not a transaction:
readers see the stream shrink, and a crash leaves what was not reached. The request is answered when
all of it is done. Specification: docs/reference/streams.md#reading-and-removing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.workload import SUBJECTS_OF_UNIT
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.slices import Outcome
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.reads.look_ahead import look_ahead
from jetstream_server.jetstream.streams.removal.removal_checks import check_purge
from jetstream_server.structures.sequence_set import SequenceSet

SUBJECTS_AT_ONCE = 200_000  # compared with a filter in one turn
MESSAGES_AT_ONCE = 10_000  # looked at likewise, if they are in memory
MESSAGES_OF_UNIT = 50  # of the workload
# Messages that may go, times consumers that may have them delivered and not acknowledged.
TAKEN_AT_ONCE = 80_000
TAKEN_MIN = 500
_PAUSE_NS = MILLISECOND  # between two slices; also before another look at a disk that is behind


class Purging:
    """One purge of one stream. Runnable and Scheduled while it lasts.

    Args:
        stream: the stream.
        pattern: of the subjects; empty for all.
        below: only sequences below this one; 0 for all.
        keep: how many of the newest stay.

    Raises:
        ApiError: it is not allowed.
    """

    def __init__(self, stream: Stream, pattern: bytes, below: int, keep: int) -> None:
        check_purge(stream.config, stream.store)
        store = stream.store
        self._stream = stream
        self._wanted = store.filter([pattern]) if pattern else None
        self._keep = keep
        self._start = store.first_seq
        self._stop = min(below or store.last_seq + 1, store.last_seq + 1)
        # Where the stream goes on, if that is beyond its end.
        self._beyond = 0 if self._wanted is not None or keep or below <= self._stop else below
        self._ahead: Iterator[None] | None = None  # finds out what counting takes
        self._left: int | None = None  # how many go at most, once they are counted
        self._purged = 0
        self._finished: Callable[[Outcome], None] | None = None
        self._waits_since = 0  # the turn in which the next slice was put off first

    def begin(self, now: int) -> int | None:
        """Remove the first slice; return how many went if that was all, None if not."""
        state = self._stream.store.state()
        units = min(state.messages, MESSAGES_AT_ONCE) // MESSAGES_OF_UNIT
        if self._wanted is not None:
            units += state.num_subjects // SUBJECTS_OF_UNIT
        self._stream.context.workload.spend(units)
        return self._purged if self._remove(now) else None

    def go_on(self, finished: Callable[[Outcome], None]) -> None:
        """Remove the rest in later turns, then report that it is done."""
        self._finished = finished
        self._stream.context.wake(self)

    def give_up(self, incident: Incident, now: int) -> None:
        """End, and report it."""
        finished, self._finished = self._finished, None
        if finished is not None:
            finished(errors.STREAM_GENERAL_ERROR(str(incident)))

    def advance(self, now: int) -> None:
        """Have the next slice removed soon."""
        self._stream.context.deadlines.schedule(self, now + _PAUSE_NS)

    def tick(self, now: int) -> None:
        """Remove the next slice, when its turn has come."""
        assert self._finished is not None, "it was told whom to tell"
        workload = self._stream.context.workload
        self._waits_since = self._waits_since or workload.turn
        if not workload.takes_slice(self._waits_since):
            self._stream.context.deadlines.schedule(self, now)
            return
        self._waits_since = 0
        try:
            if self._stream.outage or self._stream.store.offline:  # or removed meanwhile
                raise errors.STREAM_GENERAL_ERROR("stream closed")
            is_done = self._remove(now)
        except ApiError as error:
            self._finished(error)
        except StoreError as error:
            self._finished(errors.STREAM_GENERAL_ERROR(error.reason))
        else:
            if is_done:
                self._finished({"success": True, "purged": self._purged})
            else:
                self.advance(now)

    def _count(self) -> bool:
        """Count what is to go; tell whether there is time left to remove some of it."""
        store, wanted = self._stream.store, self._wanted
        is_long = store.state().num_subjects > SUBJECTS_AT_ONCE
        if self._ahead is None:
            self._ahead = iter(() if wanted is None else look_ahead(store, wanted))
        for _ in self._ahead:
            return False
        self._left = store.count(wanted, 0) - self._keep
        return not is_long

    def _remove(self, now: int) -> bool:
        """Remove a slice; tell whether all is done."""
        store = self._stream.store
        if self._left is None and not self._count():
            return False
        assert self._left is not None, "they are counted"
        left, gone = self._left, SequenceSet.of(())
        if self._keep:  # limits may have removed some meanwhile
            left = min(left, store.count(self._wanted, 0) - self._keep)
        if left > 0 and self._start < self._stop:
            start, readers = self._start, len(self._stream.consumers)
            most = max(TAKEN_AT_ONCE // readers, TAKEN_MIN) if readers else self._stop
            stop = min(start + most, self._stop)
            self._start, (removed, gone) = store.purge_some(self._wanted, start, stop, left)
            self._purged += removed
            self._left -= removed
            # After each slice, because consumers look in between: what is gone must not be counted.
            is_only = removed == self._purged == 1 and self._left <= 0
            is_single = is_only and (self._wanted is not None or self._keep > 0)
            is_done = removed >= left or self._start >= self._stop
            if not is_done or not self._beyond:
                self._stream.removal.tell_purged(gone, now, is_single=is_single)
                return is_done
        if self._beyond:
            self._purged += store.truncate_front(self._beyond)
        self._stream.removal.tell_purged(gone, now)
        return True
