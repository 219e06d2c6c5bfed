"""Every stream and consumer looked at from inside: properties 1, 5 and 6."""

from __future__ import annotations

from typing import Any

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.jetstream.streams.removal.limits import stored_bytes
from jetstream_server.store.file import FileStore
from jetstream_server.store.ports import MessageStore, StoreState

from tests.sim.explanation import is_explained
from tests.sim.life import Life, require
from tests.sim.witness import Catalogs, Witness, find_stream

_LATE_NS = 2 * SECOND
_SLICE_PAUSE_NS = 2 * MILLISECOND  # lowered limits are enforced in slices


def audit(witness: Witness, catalogs: Catalogs, now: int) -> None:
    """Complain of counters that do not fit, and of what is gone without a reason."""
    for life in witness.lives:
        stream = find_stream(catalogs, life)
        if stream is None or stream.store.offline:
            continue
        live = _check_counters(life, stream, now)
        last = stream.store.last_seq
        for sequence in (life.seen.keys() | life.journal.keys()) - live.keys() - life.explained:
            require(
                is_explained(life, sequence, last, now),
                life.name, sequence, "was stored and is gone without a reason",
                life.journal.get(sequence),
            )  # fmt: skip
            life.explained.add(sequence)
        for consumer in stream.consumers.values():
            if isinstance(consumer, Consumer):
                reader = life.readers.get(consumer.name)
                was_updated = reader is None or len(reader.configs) > 1
                _check_consumer(consumer, live, was_updated)


def _check_counters(life: Life, stream: Stream, now: int) -> dict[int, bytes]:
    store, config = stream.store, stream.config
    live = {s: subject for s, _, subject, _ in stored(store, store.first_seq)}
    state = store.state()
    where = (life.name, state)
    unknown = live.keys() - life.journal.keys()
    require(not unknown, *where, "holds what was never stored", unknown)
    require(state.messages == len(live), *where, "counts other than", len(live))
    if live:
        require(state.first_seq == min(live), *where, "first is", min(live))
        require(state.last_seq >= max(live), *where, "last is", max(live))
    require(state.num_subjects == len(set(live.values())), *where, "subjects")
    size = sum(
        stored_bytes(config.storage, entry.subject, entry.headers, entry.payload)
        for entry in (life.journal[sequence] for sequence in live)
    )
    require(state.bytes == size, *where, "bytes, not", size)
    is_enforced = config.discard == "old" or len(life.configs) == 1
    is_behind = stream.removal.trimming.is_behind and stream._alarm.at <= now + _SLICE_PAUSE_NS
    if is_enforced and not is_behind and not _waits_for_disk(store):
        _check_limits(where, config, state, live)
    return live


def _waits_for_disk(store: MessageStore) -> bool:
    """Tell whether a block that was rewritten has not reached the disk: lower limits go on being
    enforced when it has."""
    return isinstance(store, FileStore) and store._compaction.is_rewriting()


def _check_limits(
    where: tuple[Any, ...], config: StreamConfig, state: StoreState, live: dict[int, bytes]
) -> None:
    """Limits hold; with `discard: new` lowering one removes nothing (as in NATS)."""
    if config.max_msgs > 0:
        require(state.messages <= config.max_msgs, *where, "more than max_msgs")
    if config.max_bytes > 0:
        require(state.bytes <= config.max_bytes, *where, "more than max_bytes")
    if config.max_msgs_per_subject > 0:
        held: dict[bytes, int] = {}
        for subject in live.values():
            held[subject] = held.get(subject, 0) + 1
        most = max(held.values(), default=0)
        require(most <= config.max_msgs_per_subject, *where, "more than allowed per subject")


def check_ages(witness: Witness, catalogs: Catalogs, now: int) -> None:
    """Complain of what should have ended, of a server that had the time to see to it."""
    for life in witness.lives:
        stream = find_stream(catalogs, life)
        if stream is None or stream.store.offline:
            continue
        config, store = stream.config, stream.store
        for sequence, timestamp, subject, _ in stored(store, store.first_seq):
            entry = life.journal[sequence]
            where = (life.name, sequence, subject)
            if config.max_age > 0 and not (config.allow_msg_ttl and entry.is_lasting):
                require(now < timestamp + config.max_age + _LATE_NS, *where, "is too old")
            if config.allow_msg_ttl and entry.ttl_ns:
                require(now < timestamp + entry.ttl_ns + _LATE_NS, *where, "outlives its TTL")
            due = entry.fields.get(b"Due") if b"Nats-Schedule" in entry.fields else None
            if due and config.allow_msg_schedules and store.subject_last(subject) == sequence:
                since = max(int(due), timestamp)  # it may be stored long after it is due
                require(now < since + _LATE_NS, *where, "has not fired")


def _check_consumer(consumer: Consumer, live: dict[int, bytes], was_updated: bool) -> None:
    """Property 6 for one consumer."""
    progress = consumer.progress
    cursor = progress.cursor
    where = (consumer.stream.name, consumer.name)
    pending = [sequence for sequence, _ in progress.pending]
    require(len(pending) == len(progress.pending), *where, "pending count")
    require(pending == sorted(set(pending)), *where, "pending out of order")
    low = [sequence for sequence in pending if sequence <= progress.floor_stream_seq]
    require(not low, *where, "pending below the floor", progress.floor_stream_seq, low)
    limit = consumer.config.max_ack_pending
    is_bounded = limit > 0 and not was_updated
    require(not is_bounded or len(pending) <= limit, *where, "more pending than", limit)
    wanted = {subject for subject in set(live.values()) if cursor.wants(subject)}
    left = sum(
        1
        for sequence, subject in live.items()
        if (subject in wanted or sequence in cursor.snapshot) and not cursor.has_passed(sequence)
    )
    require(cursor.num_pending() == left, *where, "num_pending", cursor.num_pending(), "not", left)
    require(progress.floor_stream_seq <= progress.stream_seq, *where, "floor above delivered")
    require(progress.floor_consumer_seq <= progress.consumer_seq, *where, "floor above delivered")
