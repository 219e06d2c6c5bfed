"""A batch that may be stored goes in as one run, so that a crash leaves all of it or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.jetstream.streams import retention
from jetstream_server.jetstream.streams.candidate import Candidate
from jetstream_server.protocol.ops import PubRun

if TYPE_CHECKING:
    from jetstream_server.jetstream.streams.stream import Stream


def store_batch(stream: Stream, batch: list[Candidate], now: int) -> int:
    """Store a batch that passed, as one run; return the sequence of its last message."""
    run = PubRun.of((each.subject, b"", each.headers, each.payload) for each in batch)
    latest: dict[bytes, int] = {}
    if stream.republishes:
        latest = {each.subject: stream.store.subject_last(each.subject) for each in batch}
    return _put_batch(stream, batch, run, latest, now)


def _put_batch(
    stream: Stream, batch: list[Candidate], run: PubRun, latest: dict[bytes, int], now: int
) -> int:
    """Store it; from here on the stream changes."""
    first = stream.store.append_run(run, 0, len(batch), now)
    last = first + len(batch) - 1
    unwanted: list[int] = []
    for sequence, message in enumerate(batch, first):
        if stream.config.retention == "interest" and not retention.is_wanted(
            stream.consumers, message.subject
        ):
            unwanted.append(sequence)
            stream.remember_id(message, sequence, now)
            continue
        stream.note_stored(message, sequence, latest.get(message.subject, 0), now)
        latest[message.subject] = sequence
    # Stored all the same, so that recovery sees whole batches (`atomic_batch.py`).
    if unwanted:
        stream.store.delete(unwanted)
    stream.after_storing(first, last, now)
    for sequence, message in enumerate(batch, first):
        stream.purge_outdated(message, sequence, now)
    return last
