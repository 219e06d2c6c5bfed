"""A stream made again from its archive, piece by piece.

Name, subjects, storage and limits are those of the config given; sequences, times, deletes and
consumers come from the archive. Until the end there is no stream, only a name that nobody else can
take and a folder without a config, which after a crash is only a leftover. Errors that come from
the archive carry the genuine server's texts (probed there); unlike it, a failure leaves nothing
behind.

Specification: docs/reference/streams.md#snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from jetstream_server.base.errors import ApiError
from jetstream_server.core.steps import InSteps, Stint
from jetstream_server.core.subject import is_valid_literal
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_checks import check_workqueue
from jetstream_server.jetstream.configs.consumer_config import ConsumerBounds
from jetstream_server.jetstream.configs.stream_config import SEQUENCE_MAX, StreamConfig
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.consumer_creation import restore_snapshot
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.snapshots.archive import (
    CONSUMER_PREFIX,
    STATE_NAME,
    ArchiveEntry,
    ArchiveError,
    ArchiveReader,
)
from jetstream_server.jetstream.snapshots.consumer_snapshot import ConsumerRecord, decode_consumer
from jetstream_server.jetstream.snapshots.s2 import S2Error, S2Reader
from jetstream_server.jetstream.streams.removal.limits import check_discard_new, stored_bytes
from jetstream_server.jetstream.streams.taken_filters import TakenFilters
from jetstream_server.jetstream.wire.go_json import GoModel, Int, Time, Uint64, decode
from jetstream_server.jetstream.wire.go_time import ZERO, Instant

if TYPE_CHECKING:
    from jetstream_server.jetstream.catalog.catalog import Catalog, ComparedSubjects
    from jetstream_server.jetstream.stream import Stream

_ADVANCE_BYTES = 64 * 1024
_READ_BYTES = 16 * 1024  # what a step counts that reads a consumer
_ADDED_AT_ONCE = 4  # consumers of a stream
_FILTERS_AS_CONSUMER = 500  # that are noted
_PENDING_AS_CONSUMER = 2000  # unacknowledged messages, of which each is looked for and saved
_ENTRY_BYTES = 700  # what an entry without payload counts: it costs some 25 microseconds
_MISMATCH = "expected sequence does not match store"


class LostStreamData(GoModel):
    """What a stream has lost."""

    go_name: ClassVar[str] = "LostStreamData"
    msgs: list[Uint64] = Field(default_factory=list)
    bytes: Uint64 = 0


class StreamState(GoModel):
    """The state of a stream, as requests and archives carry it."""

    go_name: ClassVar[str] = "StreamState"
    messages: Uint64 = 0
    bytes: Uint64 = 0
    first_seq: Uint64 = 0
    first_ts: Time = Instant(ZERO)
    last_seq: Uint64 = 0
    last_ts: Time = Instant(ZERO)
    num_subjects: Int = 0
    subjects: dict[str, Uint64] = Field(default_factory=dict)
    num_deleted: Int = 0
    deleted: list[Uint64] = Field(default_factory=list)
    lost: LostStreamData | None = None
    consumer_count: Int = 0


class RebuildError(Exception):
    """The stream cannot be made; the text goes to the client after `restore failed: `."""


class Rebuild:
    """One stream on its way back.

    Args:
        compared: what was just found out about its subjects.

    Raises:
        RebuildError: the config is refused; or, from every method, the archive is. Nothing is left
            then.
    """

    def __init__(
        self, catalog: Catalog, config: StreamConfig, compared: ComparedSubjects | None = None
    ) -> None:
        try:
            self._config, self._folder = catalog.begin_restore(config, compared)
        except ApiError as error:
            reason = f"{error.description} ({error.err_code})"
            raise RebuildError(f"error adding stream: {reason}") from None
        self._catalog = catalog
        self._allowance = catalog.metering.allowance(config)
        self._store = self._folder.messages()
        self._store.compression = self._config.compression
        self._compressed = S2Reader()
        self._archive = ArchiveReader()
        self._state: StreamState | None = None  # as the archive tells it
        self._consumers: dict[str, ConsumerRecord] = {}  # found so far, by name
        # The next one, while it is read.
        self._reading: InSteps[ConsumerRecord] | None = None
        self._taken_filters = TakenFilters()  # of these, in a work queue
        self._last_ts = 0  # of the message stored last
        self.is_complete = False  # the end of the archive was read
        self._stream: Stream | None = None  # which the catalog has taken in

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the snapshot."""
        self._compressed.feed(piece)

    def advance(self) -> int:
        """Store some of what was fed.

        Returns:
            How many bytes of the archive, or what else it has cost measured in them; 0 when more
            of the snapshot is needed.
        """
        try:
            if size := self._store_entries():
                return size
            block = self._compressed.next_block()
            if block is None:
                return 0
            if not self.is_complete:  # nothing after the end matters
                self._archive.feed(block)
            return self._compressed.cost
        except (S2Error, ArchiveError) as error:
            raise RebuildError(str(error)) from None

    def _store_entries(self) -> int:
        size = 0
        while size < _ADVANCE_BYTES and not self.is_complete:
            if self._reading is not None:
                size += _READ_BYTES
                try:
                    next(self._reading)
                except StopIteration as end:
                    self._reading = None
                    self._consumers[end.value.name] = end.value
                continue
            entry = self._archive.next_entry()
            if entry is None:
                break
            self._take(entry)
            size += len(entry.payload) + _ENTRY_BYTES
        return size

    def finish(self, now: int) -> InSteps[Stream]:
        """Have the stream start serving, now that no more of the snapshot comes; whoever asked
        calls `subscribe_more` until it listens to all its subjects."""
        if not self.is_complete:
            if not self._compressed.is_complete:
                raise RebuildError("s2: corrupt input")
            raise RebuildError(str(self._archive.end()))
        assert self._state is not None
        store, state = self._store, self._state
        if not store.last_seq:  # no message came
            store.truncate_front(max(state.first_seq, state.last_seq + 1))
        elif state.last_seq > store.last_seq:
            store.skip(state.last_seq - store.last_seq, self._last_ts)
        # Nobody else finds the stream before it has all its consumers: what one of them has read
        # leaves an interest stream if no other one is known.
        self._stream = stream = self._catalog.open_restored(self._config, self._folder, now)
        made: list[Consumer] = []
        stint = Stint(_ADDED_AT_ONCE)
        for record in self._consumers.values():
            progress = yield from record.progress(store)
            created = record.created or now
            made.append(restore_snapshot(stream, record.name, record.config, created, progress))
            filters = len(progress.cursor.patterns) // _FILTERS_AS_CONSUMER
            if stint.spend(1 + len(progress.pending) // _PENDING_AS_CONSUMER + filters):
                yield
        foreseen = yield from stream.sourcing.foresee(stream.config.sources)
        self._catalog.finish_restore(stream, now, foreseen)
        if self._consumers:
            stream.removal.sweep()
        for consumer in made:
            if stream.consumers.get(consumer.name) is consumer:  # and not deleted meanwhile
                consumer.start(now)
            if stint.spend():
                yield
        return stream

    def abandon(self, now: int) -> None:
        """Give up the name and remove what was stored."""
        name, stream = self._config.name, self._stream
        if stream is not None and name not in self._catalog.restoring:
            if self._catalog.streams.get(name) is stream:
                self._catalog.delete(name, now)
            return
        if stream is not None:
            stream.stop(now, Ending.INTERRUPTED)
        self._catalog.abandon_restore(self._config, self._folder)

    # -- entries ---------------------------------------------------------------------------

    def _take(self, entry: ArchiveEntry) -> None:
        if self._state is None:
            self._state = _read_state(entry)
        elif len(self._consumers) < self._state.consumer_count:
            self._take_consumer(entry)
        elif entry.is_end:
            self.is_complete = True
        else:
            self._take_message(entry)

    def _take_consumer(self, entry: ArchiveEntry) -> None:
        if entry.sequence or not entry.name.startswith(CONSUMER_PREFIX):
            found = entry.name.decode(errors="replace")
            raise ArchiveError(f'expected consumer, found "{found}"')
        name = entry.name.removeprefix(CONSUMER_PREFIX).decode(errors="replace")
        self._reading = self._read_consumer(name, entry.payload)

    def _read_consumer(self, name: str, payload: bytes) -> InSteps[ConsumerRecord]:
        bounds = self._catalog.consumer_bounds()
        record = yield from decode_consumer(name, payload, self._config, bounds)
        try:
            yield from self._check_consumer(record, self._catalog.consumer_bounds())
        except ApiError as error:
            reason = f"{error.description} ({error.err_code})"
            raise ArchiveError(f'failed to add consumer "{name}": {reason}') from None
        return record

    def _check_consumer(self, record: ConsumerRecord, bounds: ConsumerBounds) -> InSteps[None]:
        """Refuse what the stream may not have beside the consumers before it."""
        if record.name in self._consumers:
            raise errors.CONSUMER_ALREADY_EXISTS()
        if bounds.is_full(len(self._consumers), self._config.max_consumers):
            raise errors.MAXIMUM_CONSUMERS_LIMIT()
        if self._config.retention == "workqueue":
            check_workqueue(record.config)
            is_taken = yield from self._taken_filters.is_taken(record.name, record.config)
            self._taken_filters.check(record.name, record.config, is_taken)
            self._taken_filters.add(record.name, record.config)

    def _take_message(self, entry: ArchiveEntry) -> None:
        assert self._state is not None
        sequence, store, config = entry.sequence, self._store, self._config
        if not sequence:
            raise ArchiveError("expected message sequence")
        if not max(store.last_seq + 1, self._state.first_seq) <= sequence <= SEQUENCE_MAX:
            raise ArchiveError(f"message sequence {sequence} out of order")
        size = len(entry.headers) + len(entry.payload)
        if 0 <= config.max_msg_size < size:
            raise ArchiveError(f"message sequence {sequence} exceeds maximum message size")
        if not is_valid_literal(entry.name) or sequence < config.first_seq:
            raise ArchiveError(f"failed to store message sequence {sequence}: {_MISMATCH}")
        accounted = stored_bytes(config.storage, entry.name, entry.headers, entry.payload)
        try:
            if self._allowance is not None and (
                refusal := self._allowance(accounted + store.state().bytes)
            ):
                raise refusal
            check_discard_new(config, store, entry.name, accounted, is_rollup=False)
        except ApiError as error:
            reason = error.description
            raise ArchiveError(f"failed to store message sequence {sequence}: {reason}") from None
        store.append(entry.name, entry.headers, entry.payload, entry.timestamp, sequence)
        self._last_ts = entry.timestamp


def _read_state(entry: ArchiveEntry) -> StreamState:
    if entry.name != STATE_NAME:
        raise ArchiveError("expected state.json first")
    try:
        state = decode(entry.payload, StreamState, strict=False)
    except ApiError as error:
        reason = error.description.removeprefix("invalid JSON: ")
        raise ArchiveError(f"error in state.json: {reason}") from None
    if max(state.first_seq, state.last_seq) > SEQUENCE_MAX:
        raise ArchiveError("invalid stream state: sequence is too large")
    if state.messages and state.messages > state.last_seq - state.first_seq + 1:
        raise ArchiveError("invalid stream state: message count exceeds sequence range")
    return state
