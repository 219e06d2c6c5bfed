"""Messages that end with time: `max_age`, `Nats-TTL`, and the markers left in their place.

This finds what is over and removes it; when to look is the stream's business (`Stream.tick`). The
store ends the oldest messages by itself. Only two cases need a look at single messages first:
messages that last (`Nats-TTL: never`), and delete markers, for which the subjects must be known. A
marker is an empty message that tells readers of a subject that its last message aged away. Those
that a full disk has no room for are owed; a restart forgets them. Specification:
docs/reference/streams.md#limits and #subject-delete-markers.
"""

from __future__ import annotations

from array import array

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.message_ttl import MessageTtls, parse_ttl
from jetstream_server.jetstream.streams.messages.publish_headers import header, special_headers
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.jetstream.wire.go_duration import format_duration
from jetstream_server.store.ports import Limits, MessageStore, StoredMessage

Ranges = list[tuple[int, int]]

# How often to look: the genuine server needs up to 250 ms as well.
_GRANULARITY_NS = 250 * MILLISECOND
# When much is over at once, others get their turn in between: some milliseconds each.
_REMOVED_AT_ONCE = 1000
_MARKED_AT_ONCE = 150  # for each of which a marker may be stored
_LOOKED_AT_ONCE = 500  # that last
_DOUBTED_AT_ONCE = 5000  # likewise, of which it is asked only whether they are there
_PAUSE_NS = MILLISECOND


