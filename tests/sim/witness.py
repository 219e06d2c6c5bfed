"""Hears what clients ask, what the server stores and what it says, and complains of lies.

Clients tell what they ask before it reaches the server. What the server says is heard when it is
written: from then on somebody may have seen it. Properties, by number:

1. what was seen is found at its sequence with its bytes, unless something removed it;
2. a sequence never names two messages, and what was seen is never taken back;
3. a message id is not stored twice within its window, crashes included;
4. an answered ack is not undone; nobody gets a message more often than `max_deliver`;
5. a work queue keeps what is not acknowledged;
6. counters agree with what is stored;
7. everything written is protocol (`network.py`);
8. what left the server survives a crash at any point (follows from 1, 2 and 4), and of the rest
   survives what came first: the store ends earlier, but has no holes;
9. what is stored is what was sent (`provenance.py`), batches whole or not at all;
10. copies have what their origins have (`copies.py`);
11. accounts do not see each other (names are used in all of them).

What is compared after a crash is in `comparison.py`, what is looked at meanwhile in `audit.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.messages.scan import stored

from tests.sim.life import Life, Published, Reader, Stored, fields_of, require, uid_of
from tests.sim.network import Frame
from tests.sim.provenance import check_provenance

Catalogs = Mapping[str, Catalog]

# Lines that a delivery adds to the headers of a message.
_DELIVERY_LINES = (b"Nats-Pin-Id:", b"Nats-Msg-Size:")


class Witness:
    """Remembers, compares, complains.

    Attributes:
        published: everything that clients sent, by number.
        lives: every stream that there ever was.
        starts: how often the server was started.
        counts: what happened how often, to see what a run has covered.
    """

    def __init__(self) -> None:
        self.published: dict[int, Published] = {}
        self.lives: list[Life] = []
        self.starts = 0
        self.counts: dict[str, int] = {}
        self._newest: dict[tuple[str, str], Life] = {}

    def count(self, what: str) -> None:
        """Count something."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def begin(self, life: Life) -> None:
        """Somebody is about to ask for a stream."""
        self.lives.append(life)
        self._newest[life.account, life.name] = life

    def life(self, account: str, name: str) -> Life | None:
        """Return the newest stream of a name."""
        return self._newest.get((account, name))

    def lives_named(self, account: str, name: str) -> list[Life]:
        """Return all that had a name, the newest first."""
        return [
            each for each in reversed(self.lives) if (each.account, each.name) == (account, name)
        ]

    # -- the server stores -----------------------------------------------------------------

    def stored(
        self,
        life: Life,
        sequence: int,
        message: tuple[bytes, bytes, bytes],
        timestamp: int,
        previous: int,
    ) -> None:
        """A message went into a store.

        Args:
            message: subject, headers, payload.
            previous: sequence on the same subject before it, 0 for none.
        """
        subject, headers, payload = message
        fields = fields_of(headers) if headers else {}
        entry = Stored(
            uid_of(fields, payload), subject, headers, payload, timestamp, self.starts, fields
        )
        seen = life.seen.get(sequence)
        require(seen in (None, entry.key), life.name, sequence, "was seen as another one", entry)
        known = life.journal.get(sequence)
        require(
            known is None or known.start < self.starts, life.name, sequence, "stored a second time"
        )
        check_provenance(self, life, sequence, entry, life.journal.get(previous))
        message_id = fields.get(b"Nats-Msg-Id", b"")
        if message_id and not life.is_mirror and (life.archive is None or life.is_made):
            self._check_new(life, message_id, sequence, timestamp)
        if message_id:
            life.ids[message_id] = sequence
        life.journal[sequence] = entry
        self.count("stored")
        if entry.origin is not None:
            if life not in entry.origin[0].copiers:
                entry.origin[0].copiers.append(life)
            self.count("mirrored" if life.is_mirror else "sourced")

    def _check_new(self, life: Life, message_id: bytes, sequence: int, now: int) -> None:
        """Property 3."""
        earlier = life.ids.get(message_id)
        original = life.journal.get(earlier) if earlier is not None else None
        if original is None or original.fields.get(b"Nats-Msg-Id") != message_id:
            return
        window = min(int(config["duplicate_window"]) for config in life.configs)
        if now - original.timestamp >= window:
            return
        survived = earlier in life.live and original.start < self.starts
        require(
            original.start != self.starts and not survived,
            life.name, "id", message_id, "stored at", earlier, "and again at", sequence,
        )  # fmt: skip

    # -- the server speaks -----------------------------------------------------------------

    def saw(self, life: Life, sequence: int) -> Stored:
        """Somebody was told of a stored message: property 2."""
        entry = life.journal.get(sequence)
        require(entry is not None, life.name, sequence, "is said to exist, but was not stored")
        assert entry is not None
        known = life.seen.setdefault(sequence, entry.key)
        require(known == entry.key, life.name, sequence, "was another one")
        return entry

    def acknowledged(self, life: Life, sequence: int, uid: int) -> None:
        """A publisher was told where its message is."""
        entry = life.journal.get(sequence)
        if entry is not None:
            require(entry.uid == uid, life.name, sequence, "is", entry, "and not", uid)
            self.saw(life, sequence)
            return
        unwanted = any(config.get("retention") == "interest" for config in life.configs)
        require(unwanted, life.name, sequence, "is acknowledged and not stored")
        known = life.seen.setdefault(sequence, f"message {uid}")
        require(known == f"message {uid}", life.name, sequence, "was another one")

    def delivered(self, account: str, frame: Frame, now: int) -> None:
        """A message goes to a client of a consumer."""
        tokens = frame.reply.split(b".")
        life = self.life(account, tokens[2].decode())
        require(life is not None, "a delivery from nowhere", frame.reply)
        assert life is not None
        times, sequence, place, timestamp = map(int, tokens[4:8])
        entry = self.saw(life, sequence)
        headers = _without_delivery_lines(frame.headers) if frame.headers else b""
        reader = life.readers.get(tokens[3].decode())
        if reader is None:  # it came back with a backup, and nobody knows what it was asked to be
            bare = not frame.payload and b"\r\nNats-Msg-Size: %d\r\n" % len(entry.payload) in (
                frame.headers or b""
            )
        else:
            bare = bool(reader.config.get("headers_only"))
        require(
            (frame.subject, headers, frame.payload, timestamp)
            == (entry.subject, entry.headers, b"" if bare else entry.payload, entry.timestamp),
            life.name, sequence, "delivered as another one", frame, entry,
        )  # fmt: skip
        self.count("delivered")
        if reader is not None:
            self._check_delivery(life, reader, sequence, times, place, frame, now)

    def _check_delivery(
        self,
        life: Life,
        reader: Reader,
        sequence: int,
        times: int,
        place: int,
        frame: Frame,
        now: int,
    ) -> None:
        """Property 4."""
        where = (life.name, reader.name, sequence)
        require(reader.may_want(frame.subject), *where, "does not match the filter")
        begins, ends = reader.paused
        require(not begins < now < ends, *where, "delivered by a paused consumer")
        if reader.policy != "none":
            answered = reader.is_answered(sequence, now)
            require(not answered, *where, "came again after its answered ack")
        if not reader.resets and now > reader.reset_at:  # one turn is written in any order
            deliveries = reader.deliveries.setdefault(sequence, set())
            deliveries.add(place)
            limit = reader.max_deliver
            if limit > 0:
                require(times <= limit, *where, "delivered for the", times, "th time")
                require(len(deliveries) <= limit, *where, "delivered too often")
            used = reader.places.setdefault(place, sequence)
            require(used == sequence, *where, "place used twice", place)
        if pin := fields_of(frame.headers).get(b"Nats-Pin-Id"):
            self._check_pin(reader, pin, now)

    def _check_pin(self, reader: Reader, pin: bytes, now: int) -> None:
        """Whoever lost the pin of a group gets nothing any more.

        Of pins that were given within one turn, which is written in any order, the newest is the
        one that is delivered to afterwards.
        """
        given = reader.pins
        if pin not in given:
            given[pin] = now
            self.count("pins")
        newest = max(given.values())
        is_newest = given[pin] == newest
        require(now <= newest or is_newest, reader.name, "delivers for an old pin", pin)
        if now > newest:
            given.update({other: at - 1 for other, at in given.items() if other != pin})

    def got(self, account: str, frame: Frame) -> None:
        """A direct get was answered with a message."""
        fields = fields_of(frame.headers)
        life = self.life(account, fields[b"Nats-Stream"].decode())
        assert life is not None, frame
        entry = self.saw(life, int(fields[b"Nats-Sequence"]))
        what = (fields[b"Nats-Subject"], frame.payload)
        require(what == (entry.subject, entry.payload), life.name, "a get returned", frame, entry)
        self.count("gets")

    def republished(self, account: str, frame: Frame) -> None:
        """A copy of a stored message goes to whoever listens."""
        fields = fields_of(frame.headers)
        life = self.life(account, fields[b"Nats-Stream"].decode())
        assert life is not None, frame
        sequence = int(fields[b"Nats-Sequence"])
        entry = self.saw(life, sequence)
        where = (life.name, sequence, "republished as", frame)
        require(fields[b"Nats-Subject"] == entry.subject, *where)
        require(frame.subject == b"REP." + entry.subject, *where)
        if b"Nats-Msg-Size" in fields:
            require(int(fields[b"Nats-Msg-Size"]) == len(entry.payload), *where)
        else:
            require(frame.payload == entry.payload, *where)
        last = int(fields[b"Nats-Last-Sequence"])
        require(last < sequence, *where)
        if last:
            before = life.journal.get(last)
            require(before is not None and before.subject == entry.subject, *where, before)
        self.count("republished")

    def crashing(self, catalogs: Catalogs) -> None:
        """Note what the server holds in memory: everything else has been removed."""
        for life in self.lives:
            stream = find_stream(catalogs, life)
            life.live = live_sequences(stream) if stream is not None else set()


def _without_delivery_lines(headers: bytes) -> bytes:
    first, *lines = headers.split(b"\r\n")
    kept = [line for line in lines if not line.startswith(_DELIVERY_LINES)]
    return b"\r\n".join((first, *kept)) if any(kept) else b""


def find_stream(catalogs: Catalogs, life: Life) -> Stream | None:
    """Return the stream of a life, None when another one has its name."""
    stream = catalogs[life.account].streams.get(life.name)
    if stream is None or stream.config.metadata.get("life") != life.token.decode():
        return None
    return stream


def live_sequences(stream: Stream) -> set[int]:
    """Return what a stream holds in memory, even when its store has failed."""
    store = stream.store
    reason = store.offline
    if reason:
        store._health.offline = ""  # type: ignore[attr-defined]
    try:
        return {sequence for sequence, *_ in stored(store, store.first_seq)}
    finally:
        if reason:
            store._health.offline = reason  # type: ignore[attr-defined]
