"""Atomic batches: messages that are put aside until the last one comes, then stored all or none.

Each message says with headers to which batch it belongs and which number it has there; the last one
carries a commit. Only the order is checked as messages arrive. The conditions on each message are
checked at the commit, in order, and the first refusal ends the batch.

All-or-nothing holds across crashes too. A batch is appended as one run, whose records a crash can
only cut short at the end. The last message of a batch, and no other, is stored with
`Nats-Batch-Commit`, so a store whose last message is of a batch, but without that header, ends in
part of a batch, and `drop_unfinished` removes that part on recovery. For this to be sure, nothing
else may store `Nats-Batch-Id` in such a stream: fast batches and fired schedules strip it.

Batches that are not committed are in memory only: a restart forgets them, as the genuine server
does. Specification: docs/reference/publishing.md#atomic-batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.subject import is_literal
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.advisory import publish_batch_abandoned
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.open_batches import BatchesOfStream
from jetstream_server.jetstream.required_level import check_required_level
from jetstream_server.jetstream.streams.batches.batch_storing import take_batch
from jetstream_server.jetstream.streams.batches.crowded_out import CrowdedOut
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.known_last import KnownLast, is_little
from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    has_header,
    special_headers,
    without,
)
from jetstream_server.jetstream.streams.reads.look_ahead import look_ahead
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.store.ports import MessageStore

ID_BYTES_MAX = 64
# Of messages that others have published with what those of a batch expect, at its commit.
COMPARED_AT_ONCE = 10_000
_COMMITTED_OF_UNIT = 15  # of the workload
_COMMITS = (b"1", b"eob")
_COMMIT_LINE = b"%b: 1\r\n" % names.BATCH_COMMIT
_PART_MAX = 1 << 16  # messages of a batch that a crash cut short
_DIGITS_MAX = 20


@dataclass(slots=True)
class _OpenAtomicBatch:
    deadline: int
    messages: list[Candidate] = field(default_factory=list)
    compared_max: int = field(default_factory=lambda: COMPARED_AT_ONCE)

    @property
    def known(self) -> list[KnownLast]:
        """What its messages expect of the subjects of patterns."""
        return [each.known for each in self.messages if each.known is not None]


class AtomicBatches:
    """The open batches of one stream."""

    def __init__(self, contents: Contents, pub_ack: PubAck, context: Context) -> None:
        self._contents = contents
        self._pub_ack = pub_ack
        self._context = context
        self._limits = context.batches
        self._open = BatchesOfStream[_OpenAtomicBatch](context.batches.atomic, context.batches)
        self._crowded_out = CrowdedOut()

    def receive(self, message: Candidate, now: int) -> bytes:
        """Put a message aside, or store the batch when this is its commit.

        Returns:
            The answer: empty until the commit.

        Raises:
            ApiError: it does not fit in, or the batch may not be stored. In most cases the batch
                is gone then.
        """
        batch_id = message.special[names.BATCH_ID]
        if len(batch_id) > ID_BYTES_MAX:
            raise errors.ATOMIC_PUBLISH_INVALID_BATCH_ID()
        position = message.special.get(names.BATCH_SEQUENCE, b"")
        is_number = position.isdigit() and len(position) <= _DIGITS_MAX
        if not is_number or int(position) >= 1 << 64:
            raise errors.ATOMIC_PUBLISH_MISSING_SEQ()
        commit = message.special.get(names.BATCH_COMMIT, b"")
        batch = self._joined(message, int(position), commit, now)
        try:
            check_required_level(message.headers)
        except ApiError:
            self._abandon(batch_id, "unsupported", now)
            raise
        if commit != b"eob":
            if full := self._open.hold(batch_id, message.content_bytes):
                if batch.messages:
                    self._abandon(batch_id, "large", now)
                self._open.forget(batch_id)
                if not commit:
                    self._crowded_out.note(batch_id, full)
                raise errors.ATOMIC_PUBLISH_NO_ROOM(full)
            batch.messages.append(message)
            other = message.special.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT)
            if other and not commit and not is_literal(other):
                message.known = KnownLast(other, self._contents.store)
        if not commit:
            return b""
        self._open.forget(batch_id)
        messages = batch.messages
        last = messages[-1]
        if last is not message:
            last.headers = extended(without(last.headers, names.BATCH_COMMIT), _COMMIT_LINE)
        self._context.workload.spend(len(messages) / _COMMITTED_OF_UNIT)
        sequence = take_batch(self._contents, messages, now)
        return self._pub_ack.batch(sequence, batch_id, len(messages))

    def has_to_look(self, batch_id: bytes) -> bool:
        """Tell whether what a batch expects has to be found out again before it is committed,
        because one turn has no time to bring it up to date."""
        batch = self._open.get(batch_id)
        known = [] if batch is None else batch.known
        if batch is None or not known:
            return False
        return not is_little(known, self._contents.store, batch.compared_max)

    def look_ahead(self, batch_id: bytes) -> Iterator[None]:
        """Find out again, in steps, what a batch expects."""
        batch = self._open.get(batch_id)
        if batch is None:
            return iter(())
        batch.compared_max *= 2  # it ends, however much comes meanwhile
        return _find_again(self._contents.store, batch.known)

    def _joined(
        self, message: Candidate, position: int, commit: bytes, now: int
    ) -> _OpenAtomicBatch:
        """Return the batch of a message that comes at its turn."""
        batch_id = message.special[names.BATCH_ID]
        is_marker = commit == b"eob"
        messages_max = self._limits.messages_max
        is_too_large = position > messages_max + is_marker
        batch = self._open.get(batch_id)
        if batch is None and position == 1:
            if not self._open.has_room():
                raise errors.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT()
            batch = _OpenAtomicBatch(now)
            self._open.add(batch_id, batch)
            self._crowded_out.forget(batch_id)
        if batch is None and not is_too_large:
            raise self._not_open(batch_id, commit)
        if (
            batch is not None
            and commit not in _COMMITS
            and has_header(message.headers, names.BATCH_COMMIT)
        ):
            self._open.forget(batch_id)
            raise errors.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT()
        if batch is None or is_too_large:
            self._abandon(batch_id, "large", now)
            raise errors.ATOMIC_PUBLISH_TOO_LARGE_BATCH(messages_max)
        if position != len(batch.messages) + 1 or (is_marker and position == 1):
            self._abandon(batch_id, "incomplete", now)
            raise errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
        self._open.keep(batch_id, now)
        return batch

    def _not_open(self, batch_id: bytes, commit: bytes) -> ApiError:
        """Return the refusal of a message whose batch is not open, and which does not begin it."""
        full = self._crowded_out.what_was_full(batch_id)
        if not full:
            return errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH()
        if commit:
            self._crowded_out.forget(batch_id)
        return errors.ATOMIC_PUBLISH_NO_ROOM(full)

    def _abandon(self, batch_id: bytes, reason: str, now: int) -> None:
        if self._open.forget(batch_id):
            text = batch_id.decode("utf-8", "replace")
            publish_batch_abandoned(self._context, self._contents.name, text, reason, now)

    def give_up(self, incident: Incident, now: int) -> None:
        """Forget every open batch: one may lack a message that was counted."""
        self.close()

    def close(self) -> None:
        """Forget every open batch, without a word: the stream ends, or no longer allows them."""
        self._open.close()
        self._crowded_out.close()

    def expire(self, now: int) -> None:
        """Give up the batches that went on too slowly."""
        for batch_id in self._open.expired(now):
            self._abandon(batch_id, "timeout", now)

    def next_deadline(self) -> int | None:
        """Return when the next batch is given up."""
        return self._open.next_deadline()


def _find_again(store: MessageStore, known: list[KnownLast]) -> Iterator[None]:
    """Look at all subjects for each of these."""
    for each in known:
        wanted = store.filter([each.pattern])  # what is found out about it lasts while it is held
        yield from look_ahead(store, wanted)
        try:
            each.find(store)
        except StoreError:  # the store is offline, and the batch will be refused
            return
        yield


def drop_unfinished(store: MessageStore) -> int:
    """Remove the part of a batch with which the store ends after a crash; return how many messages.

    These are messages of one batch whose numbers count down to its first; messages out of a backup
    may have any numbers.
    """
    last_seq, gone = store.last_seq, list[int]()
    newest = store.load(last_seq)
    if newest is None or not newest.headers:
        return 0
    special = special_headers(newest.headers)
    batch_id = special.get(names.BATCH_ID)
    count = unsigned(special.get(names.BATCH_SEQUENCE, b""))
    for before in range(min(count, last_seq, _PART_MAX) if batch_id else 0):
        message = store.load(last_seq - before)
        if message is None:  # a limit was quicker
            continue
        special = special_headers(message.headers)
        if (
            special.get(names.BATCH_ID) != batch_id
            or unsigned(special.get(names.BATCH_SEQUENCE, b"")) != count - before
            or names.BATCH_COMMIT in special
        ):
            break
        gone.append(message.sequence)
    return store.delete(gone)
