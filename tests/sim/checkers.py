"""What must be true of a server, seen from outside and checked from inside.

`Witness` hears what clients ask (before it reaches the server), what the server stores, and what it
says (when it is written: from then on somebody may have seen it). After a crash, and now and then
between, the server is compared with that. Properties, by number:

1. what was seen is found at its sequence with its bytes, unless something removed it;
2. a sequence never names two messages, and what was seen is never taken back;
3. a message id is not stored twice within its window, crashes included;
4. an answered ack is not undone; nobody gets a message more often than `max_deliver`;
5. a work queue keeps what is not acknowledged;
6. counters agree with what is stored;
7. everything written is protocol (`network.py`);
8. what left the server survives a crash at any point (follows from 1, 2 and 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from jetstream_server.base.clock import SECOND
from jetstream_server.core.subject import matches
from jetstream_server.jetstream.catalog import Catalog
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.streams.limits import stored_bytes
from jetstream_server.jetstream.streams.publish_headers import header, storable
from jetstream_server.jetstream.streams.scan import messages, stored
from jetstream_server.jetstream.streams.stream import Stream

from tests.sim.network import Frame

_EXPIRY_SLACK_NS = SECOND


class BrokenError(AssertionError):
    """A property does not hold."""


def require(truth: object, *what: object) -> None:
    """Raise BrokenError unless it is true."""
    if not truth:
        raise BrokenError(" ".join(str(part) for part in what))


@dataclass(slots=True)
class Published:
    """A message as a client made it; `uid` begins the payload."""

    uid: int
    subject: bytes
    headers: bytes
    payload: bytes

    @property
    def message_id(self) -> bytes:
        """Return its id, empty for none."""
        return header(self.headers, b"Nats-Msg-Id") if self.headers else b""


@dataclass(slots=True)
class Stored:
    """A message as the server stored it; `life` is which start of the server did."""

    uid: int
    subject: bytes
    headers: bytes
    payload: bytes
    timestamp: int
    life: int


@dataclass
class Reader:
    """A consumer, as its clients know it."""

    name: str
    config: dict[str, Any]
    made_at: int = 0
    is_leaving: bool = False  # somebody asked for its deletion, or that of its stream
    is_gone: bool = False
    acks: set[int] = field(default_factory=set)  # sent, answered or not; terminations too
    answered: dict[int, int] = field(default_factory=dict)  # and when it was said
    deliveries: dict[int, set[int]] = field(default_factory=dict)  # since the last start
    places: dict[int, int] = field(default_factory=dict)  # consumer to stream sequence

    @property
    def policy(self) -> str:
        """Return the ack policy."""
        return str(self.config["ack_policy"])

    @property
    def patterns(self) -> list[bytes]:
        """Return the filter."""
        return [subject.encode() for subject in self.config.get("filter_subjects", [])]

    def wants(self, subject: bytes) -> bool:
        """Tell whether the filter matches."""
        patterns = self.patterns
        return not patterns or any(matches(pattern, subject) for pattern in patterns)

    def has_sent_ack(self, sequence: int) -> bool:
        """Tell whether a client may have acknowledged a message."""
        if self.policy == "all":
            return any(sequence <= acked for acked in self.acks)
        return sequence in self.acks

    def is_answered(self, sequence: int, now: int) -> bool:
        """Tell whether the server has said, before this turn, that a message is acknowledged."""
        if self.policy == "all":
            return any(sequence <= acked and at < now for acked, at in self.answered.items())
        return self.answered.get(sequence, now) < now


@dataclass
class Removal:
    """A purge or delete that somebody asked for; `sequence` for one message."""

    pattern: bytes = b""
    below: int = 0
    keep: int = 0
    sequence: int = 0

    def covers(self, sequence: int, subject: bytes) -> bool:
        """Tell whether it may have removed a message."""
        if self.sequence:
            return sequence == self.sequence
        if self.below and sequence >= self.below:
            return False
        return not self.pattern or matches(self.pattern, subject)


@dataclass
class Life:
    """One stream from its creation to its deletion; its subjects begin with `prefix`."""

    name: str
    prefix: bytes
    configs: list[dict[str, Any]]  # asked for, the first one at creation
    asked_at: int = 0  # the last time that somebody asked for its creation
    is_made: bool = False
    is_leaving: bool = False
    is_gone: bool = False
    journal: dict[int, Stored] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)  # sequence to uid
    removals: list[Removal] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)  # removed, and somebody was told
    explained: set[int] = field(default_factory=set)
    readers: dict[str, Reader] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)  # at the last crash
    ids: dict[bytes, int] = field(default_factory=dict)  # to the last sequence stored

    @property
    def config(self) -> dict[str, Any]:
        """Return the config it was created with."""
        return self.configs[0]

    @property
    def is_memory(self) -> bool:
        """Return whether it does not outlive the process."""
        return self.config.get("storage") == "memory"

    @property
    def retention(self) -> str:
        """Return `limits`, `interest` or `workqueue`."""
        return str(self.config.get("retention", "limits"))


class Witness:
    """Remembers, compares, complains."""

    def __init__(self) -> None:
        self.published: dict[int, Published] = {}
        self.lives: dict[bytes, Life] = {}
        self.starts = 0
        self.counts: dict[str, int] = {}

    def count(self, what: str) -> None:
        """Count something, to see what a run has covered."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def life_of(self, subject: bytes) -> Life | None:
        """Return the stream that holds a subject."""
        return self.lives.get(subject.partition(b".")[0])

    # -- the server stores -----------------------------------------------------------------

    def stored(
        self, sequence: int, subject: bytes, headers: bytes, payload: bytes, now: int
    ) -> None:
        """A message went into a store."""
        life = self.life_of(subject)
        if life is None:
            return
        uid = uid_of(payload)
        require(life.seen.get(sequence, uid) == uid, life.name, sequence, "was seen as another one")
        known = life.journal.get(sequence)
        require(
            known is None or known.life < self.starts, life.name, sequence, "stored a second time"
        )
        message_id = header(headers, b"Nats-Msg-Id") if headers else b""
        if message_id:
            self._check_new(life, message_id, sequence, now)
            life.ids[message_id] = sequence
        life.journal[sequence] = Stored(uid, subject, headers, payload, now, self.starts)
        self.count("stored")

    def _check_new(self, life: Life, message_id: bytes, sequence: int, now: int) -> None:
        """Property 3."""
        earlier = life.ids.get(message_id)
        original = life.journal.get(earlier) if earlier is not None else None
        if (
            original is None
            or earlier is None
            or header(original.headers, b"Nats-Msg-Id") != message_id
        ):
            return
        window = min(int(config["duplicate_window"]) for config in life.configs)
        if now - original.timestamp >= window:
            return
        survived = earlier in life.live and original.life < self.starts
        require(
            original.life != self.starts and not survived,
            life.name, "id", message_id, "stored at", earlier, "and again at", sequence,
        )  # fmt: skip

    # -- the server speaks -----------------------------------------------------------------

    def saw(self, life: Life, sequence: int, uid: int) -> None:
        """Somebody was told that a sequence is a message: property 2."""
        known = life.seen.setdefault(sequence, uid)
        require(known == uid, life.name, sequence, "was", known, "and is now", uid)
        entry = life.journal.get(sequence)
        require(
            entry.uid == uid if entry is not None else life.retention == "interest",
            life.name, sequence, "said to be", uid, "but stored is", entry,
        )  # fmt: skip

    def check_bytes(self, subject: bytes, headers: bytes, payload: bytes) -> int:
        """Compare a message with what its publisher sent; return its uid."""
        uid = uid_of(payload)
        sent = self.published.get(uid)
        require(sent is not None, "nobody sent", subject, payload[:40])
        assert sent is not None
        require(
            (subject, headers, payload)
            == (sent.subject, storable(sent.headers) if sent.headers else b"", sent.payload),
            "altered:", subject, headers, payload[:40],
        )  # fmt: skip
        return uid

    def delivered(self, frame: Frame, now: int) -> tuple[Life, Reader, int] | None:
        """A message goes to a client of a consumer."""
        life = self.life_of(frame.subject)
        if life is None:
            return None
        tokens = frame.reply.split(b".")
        reader = life.readers.get(tokens[3].decode())
        if reader is None:
            return None
        times, sequence, place, timestamp = map(int, tokens[4:8])
        self.saw(life, sequence, self.check_bytes(frame.subject, frame.headers, frame.payload))
        where = (life.name, reader.name, sequence)
        require(life.journal[sequence].timestamp == timestamp, *where, "has another time")
        require(reader.wants(frame.subject), *where, "does not match the filter")
        if reader.policy != "none":
            require(
                not reader.is_answered(sequence, now), *where, "came again after its answered ack"
            )
        deliveries = reader.deliveries.setdefault(sequence, set())
        deliveries.add(place)
        limit = reader.config.get("max_deliver", -1)
        if limit > 0:
            require(times <= limit, *where, "delivered for the", times, "th time")
            require(len(deliveries) <= limit, *where, "delivered too often")
        require(
            reader.places.setdefault(place, sequence) == sequence, *where, "place used twice", place
        )
        self.count("delivered")
        return life, reader, sequence

    # -- a crash ---------------------------------------------------------------------------

    def crashing(self, catalog: Catalog) -> None:
        """Note what the server holds in memory: everything else has been removed."""
        for life in self.lives.values():
            stream = find_stream(catalog, life)
            life.live = set(live_sequences(stream)) if stream is not None else set()

    def recovered(self, catalog: Catalog, now: int) -> None:
        """Compare a server that has just started with what is known."""
        for life in self.lives.values():
            stream = find_stream(catalog, life)
            if life.is_gone:
                require(stream is None, "stream", life.name, life.prefix, "came back")
            if stream is None:
                self._check_lost(catalog, life)
            else:
                self._compare_stream(life, stream, now)
                self._compare_readers(life, stream)
            for reader in life.readers.values():
                reader.deliveries.clear()
                reader.places.clear()

    def _check_lost(self, catalog: Catalog, life: Life) -> None:
        if life.is_memory:
            life.is_gone = True
            return
        offline = catalog.offline.get(life.name)
        require(
            life.is_leaving or not life.is_made,
            "stream", life.name, "is lost:", offline.reason if offline else "not there",
        )  # fmt: skip

    def _compare_stream(self, life: Life, stream: Stream, now: int) -> None:
        store = stream.store
        require(not store.offline, life.name, "is offline after a start:", store.offline)
        last = store.last_seq
        require(max(life.seen, default=0) <= last, life.name, "took sequences back, last", last)
        found: set[int] = set()
        for message in messages(store, None, store.first_seq, 1 << 30, 1 << 23):
            found.add(message.sequence)
            entry = life.journal.get(message.sequence)
            require(
                entry is not None
                and (entry.subject, entry.headers, entry.payload, entry.timestamp)
                == (message.subject, message.headers, message.payload, message.timestamp),
                life.name, message.sequence, "recovered as something else", entry, message,
            )  # fmt: skip
        for sequence in sorted(life.seen.keys() & life.live - found):
            require(
                self._is_explained(life, sequence, last, now),
                life.name, sequence, "was seen and is lost",
            )  # fmt: skip
        back = sorted(found & life.gone)
        require(not back, life.name, "removed messages came back:", back)
        for sequence in [sequence for sequence in life.journal if sequence > last]:
            del life.journal[sequence]

    def _compare_readers(self, life: Life, stream: Stream) -> None:
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
            for sequence in reader.answered:
                require(sequence not in progress.pending, *where, sequence, "is pending again")
                require(
                    progress.cursor.has_passed(sequence) or stream.store.load(sequence) is None,
                    *where, sequence, "comes again",
                )  # fmt: skip

    # -- now and then ----------------------------------------------------------------------

    def audit(self, catalog: Catalog, now: int) -> None:
        """Look at every stream and consumer from inside: properties 1, 5 and 6."""
        for life in self.lives.values():
            stream = find_stream(catalog, life)
            if stream is None or stream.store.offline:
                continue
            live = self._check_counters(life, stream)
            last = stream.store.last_seq
            for sequence in life.seen.keys() - live - life.explained:
                require(
                    self._is_explained(life, sequence, last, now),
                    life.name, sequence, "was seen and is gone without a reason",
                )  # fmt: skip
                life.explained.add(sequence)
            for consumer in stream.consumers.values():
                if isinstance(consumer, Consumer):
                    _check_consumer(consumer, live)

    def _check_counters(self, life: Life, stream: Stream) -> dict[int, bytes]:
        store, config = stream.store, stream.config
        live = {s: subject for s, _, subject, _ in stored(store, store.first_seq)}
        state = store.state()
        where = (life.name, state)
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
        if config.discard == "new" and len(life.configs) > 1:
            return live  # lowering a limit does not remove anything then (as in NATS)
        if config.max_msgs > 0:
            require(len(live) <= config.max_msgs, *where, "more than max_msgs")
        if config.max_bytes > 0:
            require(size <= config.max_bytes, *where, "more than max_bytes")
        if config.max_msgs_per_subject > 0:
            held: dict[bytes, int] = {}
            for subject in live.values():
                held[subject] = held.get(subject, 0) + 1
            most = max(held.values(), default=0)
            require(most <= config.max_msgs_per_subject, *where, "more than allowed per subject")
        return live

    def _is_explained(self, life: Life, sequence: int, last: int, now: int) -> bool:
        """Tell whether something may have removed a message that was seen."""
        entry = life.journal.get(sequence)
        if entry is None:  # an interest stream on which nobody wanted it
            return life.retention == "interest"
        subject = entry.subject
        if any(removal.covers(sequence, subject) for removal in life.removals):
            return True
        later = [other for at, other in life.journal.items() if at > sequence]
        if any(other.subject == subject and b"Nats-Rollup" in other.headers for other in later):
            return True
        for config in life.configs:
            if self._is_over(config, entry, sequence, last, later, now):
                return True
        if life.retention == "workqueue":
            return any(
                reader.wants(subject) and (reader.policy == "none" or reader.has_sent_ack(sequence))
                for reader in life.readers.values()
            )
        if life.retention == "interest":
            return not any(
                0 < reader.made_at < entry.timestamp
                and not reader.is_leaving
                and reader.wants(subject)
                and reader.policy == "explicit"
                and reader.config.get("max_deliver", -1) < 0
                and not reader.config.get("mem_storage")
                and not reader.has_sent_ack(sequence)
                for reader in life.readers.values()
            )
        return False

    def _is_over(
        self,
        config: dict[str, Any],
        entry: Stored,
        sequence: int,
        last: int,
        later: list[Stored],
        now: int,
    ) -> bool:
        if (
            config.get("max_age", 0)
            and now + _EXPIRY_SLACK_NS >= entry.timestamp + config["max_age"]
        ):
            return True
        per_subject = config.get("max_msgs_per_subject", -1)
        if 0 < per_subject <= sum(other.subject == entry.subject for other in later):
            return True
        if config.get("discard") == "new":
            return False
        if 0 < config.get("max_msgs", -1) <= last - sequence:
            return True
        storage = str(config.get("storage", "file"))
        size = sum(
            stored_bytes(storage, other.subject, other.headers, other.payload)
            for other in [entry, *later]
        )
        return 0 < config.get("max_bytes", -1) < size


