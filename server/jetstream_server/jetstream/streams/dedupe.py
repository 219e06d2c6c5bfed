"""Which message ids a stream has seen within its duplicate window.

Ids are the values of `Nats-Msg-Id`. They are dropped by a timer, the oldest first; a duplicate does
not prolong the life of an id. What is known is not stored anywhere: after a restart it is rebuilt
from the headers of stored messages. Specification: jetstream.md 5.5, checked-api-streams.md 5.4.

Writers that want each message exactly once put an id on every one, so ids are handled a stretch at
a time: the kernel `message_ids` reads them out of a run, `Dedupe.fresh` and `Dedupe.record` take
them whole.

Invariant: every key of `_sequences` is in exactly one of `_batches`, which are in order of time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.jetstream.streams import publish_headers as names
from jetstream_server.jetstream.streams.publish_headers import special_headers
from jetstream_server.jetstream.streams.scan import stored
from jetstream_server.store.ports import MessageStore

# Ids recorded within this time leave together: fewer batches, and nobody notices 10 ms in 2 min.
_BATCH_NS = 10 * MILLISECOND


@dataclass(slots=True)
class _Batch:
    first: int
    last: int
    ids: list[bytes]


class Dedupe:
    """Ids seen, with the sequence each message got.

    Attributes:
        window_ns: how long an id is remembered; 0 remembers nothing.
    """

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._sequences: dict[bytes, int] = {}
        self._batches: deque[_Batch] = deque()

    def __len__(self) -> int:
        return len(self._sequences)

    def find(self, message_id: bytes) -> int | None:
        """Return the sequence of an id seen before, None when it is new."""
        return self._sequences.get(message_id)

    def fresh(self, ids: list[bytes], start: int) -> int:
        """Return the end of the stretch of new ids from `start`; an id repeated there ends it."""
        known = self._sequences
        if not start:
            distinct = set(ids)
            if len(distinct) == len(ids) and known.keys().isdisjoint(distinct):
                return len(ids)
        met: set[bytes] = set()
        for index in range(start, len(ids)):
            value = ids[index]
            if value in known or value in met:
                return index
            met.add(value)
        return len(ids)

    def seen(self, ids: list[bytes], start: int) -> list[int]:
        """Return the sequences of the stretch of known ids from `start`."""
        look_up = self._sequences.get
        sequences: list[int] = []
        for index in range(start, len(ids)):
            sequence = look_up(ids[index])
            if sequence is None:
                break
            sequences.append(sequence)
        return sequences

    def record(self, ids: list[bytes], first_seq: int, now: int) -> None:
        """Remember new ids, stored with consecutive sequences."""
        if self.window_ns <= 0 or not ids:
            return
        self._sequences.update(zip(ids, range(first_seq, first_seq + len(ids)), strict=True))
        newest = self._batches[-1] if self._batches else None
        if newest is not None and now - newest.first < _BATCH_NS:
            newest.last = now
            newest.ids += ids
        else:
            self._batches.append(_Batch(now, now, list(ids)))

    def recover(self, store: MessageStore, now: int) -> None:
        """Read the ids of the stored messages that are within the window."""
        if self.window_ns <= 0:
            return
        since = store.sequence_at(now - self.window_ns)
        for sequence, timestamp, _, headers in stored(store, since, names.MESSAGE_ID):
            if names.MESSAGE_ID in headers:
                message_id = special_headers(headers).get(names.MESSAGE_ID)
                if message_id and self.find(message_id) is None:
                    self.record([message_id], sequence, timestamp)

    def expire(self, now: int) -> None:
        """Forget the ids whose window is over."""
        while self._batches and self._batches[0].last + self.window_ns <= now:
            forget = self._sequences.__delitem__
            for value in self._batches.popleft().ids:
                forget(value)

    def next_deadline(self) -> int | None:
        """Return when the next ids are to be forgotten."""
        return self._batches[0].last + self.window_ns if self._batches else None
