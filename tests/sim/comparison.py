"""A server that has just started, beside what is known of the one before it.

What was seen is there; what is there was stored, byte for byte; and of what nobody has seen the
store kept what came first. Batches are whole, what was removed stays away, consumers remember what
was acknowledged.
"""

from __future__ import annotations

from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.messages.scan import messages

from tests.sim.explanation import is_explained
from tests.sim.life import Life, require
from tests.sim.provenance import batch_of
from tests.sim.witness import Catalogs, Witness, find_stream


def compare(witness: Witness, catalogs: Catalogs, now: int) -> None:
    """Complain of what a start has lost, or found where nothing was."""
    for life in witness.lives:
        stream = find_stream(catalogs, life)
        if life.is_gone:
            require(stream is None, "stream", life.name, life.token, "came back")
        if stream is None:
            _check_lost(catalogs, life)
        else:
            _compare_stream(life, stream, now)
            _compare_readers(life, stream)
        for reader in life.readers.values():
            reader.forget_deliveries()
    for life in witness.lives:
        _compare_copies(life, find_stream(catalogs, life))


def _check_lost(catalogs: Catalogs, life: Life) -> None:
    if life.is_memory:
        life.is_gone = True
        return
    offline = catalogs[life.account].offline.get(life.name)
    require(
        life.is_leaving or not life.is_made,
        "stream", life.name, "is lost:", offline.reason if offline else "not there",
    )  # fmt: skip
    if not life.is_made:
        life.journal.clear()


def _compare_stream(life: Life, stream: Stream, now: int) -> None:
    store = stream.store
    require(not store.offline, life.name, "is offline after a start:", store.offline)
    last = store.last_seq
    require(max(life.seen, default=0) <= last, life.name, "took sequences back, last", last)
    found: set[int] = set()
    for message in messages(store, None, store.first_seq, 1 << 30, 1 << 23):
        found.add(message.sequence)
        entry = life.journal.get(message.sequence)
        content = (message.subject, message.headers, message.payload, message.timestamp)
        require(
            entry is not None and entry.content == content,
            life.name, message.sequence, "recovered as something else", entry, message,
        )  # fmt: skip
    lost = _check_batches(life, found, last, now)
    for sequence in sorted((life.journal.keys() & life.live) - found - lost):
        if sequence <= last and sequence not in life.explained:
            require(
                is_explained(life, sequence, last, now),
                life.name, sequence, "was stored before", last, "and is lost",
                "although seen" if sequence in life.seen else "",
            )  # fmt: skip
    back = sorted(found & life.gone)
    require(not back, life.name, "removed messages came back:", back)
    for sequence in [sequence for sequence in life.journal if sequence > last]:
        del life.journal[sequence]
    for sequence in lost:
        life.journal.pop(sequence, None)
        life.explained.add(sequence)


def _check_batches(life: Life, found: set[int], last: int, now: int) -> set[int]:
    """Property 9; return the members of batches that a crash cut short."""
    lost: set[int] = set()
    batches: dict[bytes, list[int]] = {}
    for sequence in sorted(life.journal):
        if sequence in (life.archive or ()):
            continue  # an archive has what is left of a batch
        if batch := batch_of(life.journal[sequence].headers):
            batches.setdefault(batch, []).append(sequence)
    for batch, members in batches.items():
        is_last = b"Nats-Batch-Commit" in life.journal[members[-1]].fields
        if members[-1] <= last and is_last:
            continue
        kept = found.intersection(members)
        require(not kept, life.name, "batch", batch, members, "is there in part:", kept)
        lost.update(member for member in members if member <= last)
    return lost


def _compare_readers(life: Life, stream: Stream) -> None:
    """Property 4, across a crash."""
    for reader in life.readers.values():
        consumer = stream.consumers.get(reader.name)
        where = (life.name, reader.name)
        if reader.is_gone:
            require(consumer is None, *where, "came back")
        if not isinstance(consumer, Consumer):
            if reader.config.get("mem_storage") or life.is_memory:
                reader.is_gone = True
                continue
            require(reader.is_leaving or not reader.made_at, *where, "is lost")
            continue
        progress = consumer.progress
        # Later on a purge by subject may leave some, until their ack wait has passed.
        lost = [at for at, _ in progress.pending if stream.store.load(at) is None]
        require(not lost, *where, "pending but removed:", lost)
        if reader.resets:
            continue
        for sequence in reader.answered:
            require(sequence not in progress.pending, *where, sequence, "is pending again")
            require(
                progress.cursor.has_passed(sequence) or stream.store.load(sequence) is None,
                *where, sequence, "comes again",
            )  # fmt: skip


def _compare_copies(life: Life, stream: Stream | None) -> None:
    """What was copied is still at its origin: no copy was made of what could be lost."""
    if stream is None or not life.copies:
        return
    for sequence, entry in life.journal.items():
        if entry.origin is not None:
            origin, at = entry.origin
            if origin.is_usable and not origin.is_memory:
                known = origin.journal.get(at)
                require(
                    known is not None and known.payload == entry.payload,
                    life.name, sequence, "copies what", origin.name, at, "has lost:", known,
                )  # fmt: skip