def uid_of(payload: bytes) -> int:
    """Return the number that begins a payload, 0 for a payload of somebody else."""
    digits = payload.partition(b":")[0]
    return int(digits) if digits.isdigit() else 0


def find_stream(catalog: Catalog, life: Life) -> Stream | None:
    """Return the stream of a life, None when another one has its name."""
    stream = catalog.streams.get(life.name)
    if stream is None or stream.config.subjects[0].encode().partition(b".")[0] != life.prefix:
        return None
    return stream


def live_sequences(stream: Stream) -> Iterable[int]:
    """Return what a stream holds in memory, even when its store has failed."""
    store: Any = stream.store
    reason = store.offline
    if reason:
        store._offline = ""
    try:
        return [sequence for sequence, *_ in stored(store, store.first_seq)]
    finally:
        if reason:
            store._offline = reason


def _check_consumer(consumer: Consumer, live: dict[int, bytes]) -> None:
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
    require(limit <= 0 or len(pending) <= limit, *where, "more pending than", limit)
    left = sum(
        1
        for sequence, subject in live.items()
        if (cursor.wants(subject) or sequence in cursor.snapshot)
        and not cursor.has_passed(sequence)
    )
    require(cursor.num_pending() == left, *where, "num_pending", cursor.num_pending(), "not", left)
    require(progress.floor_stream_seq <= progress.stream_seq, *where, "floor above delivered")
    require(progress.floor_consumer_seq <= progress.consumer_seq, *where, "floor above delivered")


def answer_of(frame: Frame) -> dict[str, Any]:
    """Return a JSON answer."""
    answer: dict[str, Any] = orjson.loads(frame.payload)
    return answer