class Expiry:
    """What ends when, in one stream.

    Attributes:
        config: the stream's, replaced when it is updated.
        ttls: deadlines of single messages.
    """

    def __init__(
        self, config: StreamConfig, store: MessageStore, containment: Containment = UNCONTAINED
    ) -> None:
        self.config = config
        self.ttls = MessageTtls()
        self._store = store
        self._containment = containment
        self._mortal_from = 0  # everything below lasts or is gone
        self._doubted: list[int] = []  # of those that last, which may be gone
        self._owed: dict[bytes, None] = {}  # subjects on which a marker is due

    def recover(self) -> None:
        """Read the TTLs of all stored messages; one that trips this is left as it is."""
        if not self.config.allow_msg_ttl:
            return
        for sequence, timestamp, _, headers in stored(
            self._store, self._store.first_seq, names.TTL
        ):
            if names.TTL not in headers:
                continue
            try:
                self._recover_ttl(sequence, timestamp, headers)
            except Exception as error:
                self._containment.contain(error, 0)

    def _recover_ttl(self, sequence: int, timestamp: int, headers: bytes) -> None:
        ttl = parse_ttl(special_headers(headers).get(names.TTL, b""))
        if ttl is not None:
            self.ttls.record(sequence, ttl, timestamp)

    def remove_due(self, now: int) -> Ranges:
        """Remove what is over, or some of it when that is much: `next_look` says when to go on.

        Returns:
            The ranges removed. `store_marker` sees to what is left in their place.
        """
        due = self.ttls.pop_due(now, self._at_once)
        if not due and not self._is_aged(now):
            return []
        if not self.config.subject_delete_marker_ttl and not self.ttls.lasting:
            gone = [sequence for sequence in due if self._store.load(sequence) is not None]
            self._store.delete(gone)
            removed = [(sequence, sequence + 1) for sequence in gone]
            if self.config.max_age > 0:
                removed += self._store.enforce(Limits(max_age_ns=self.config.max_age), now)
            return removed
        return self._remove_singly(due, now)

    @property
    def _at_once(self) -> int:
        return _MARKED_AT_ONCE if self.config.subject_delete_marker_ttl else _REMOVED_AT_ONCE

    def next_deadline(self) -> int | None:
        """Return when something is over next; None for never."""
        ttl = self.ttls.next_deadline()
        age = self._next_aged()
        if ttl is None or age is None:
            return age if ttl is None else ttl
        return min(ttl, age)

    def next_look(self, now: int) -> int | None:
        """Return when to remove what will be over by then; None for never."""
        deadline = self.next_deadline()
        if self._doubted and self.config.max_age > 0:  # without an age nobody asks
            return now + _PAUSE_NS
        if deadline is None:
            return None
        return now + _PAUSE_NS if deadline <= now else max(deadline, now + _GRANULARITY_NS)

    def store_marker(self, now: int) -> int:
        """Store the next marker that is due; return its sequence, 0 when none is.

        Raises:
            StoreError: there is no room; it stays due.
        """
        while self._owed:
            subject = next(iter(self._owed))
            sequence = 0
            if self.config.subject_delete_marker_ttl and not self._store.subject_count(subject):
                headers, ttl = self._marker()
                sequence = self._store.append(subject, headers, b"", now)
                self.ttls.record(sequence, ttl, now)
            del self._owed[subject]
            if sequence:
                return sequence
        return 0

    def _marker(self) -> tuple[bytes, int]:
        """Return the header block of a delete marker, and its TTL in seconds."""
        duration = self.config.subject_delete_marker_ttl
        block = b"NATS/1.0\r\n%b: MaxAge\r\n%b: %b\r\n%b: sub\r\n\r\n" % (
            names.MARKER_REASON,
            names.TTL,
            format_duration(duration).encode(),
            names.ROLLUP,
        )
        return block, duration // SECOND

    def _is_aged(self, now: int) -> bool:
        aged = self._next_aged()
        return aged is not None and aged <= now

    def _next_aged(self) -> int | None:
        """Return when the next message reaches `max_age`."""
        if self.config.max_age <= 0:
            return None
        if not self.ttls.lasting:
            return self._store.next_expiry(self.config.max_age)
        oldest = self._oldest_mortal()
        return oldest.timestamp + self.config.max_age if oldest else None

    def _oldest_mortal(self) -> StoredMessage | None:
        """Return the oldest message that does not last, and forget lasting ones that are gone.

        Behind very many that last it is not found at once: then one of these is returned, and the
        next call goes on from there.
        """
        ttls, store = self.ttls, self._store
        self._forget_some_lasting()
        message = store.load_next(None, self._mortal_from)
        left = _LOOKED_AT_ONCE
        while message is not None and message.sequence in ttls.lasting and left:
            left -= 1
            self._mortal_from = message.sequence + 1
            message = store.load_next(None, self._mortal_from)
        return message

    def _forget_some_lasting(self) -> None:
        """Forget some of those that last and are gone, if these are many."""
        lasting, store = self.ttls.lasting, self._store
        if not self._doubted:
            if len(lasting) <= 2 * store.state().messages:
                return
            self._doubted = list(lasting)
        some = self._doubted[-_DOUBTED_AT_ONCE:]
        del self._doubted[-_DOUBTED_AT_ONCE:]
        held = store.held(array("Q", sorted(some)))
        lasting.pop_all({*some}.difference(held))

    def _remove_singly(self, due: list[int], now: int) -> Ranges:
        ended = [message for message in map(self._store.load, due) if message is not None]
        mortal_from = 0
        if self.config.max_age > 0:
            taken = {message.sequence for message in ended}
            message = self._oldest_mortal()
            left = _LOOKED_AT_ONCE
            while (
                message is not None
                and message.timestamp + self.config.max_age <= now
                and len(ended) < self._at_once
                and left
            ):
                if message.sequence in self.ttls.lasting:
                    left -= 1
                elif message.sequence not in taken:
                    ended.append(message)
                mortal_from = message.sequence + 1
                message = self._store.load_next(None, mortal_from)
        ended.sort(key=lambda message: message.sequence)
        self._store.delete([message.sequence for message in ended])
        self._mortal_from = max(self._mortal_from, mortal_from)
        if self.config.subject_delete_marker_ttl:
            # The last one removed decides whether its subject gets a marker.
            last = {message.subject: message for message in ended}
            self._owed |= {s: None for s, message in last.items() if self._leaves_marker(message)}
        return [(message.sequence, message.sequence + 1) for message in ended]

    def _leaves_marker(self, message: StoredMessage) -> bool:
        if self._store.subject_count(message.subject):
            return False
        if not message.headers:
            return True
        return (
            not header(message.headers, names.MARKER_REASON)
            and header(message.headers, b"KV-Operation") != b"PURGE"
        )
