"""Which message ids a stream has seen within its duplicate window.

Ids are the values of `Nats-Msg-Id`. They are dropped by a timer, the oldest first; a duplicate does
not prolong the life of an id. What is known is not stored anywhere: after a restart it is rebuilt
from the headers of stored messages. Specification: jetstream.md 5.5, checked-api-streams.md 5.4.

Writers that want each message exactly once put an id on every one, so ids are handled a stretch at
a time: `lone_ids` and `plain_ids` read them out of a run, `Dedupe.fresh` and `Dedupe.record` take
them whole.

Invariant: every key of `_sequences` is in exactly one of `_batches`, which are in order of time.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from itertools import repeat

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.protocol.ops import HEADER_START, PAYLOAD_START, STRIDE

# A lone id header is what every client library writes, and all that most writers send.
_LONE_HEAD = b"NATS/1.0\r\nNats-Msg-Id: "
_LONE_HEAD_BYTES = len(_LONE_HEAD)
_BLOCK_END = b"\r\n\r\n"
_ID_LINE = b"\r\nNats-Msg-Id:"
_SPECIAL_LINE = b"\r\nNats-"

# Ids recorded within this time leave together: fewer batches, and nobody notices 10 ms in 2 min.
_BATCH_NS = 10 * MILLISECOND


def lone_ids(chunk: bytes, fields: array[int], start: int, stop: int) -> list[bytes] | None:
    """Return the ids of all messages when each has just an id header, else None."""
    first, end = start * STRIDE, stop * STRIDE
    begins = fields[first + HEADER_START : end : STRIDE]
    stops = fields[first + PAYLOAD_START : end : STRIDE]
    head, head_bytes = _LONE_HEAD, _LONE_HEAD_BYTES
    # Plain slices: a block without headers, or shorter than the head, gives an empty id.
    ids = [chunk[a + head_bytes : b - 4] for a, b in zip(begins, stops, strict=True)]
    joined = b"\n".join(ids)
    if (
        joined.count(b"\n") != len(ids) - 1
        or b"\r" in joined
        or not all(ids)
        or joined.startswith(b" ")
        or b"\n " in joined
        or not all(map(chunk.startswith, repeat(head), begins))
        or not all(map(chunk.endswith, repeat(_BLOCK_END), repeat(0), stops))
    ):
        return None
    return ids


def plain_ids(chunk: bytes, fields: array[int], start: int, stop: int) -> list[bytes]:
    """Return the ids of the longest stretch from `start` whose only special header is an id.

    An empty list says that message `start` has other special headers, or no id.
    """
    ids: list[bytes] = []
    for index in range(start, stop):
        at = index * STRIDE
        value = _plain_id(chunk, fields[at + HEADER_START], fields[at + PAYLOAD_START])
        if not value:
            break
        ids.append(value)
    return ids


def _plain_id(chunk: bytes, start: int, stop: int) -> bytes:
    """Return the id of a block without other special headers, empty when it is not like that."""
    if not chunk.startswith(b"NATS/1.0\r\n", start, stop):
        return b""
    at = chunk.find(_SPECIAL_LINE, start, stop)
    if at < 0 or not chunk.startswith(_ID_LINE, at, stop):
        return b""
    if chunk.find(_SPECIAL_LINE, at + 2, stop) >= 0:
        return b""
    value_stop = chunk.find(b"\r\n", at + 2, stop)
    return chunk[at + len(_ID_LINE) : value_stop].lstrip(b" ") if value_stop > 0 else b""


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

    def expire(self, now: int) -> None:
        """Forget the ids whose window is over."""
        while self._batches and self._batches[0].last + self.window_ns <= now:
            forget = self._sequences.__delitem__
            for value in self._batches.popleft().ids:
                forget(value)

    def next_deadline(self) -> int | None:
        """Return when the next ids are to be forgotten."""
        return self._batches[0].last + self.window_ns if self._batches else None
