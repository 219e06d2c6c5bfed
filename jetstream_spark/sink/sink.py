"""The sink: Arrow batches into a stream, each row acknowledged, none written twice.

A task writes one partition: it finds out where the ledger says it stands, gives every row its id,
encodes whole batches, publishes them with a window in flight, waits for every ack, and notes that
in the ledger. The driver's `commit` then marks the micro-batch as written. None of this does I/O
(`operation.py`); how Spark calls it is in `writer.py`.

What tells a row's re-run from a new row is the scope (`ledger.Scope`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import OptionsError, StreamRecreatedError
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.options.object_options import INFO_SUBJECTS
from jetstream_spark.sink.batch_publisher import BatchPublisher
from jetstream_spark.sink.claim import Claim
from jetstream_spark.sink.fast_publisher import FastPublisher
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.last_stored import LastStored
from jetstream_spark.sink.ledger import Attempt, Ledger, Scope, Standing
from jetstream_spark.sink.message_ids import MessageIds
from jetstream_spark.sink.object_publisher import ObjectPublisher
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.publisher import Publisher
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.stored_ids import StoredIds, read_stored_ids
from jetstream_spark.sink.witnesses import Witness, Witnesses, first_gone

# Frames of one kernel call: small enough for the cache, and far below 2 GiB.
BLOCK_BYTES = 8 << 20
_AGAIN_WITHOUT_LEDGER = (
    "Run it again: all of it is written to the stream as it is now, but for rows that its "
    "duplicate_window recognises."
)

_log = logging.getLogger("jetstream_spark")


@dataclass
class WrittenPartition(WriterCommitMessage):
    """What one task wrote.

    Attributes:
        rows: rows of the partition, all of them acknowledged by a stream.
        dead_letters: of these, rows that went to the dead-letter subject.
        duplicates: of these, rows that the server recognised from an earlier attempt; None when it
            does not tell.
        skipped: of these, rows that were not sent because an earlier attempt had stored them.
        data_bytes: of the payloads of all rows but those.
        created: the incarnation of the stream that was written to, "" when none was.
        last_sequence: as far as that stream is known to have come.
        witnesses: rows that show whether the stream has what it had then.
        differs: the rows were skipped because their version was written before, with other rows.
    """

    scope: Scope
    partition: int
    rows: int
    duplicates: int | None = 0
    skipped: int = 0
    dead_letters: int = 0
    data_bytes: int = 0
    created: str = ""
    last_sequence: int = 0
    differs: bool = False
    witnesses: tuple[Witness, ...] = ()


class Columns(Protocol):
    """What a write takes from an Arrow batch."""

    def take(self, batch: pa.RecordBatch, first_row: int) -> OutgoingRows:
        """Return the columns of a batch whose first row is number `first_row` of the partition."""


class Sink:
    """One write: where its partitions go, and how they are kept from being written twice.

    Args:
        spool: makes batches readable more than once; called where the rows have to be compared with
            those of an earlier attempt first.
    """

    def __init__(
        self,
        host: Host,
        options: SinkOptions,
        columns: Columns,
        spool: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    ) -> None:
        self.options = options
        self.columns = columns
        self._host = host
        self._spool = spool

    def write_partition(
        self, batches: Iterable[pa.RecordBatch], scope: Scope, partition: int
    ) -> Operation[WrittenPartition]:
        """Write one partition; return when every row is acknowledged.

        Args:
            scope: of the write; rows that it has written before are not written again.
            partition: its number.

        Raises:
            RowRefusedError, PublishRefusedError: a row cannot be stored, and is no dead letter.
            OptionsError: the stream does not allow what the options ask for.
            StreamNotFoundError: the stream is not there.
            LedgerError: the ledger cannot be used, or has a later version (`WriterFencedError`).
            RetryableError: the servers did not answer, or had no room for a batch, or another
                attempt has begun.
        """
        ledger = self.ledger(scope)
        if ledger is None:
            stream = yield from self._stream_state()
            ids = MessageIds(scope.text, partition)
            return (yield from self._publish(batches, scope, ids, StoredIds(), stream))
        attempt = yield from ledger.begin(partition)
        if attempt.standing is Standing.COMMITTED:
            return self._skipped(attempt, batches, scope, partition)
        assert attempt.stream is not None, "only a committed attempt knows no stream"
        if attempt.standing is Standing.DONE:
            # The rows are needed twice: to compare them, and maybe to write them after all.
            batches = self._spool(batches)
            ids = self._ids_of(batches, scope, partition)
            if ids.fingerprint == attempt.fingerprint:
                rows, created = ids.fingerprint.rows, attempt.stream.created
                return WrittenPartition(
                    scope,
                    partition,
                    rows,
                    skipped=rows,
                    created=created,
                    witnesses=attempt.witnesses,
                )
            _log.warning(
                "partition %d of %s was written before with other rows; rows of it that were in "
                "another partition then are written twice, because the number of partitions was "
                "changed since, or the query is not deterministic",
                partition,
                scope.text,
            )
            yield from ledger.reopen(attempt)
        check_batches(attempt.stream, self.options)
        if attempt.stream.retention != "limits":
            check_duplicate_window(attempt.stream, self.options)
        ids = MessageIds(scope.text, partition)
        claim = Claim(self._control(), ledger, attempt)
        stored = StoredIds()
        is_resumed = bool(attempt.before) or attempt.standing is not Standing.FIRST
        if is_resumed:
            subject, batches = self._first_subject(batches)
            if subject:
                yield from claim.outlive(subject)
                stored = yield from self._stored_ids(attempt, attempt.stream, scope, ids)
        last = None
        if stored.ids and (attempt.stream.keeps_last or self.options.object_store):
            if attempt.standing is not Standing.DONE:
                batches = self._spool(batches)
            last = self._last_stored(batches, scope, partition, stored.ids)
        written = yield from self._publish(
            batches, scope, ids, stored, attempt.stream, last, is_resumed, claim
        )
        done = ids.fingerprint, written.last_sequence, written.witnesses
        yield from ledger.finish(attempt, *done)
        return written

    def _skipped(
        self, attempt: Attempt, batches: Iterable[pa.RecordBatch], scope: Scope, partition: int
    ) -> WrittenPartition:
        """The result for a partition whose version was written before."""
        if attempt.fingerprint is None:
            rows = sum(batch.num_rows for batch in batches)
            return WrittenPartition(
                scope, partition, rows, skipped=rows, witnesses=attempt.witnesses
            )
        here = self._ids_of(batches, scope, partition).fingerprint
        differs = here != attempt.fingerprint
        return WrittenPartition(
            scope,
            partition,
            here.rows,
            skipped=here.rows,
            differs=differs,
            witnesses=attempt.witnesses,
        )

    def ledger(self, scope: Scope) -> Ledger | None:
        """Return the ledger of a write; None when it has none."""
        options = self.options
        if options.ledger == "none" or options.dedupe == "none" or not options.stream:
            return None
        return Ledger(self._control(), options.ledger_bucket, scope, options.stream)

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> Operation[None]:
        """Note in the ledger that all partitions are written.

        Raises: as `Ledger.commit`;
            StreamRecreatedError: without a ledger, where tasks wrote to several incarnations, or
                were told by several servers of rows that are gone now.
        """
        written = [one for one in messages if isinstance(one, WrittenPartition)]
        incarnations = {one.created for one in written if one.created}
        if written and (ledger := self.ledger(written[0].scope)):
            yield from ledger.commit(
                sum(one.rows for one in written),
                incarnations,
                reached=max(one.last_sequence for one in written),
                witnesses=[witness for one in written for witness in one.witnesses],
                differs=any(one.differs for one in written),
            )
        elif len(incarnations) > 1:
            raise StreamRecreatedError(
                f"stream '{self.options.stream}' was deleted and made again while "
                f"{written[0].scope.text} was written; rows of it are gone with the old one.",
                _AGAIN_WITHOUT_LEDGER,
            )
        else:
            yield from self._look_back(written)

    def _look_back(self, written: Sequence[WrittenPartition]) -> Operation[None]:
        """Without a ledger, look for the rows of tasks that were told by several servers.

        Raises:
            StreamRecreatedError: some are gone.
        """
        witnesses = [witness for one in written for witness in one.witnesses]
        if not self.options.stream or len({one.server for one in witnesses}) < 2:
            return
        control, name = self._control(), self.options.stream
        state = yield from control.stream_state(name)
        stale = [one for one in witnesses if one.server != control.server_id]
        is_short = not state.is_replicated  # else its leader may be late
        missing = [one for one in stale if is_short and one.sequence >= state.next]
        gone = missing[0] if missing else (yield from first_gone(control, name, stale))
        if gone is not None:
            raise StreamRecreatedError(
                f"stream '{name}' does not have at sequence {gone.sequence} what it had there "
                f"while {written[0].scope.text} was written: it was deleted and made again, or "
                "brought back from an older copy, and acknowledged rows are gone.",
                _AGAIN_WITHOUT_LEDGER,
            )

    def _control(self) -> Control:
        return Control(self._host, self.options.connection, "writer")

    def _publish(
        self,
        batches: Iterable[pa.RecordBatch],
        scope: Scope,
        ids: MessageIds,
        stored: StoredIds,
        stream: StreamState | None,
        last: LastStored | None = None,
        is_resumed: bool = False,
        claim: Claim | None = None,
    ) -> Operation[WrittenPartition]:
        row = skipped = data_bytes = 0
        known = pa.array(list(stored.ids), pa.binary()) if stored.ids else None
        found = np.array(list(stored.ids.values()), dtype=np.int64)
        witnesses = Witnesses()
        publisher = yield from self._open(stream, ids, is_resumed, claim, witnesses)
        try:
            for block in _blocks(batches):
                rows = self.columns.take(block, row)
                rows.ids = self._row_ids(rows, ids)
                wanted = _not_in(rows.ids, known)
                if stream is not None and rows.ids is not None and known is not None:
                    places = pc.index_in(known, value_set=rows.ids)
                    ours = np.flatnonzero(places.is_valid())
                    witnesses.note_highest(stored.server_id, known.take(ours), found[ours])
                if wanted is not None and last is not None:
                    wanted &= ~last.is_after(rows.subjects, np.arange(row, row + len(wanted)))
                if wanted is not None:
                    skipped += len(wanted) - int(wanted.sum())
                data_bytes += rows.data_bytes(wanted)
                yield from publisher.publish_rows(rows, row, wanted)
                row += block.num_rows
            yield from publisher.finish()
        except BaseException:
            publisher.abandon()
            raise
        yield from publisher.close()
        dead = publisher.dead_letters
        if dead:
            target = self.options.dead_letter_subject
            _log.warning("%d of %d rows of %s went to '%s'", dead, row, scope.text, target)
        return WrittenPartition(
            scope,
            ids.partition,
            row,
            publisher.duplicates,
            skipped,
            dead,
            data_bytes,
            created=stream.created if stream is not None else "",
            last_sequence=publisher.last_sequence,
            witnesses=witnesses.found(),
        )

    def _open(
        self,
        stream: StreamState | None,
        ids: MessageIds,
        is_resumed: bool,
        claim: Claim | None,
        witnesses: Witnesses,
    ) -> Operation[Publisher | BatchPublisher | FastPublisher | ObjectPublisher]:
        if self.options.object_store:
            recovery = Recovery(self._host, self.options, None, claim, witnesses)
            tag = ids.tag.decode()
            return ObjectPublisher(self._host, self.options, tag, is_resumed, recovery)
        inquiry = self._inquiry(stream, ids)
        recovery = Recovery(self._host, self.options, inquiry, claim, witnesses)
        flow = yield from recovery.take()
        if self.options.publish_mode == "atomic":
            return BatchPublisher(recovery, flow)
        keeps_last = stream is not None and stream.keeps_last
        # The answer to a fast batch does not tell which of its rows the stream had already. Without
        # a ledger nothing else does, and a key might go back to an earlier row (`key_order.py`).
        is_told = claim is not None or inquiry is None or not inquiry.can_go_back
        if self.options.publish_mode == "fast" and is_told:
            looks = claim is not None and inquiry is not None and inquiry.can_look
            is_alone = looks and self.options.dedupe == "auto"
            return FastPublisher(recovery, flow, is_ordered=keeps_last, is_alone=is_alone)
        return Publisher(recovery, flow)

    def _first_subject(
        self, batches: Iterable[pa.RecordBatch]
    ) -> tuple[str, Iterable[pa.RecordBatch]]:
        """Return the subject of the first row, "" without rows; and the batches as they were."""
        rest = iter(batches)
        taken: list[pa.RecordBatch] = []
        for batch in rest:
            taken.append(batch)
            if batch.num_rows:
                subjects = self.columns.take(batch.slice(0, 1), 0).subjects
                subject = subjects if isinstance(subjects, bytes) else subjects[0].as_py()
                return bytes(subject).decode(), itertools.chain(taken, rest)
        return "", taken

    def _row_ids(self, rows: OutgoingRows, ids: MessageIds) -> pa.BinaryArray | None:
        """Return the ids of rows, and count them into the fingerprint."""
        if self.options.dedupe == "none":
            return None
        if rows.ids is not None:
            ids.note(rows.ids)
            return rows.ids
        return ids.of_rows(rows.subjects, rows.lines, rows.payloads)

    def _ids_of(
        self, batches: Iterable[pa.RecordBatch], scope: Scope, partition: int
    ) -> MessageIds:
        ids = MessageIds(scope.text, partition)
        row = 0
        for block in _blocks(batches):
            self._row_ids(self.columns.take(block, row), ids)
            row += block.num_rows
        return ids

    def _last_stored(
        self,
        batches: Iterable[pa.RecordBatch],
        scope: Scope,
        partition: int,
        stored: Collection[bytes],
    ) -> LastStored:
        """Find out which row is the last stored one of each subject."""
        ids, known = MessageIds(scope.text, partition), pa.array(list(stored), pa.binary())
        last, row = LastStored(), 0
        for block in _blocks(batches):
            rows = self.columns.take(block, row)
            wanted = _not_in(self._row_ids(rows, ids), known)
            assert wanted is not None, "rows that were looked for have ids"
            found, subjects = np.flatnonzero(~wanted), rows.subjects
            if not isinstance(subjects, bytes):
                subjects = subjects.take(pa.array(found))
            last.note(subjects, row + found)
            row += block.num_rows
        return last

    def _inquiry(self, stream: StreamState | None, ids: MessageIds) -> Inquiry | None:
        """The inquiry into rows whose acks do not come; None without ids."""
        if self.options.dedupe == "none":
            return None
        window_s = self.options.min_duplicate_window_s if stream is None else _window_s(stream)
        subject = self._stored_subject(stream) if stream is not None else ""
        return Inquiry(self._control(), stream, window_s, self._id_prefix(ids), subject)

    def _id_prefix(self, ids: MessageIds) -> bytes:
        return ids.tag if self.options.dedupe == "auto" else b""

    def _stored_subject(self, stream: StreamState) -> str:
        """The pattern of what is written with an id; "" when it is unknown or matches
        everything."""
        if self.options.object_store:
            return INFO_SUBJECTS[0]
        # What the stream transforms is not stored under the subject that it was published to.
        return "" if stream.config.get("subject_transform") else self.options.subject

    def _stored_ids(
        self, attempt: Attempt, stream: StreamState, scope: Scope, ids: MessageIds
    ) -> Operation[StoredIds]:
        """Return the ids that earlier attempts at this partition stored, with their sequences."""
        if stream.retention != "limits":
            _log.warning(
                "partition %d of %s is written again into '%s', which has %s retention; rows that "
                "earlier attempts wrote are only recognised within its duplicate_window",
                ids.partition,
                scope.text,
                stream.name,
                stream.retention,
            )
            return StoredIds()
        subject = self._stored_subject(stream)
        look = stream.name, attempt.first_sequence, self._id_prefix(ids), subject
        return (yield from read_stored_ids(self._control(), *look))

    def _stream_state(self) -> Operation[StreamState | None]:
        """Look at the stream of a write without a ledger, if it was named."""
        has_ids = self.options.dedupe != "none"
        if not self.options.stream or not (has_ids or self.options.publish_mode != "each"):
            return None
        stream = yield from self._control().stream_state(self.options.stream)
        check_batches(stream, self.options)
        if has_ids and not self.options.object_store:  # the object says who wrote it
            check_duplicate_window(stream, self.options)
        return stream


def check_batches(stream: StreamState, options: SinkOptions) -> None:
    """Refuse to begin a write in batches that the stream would refuse.

    Raises:
        OptionsError: it would.
    """
    if options.publish_mode == "fast" and not stream.config.get("allow_batched"):
        raise OptionsError(
            [f"option 'publishMode' is fast, but stream '{stream.name}' does not allow it"],
            "Set allow_batched on the stream (nats-server 2.14 or later; it can be set while the "
            "stream is in use), or leave publishMode out: what is promised is the same.",
        )
    if options.publish_mode != "atomic":
        return
    if not stream.config.get("allow_atomic"):
        raise OptionsError(
            [f"option 'publishMode' is atomic, but stream '{stream.name}' does not allow it"],
            "Set allow_atomic on the stream (nats-server 2.12 or later; it can be set while the "
            "stream is in use), or leave publishMode out.",
        )
    if stream.retention != "limits" and options.dedupe != "none":
        raise OptionsError(
            [
                "option 'publishMode' is atomic, and which rows of a batch that was refused for a "
                f"duplicate stream '{stream.name}' has cannot be looked up, because it has "
                f"{stream.retention} retention"
            ],
            "Leave publishMode out; or set dedupe=none, and a task that is run again writes its "
            "rows again.",
        )


def check_duplicate_window(stream: StreamState, options: SinkOptions) -> None:
    """Where there is only the server's window, make sure that it is as long as promised.

    Raises:
        OptionsError: it is shorter.
    """
    needed_s, window_s = options.min_duplicate_window_s, _window_s(stream)
    if window_s >= needed_s:
        return
    remedy = "Raise duplicate_window of the stream, or lower the option"
    if stream.retention == "limits":
        remedy += ", or set ledger=auto"
    raise OptionsError(
        [
            f"option 'minDuplicateWindow' is {needed_s:g} s, but stream '{stream.name}' "
            f"({stream.retention} retention) forgets message ids after {window_s:g} s"
        ],
        f"{remedy}.",
    )


def _window_s(stream: StreamState) -> float:
    return int(stream.config.get("duplicate_window", 0)) / 1e9


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches so that each holds about `BLOCK_BYTES`, or one row."""
    for batch in batches:
        rows = batch.num_rows
        parts = min(rows, 1 + batch.nbytes // BLOCK_BYTES)
        for start, stop in _even_parts(rows, parts):
            yield batch.slice(start, stop - start)


def _even_parts(rows: int, parts: int) -> Iterator[tuple[int, int]]:
    for part in range(parts):
        yield rows * part // parts, rows * (part + 1) // parts


def _not_in(
    row_ids: pa.BinaryArray | None, known: pa.BinaryArray | None
) -> npt.NDArray[np.bool_] | None:
    if row_ids is None or known is None:
        return None
    is_known: npt.NDArray[np.bool_] = pc.is_in(row_ids, known).to_numpy(zero_copy_only=False)
    return ~is_known
