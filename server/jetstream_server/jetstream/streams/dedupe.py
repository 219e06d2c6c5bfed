"""Which message ids a stream has seen within its duplicate window.

Ids are the values of `Nats-Msg-Id`. They are dropped by a timer, the oldest first; a duplicate does
not prolong the life of an id. What is known is not stored anywhere: after a restart it is rebuilt
from the headers of stored messages. Specification: docs/reference/publishing.md#duplicates.

Writers that want each message exactly once put an id on every one, so ids are handled a stretch at
a time, as positions in a chunk: the kernel `message_ids` finds them, the kernel `seen_ids` holds
them, and of long ones a digest. This class says how long.

Invariant: the counts of `_spells` add up to what is held; they are in order of time.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.jetstream.streams.messages.scan import windows_with_headers
from jetstream_server.kernels.message_ids import recorded_ids
from jetstream_server.kernels.record_format import PREFIX
from jetstream_server.kernels.seen_ids import SeenIds
from jetstream_server.store.ports import MessageStore, Window

# Ids recorded within a spell leave together. Nobody notices 10 ms in 2 min; and however long the
# window, it has a few thousand spells at most.
_SPELL_NS = 10 * MILLISECOND
_SPELLS_MAX = 8192


@dataclass(slots=True)
class _Spell:
    first: int
    last: int
    count: int


class Dedupe:
    """Ids seen, with the sequence each message got.

    Attributes:
        window_ns: how long an id is remembered; 0 remembers nothing.
    """

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._seen = SeenIds()
        self._spells: deque[_Spell] = deque()

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, message_id: bytes) -> int | None:
        """Return the sequence of an id seen before, None when it is new."""
        return self._seen.find(message_id)

    def take(self, chunk: bytes, spans: array[int], start: int) -> int:
        """Return the end of the stretch of new ids from number `start`; a repeated one ends it.

        If there are any, `keep` or `drop` says what became of their messages.
        """
        if self.window_ns <= 0:
            return len(spans) // 2
        return self._seen.take(chunk, spans, start)

    def keep(self, first_seq: int, now: int) -> None:
        """Remember the ids that were taken: their messages have consecutive sequences."""
        before = len(self._seen)
        self._seen.keep(first_seq)
        self._count(len(self._seen) - before, now, now)

    def _count(self, count: int, first: int, last: int) -> None:
        """Have ids that came from `first` to `last` forgotten together."""
        if not count:
            return
        newest = self._spells[-1] if self._spells else None
        if newest is not None and first - newest.first < self._spell_ns:
            newest.last = max(newest.last, last)
            newest.count += count
        else:
            self._spells.append(_Spell(first, last, count))

    def drop(self) -> None:
        """Forget the ids that were taken: their messages were not stored."""
        self._seen.drop()

    def sequences(self, chunk: bytes, spans: array[int], start: int) -> array[int]:
        """Return the sequences of the stretch of known ids from number `start`."""
        return self._seen.sequences(chunk, spans, start)

    def record(self, message_id: bytes, sequence: int, now: int) -> None:
        """Remember one id; one that is known keeps its sequence."""
        self.take(message_id, array("i", (0, len(message_id))), 0)
        self.keep(sequence, now)

    def recover(self, store: MessageStore, now: int) -> None:
        """Read the ids of the stored messages that are within the window."""
        if self.window_ns <= 0:
            return
        # What is as old as the window is forgotten, and its id may have come again since.
        start = store.sequence_at(now - self.window_ns + 1)
        for window in windows_with_headers(store, start):
            self._recover_window(window)

    def _recover_window(self, window: Window) -> None:
        """Read ids a spell at a time: messages of the same time are forgotten together."""
        start, stop = 0, len(window)
        while start < stop:
            _, _, _, timestamp, *_ = PREFIX.unpack_from(window.buffer, window.positions[start])
            first = timestamp
            if self._spells and timestamp - self._spells[-1].first < self._spell_ns:
                first = self._spells[-1].first
            texts, spans, sequences, start, last = recorded_ids(
                window.buffer, window.positions, start, first + self._spell_ns
            )
            before = len(self._seen)
            self._seen.restore(texts, spans, sequences)
            self._count(len(self._seen) - before, timestamp, last)

    def expire(self, now: int) -> None:
        """Forget the ids whose window is over."""
        while self._spells and self._spells[0].last + self.window_ns <= now:
            self._seen.forget(self._spells.popleft().count)

    def next_deadline(self) -> int | None:
        """Return when the next ids are to be forgotten."""
        return self._spells[0].last + self.window_ns if self._spells else None

    @property
    def _spell_ns(self) -> int:
        return max(_SPELL_NS, self.window_ns // _SPELLS_MAX)
