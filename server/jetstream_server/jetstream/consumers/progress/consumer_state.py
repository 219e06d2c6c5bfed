"""A consumer's progress as bytes: what its state file holds.

Little-endian. A header with the counters, then the last-per-subject snapshot, the delivery counts
and the runs of pending messages, all as plain arrays. A run whose sequences follow each other is
saved as its first one, and a run that is pending as a whole is saved without its flags, so that
100,000 pending messages are a few kilobytes and a save is a handful of slices.

Times are saved too: a restart neither shortens nor renews the wait for an ack. What came due
meanwhile goes out again at once.
"""

from __future__ import annotations

import struct
import sys
from array import array
from operator import lt
from struct import Struct
from typing import Any

from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.consumers.progress.pending_run import Run
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.kernels.record_format import Buffer

_MAGIC = b"JSC1"
# consumer_seq, stream_seq, next_seq, live_seq, floor_consumer_seq, floor_stream_seq; then the
# lengths of the snapshot, the delivery counts, the single deadlines, the queue and the runs.
_HEADER = Struct("<4sQQQQQQIIIII")
# first or only consumer sequence, first stream sequence, sent_at, length, flags
_RUN = Struct("<QQqIB")
_CONTIGUOUS = 1  # stream sequences follow each other
_NUMBERED = 2  # consumer sequences follow each other
_ALL_LIVE = 4  # nothing of the run is acknowledged
_EXPIRED = 8  # its messages have deadlines of their own, or are queued
_TIMED = 16  # they were not all sent at the same time

_JOINED_BYTES_MAX = 64 * 1024  # of what goes out again; more is not copied


def encode_state(progress: Progress) -> list[Buffer]:
    """Return the bytes from which `restore_state` makes the same progress: a few parts of what may
    be tens of megabytes, one of what is short. They do not change with the progress."""
    cursor = progress.cursor
    snapshot = cursor.snapshot
    redelivery = progress.redelivery
    columns: list[memoryview] = []
    if redelivery.counts or redelivery.deadlines or redelivery.queued:
        queue = redelivery.queued_sequences()
        of_each = (*redelivery.counts.columns(), *redelivery.deadlines.columns(), queue)
        columns = list(map(_bytes_of, of_each))
    runs = progress.pending.runs
    head: list[Buffer] = [
        _HEADER.pack(
            _MAGIC,
            progress.consumer_seq,
            progress.stream_seq,
            cursor.next_seq,
            cursor.live_seq,
            progress.floor_consumer_seq,
            progress.floor_stream_seq,
            len(snapshot),
            len(redelivery.counts),
            len(redelivery.deadlines),
            redelivery.queued,
            len(runs),
        )
    ]
    if snapshot:
        head.append(_bytes_of(snapshot))
    tail: list[Buffer] = []
    for run in runs:
        _encode_run(run, tail)
    if sum(map(len, columns)) > _JOINED_BYTES_MAX:
        return [b"".join(head), *columns, b"".join(tail)]
    return [b"".join([*head, *columns, *tail])]


def _encode_run(run: Run, parts: list[Buffer]) -> None:
    sequences, consumer_seqs = run.sequences, run.consumer_seqs
    count = len(sequences)
    flags = 0
    if sequences[-1] - sequences[0] + 1 == count:
        flags |= _CONTIGUOUS
    if isinstance(consumer_seqs, range):
        flags |= _NUMBERED
    if run.count == count:
        flags |= _ALL_LIVE
    if run.expired:
        flags |= _EXPIRED
    if run.times is not None:
        flags |= _TIMED
    parts.append(_RUN.pack(consumer_seqs[0], sequences[0], run.sent_at, count, flags))
    if not flags & _CONTIGUOUS:
        parts.append(_bytes_of(sequences))
    if not isinstance(consumer_seqs, range):
        parts.append(_bytes_of(consumer_seqs))
    if not flags & _ALL_LIVE:
        parts.append(bytes(run.live))
    if run.times is not None:
        parts.append(_bytes_of(run.times))


def restore_state(progress: Progress, data: bytes) -> None:
    """Bring a fresh progress to the saved one.

    Raises:
        StoreError: these are not the bytes of a saved state.
    """
    try:
        reader = _Reader(data)
        (
            magic,
            progress.consumer_seq,
            progress.stream_seq,
            next_seq,
            live_seq,
            progress.floor_consumer_seq,
            progress.floor_stream_seq,
            snapshot_count,
            counts_count,
            deadlines_count,
            queue_count,
            runs_count,
        ) = reader.unpack(_HEADER)
        if magic != _MAGIC:
            raise StoreError("consumer state is of an unknown format")
        progress.cursor.restore(next_seq, live_seq, reader.words(snapshot_count))
        keys, values = reader.words(counts_count), reader.words(counts_count)
        progress.redelivery.counts.assign(keys, values)
        keys, values = reader.words(deadlines_count), reader.words(deadlines_count)
        progress.redelivery.restore_deadlines(keys, values)
        progress.redelivery.queue(reader.words(queue_count))
        for _ in range(runs_count):
            progress.pending.restore_run(_read_run(reader, progress.stream_seq))
        progress.restored()
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise StoreError(f"consumer state is damaged: {error}") from error


def _read_run(reader: _Reader, stream_seq: int) -> Run:
    consumer_seq, sequence, sent_at, count, flags = reader.unpack(_RUN)
    if sequence + count - 1 > stream_seq:  # before gigabytes are taken for them
        raise ValueError(f"{count} messages from {sequence} on, of {stream_seq} in all")
    if flags & _CONTIGUOUS:
        sequences = array("Q", range(sequence, sequence + count))
    else:
        sequences = reader.words(count)
        if not all(map(lt, sequences, sequences[1:])):  # the kernels rely on it
            raise ValueError("sequences that do not rise")
    consumer_seqs: range | array[int]
    if flags & _NUMBERED:
        consumer_seqs = range(consumer_seq, consumer_seq + count)
    else:
        consumer_seqs = reader.words(count)
    live = None if flags & _ALL_LIVE else bytearray(reader.take(count))
    if live is not None and live.translate(None, b"\0\1"):
        raise ValueError("flags that are not 0 or 1")
    times = reader.words(count) if flags & _TIMED else None
    run = Run(sequences, consumer_seqs, sent_at, live, times)
    run.expired = bool(flags & _EXPIRED)
    return run


class _Reader:
    """Takes pieces off the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        stop = self._at + count
        if stop > len(self._data):
            raise ValueError(f"it ends at byte {len(self._data)} of at least {stop}")
        piece = self._data[self._at : stop]
        self._at = stop
        return piece

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def words(self, count: int) -> array[int]:
        words = array("Q", self.take(8 * count))
        if sys.byteorder == "big":
            words.byteswap()
        return words


def _bytes_of(words: array[int]) -> memoryview:
    if sys.byteorder == "big":
        words = words[:]
        words.byteswap()
    return memoryview(words).cast("B")
