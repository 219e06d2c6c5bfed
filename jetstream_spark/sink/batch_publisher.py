"""Rows published in atomic batches, one at a time: each is answered before the next one is sent.

This is for batches what `publisher.py` is for single rows. A batch is a block - up to `atomicRows`
consecutive rows, no more than an Arrow batch holds - or with `atomicUnit=partition` the whole
partition. What happens to a batch that was not stored, or not completely:

    silence for `ackTimeout`, or the connection broke      the stream is looked into over another
                                                           connection (`recovery.py`); rows that it
                                                           does not have are sent again as a batch
    a row of it is stored already (10201)                  the stream is looked into, and the batch
                                                           sent again without it
    there was no room for it, too many batches are open,   the batch is sent again, for
    or it was lost on its way: it took too long, a row     `outageTimeout`, and all answers to it
    went elsewhere, the leader changed (10210, 10176)      are heard; then BatchLostError
    any other refusal                                      all of its rows are judged together
                                                           (`refused_rows.py`), as none is stored

Where only the last message of a subject stays, a row of a batch that an earlier attempt had stored
may be covered by an earlier row that was stored anew; then it is stored once more, by itself
(`key_order.py`, `covered_rows.py`).

Memory: the rows of a batch as they came and as they are sent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import ConnectionLostError, RowRefusedError, UnavailableError
from jetstream_spark.sink.atomic_batch import held_bytes, write_atomic_batch
from jetstream_spark.sink.batch_outcome import BatchOutcome, RowPlaces
from jetstream_spark.sink.covered_rows import CoveredRows, covered_row
from jetstream_spark.sink.key_order import KeyOrder
from jetstream_spark.sink.outgoing_rows import OutgoingRows, joined_rows
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.refusals import DUPLICATE_IN_BATCH, is_lost
from jetstream_spark.sink.refused_rows import RefusedRows
from jetstream_spark.sink.stored_rows import places_not_in, sequences_of

# A partition that is one batch is held completely, here and at the server. As the bundled server
# counts, which holds 256 MiB of a stream: 1 MiB of that is for what a mapping adds to subjects.
PARTITION_BYTES_MAX = 255 << 20
# Of payloads that wait to be stored again.
COVERED_BYTES_MAX = 8 << 20


class BatchPublisher:
    """One write: a connection of the pool, and the batch that is on its way.

    Ended by `close`, or by `abandon`. Args: as `Publisher`.

    Attributes:
        duplicates: rows that the stream already had.
        last_sequence: as far as the stream is known to have come.
    """

    def __init__(self, recovery: Recovery, flow: Flow) -> None:
        inquiry = recovery.inquiry
        self.duplicates = 0
        self.last_sequence = inquiry.last_sequence if inquiry else 0
        self._host = recovery.host
        self._options = recovery.options
        self._inquiry = inquiry
        self._recovery = recovery
        self._flow = flow
        can_go_back = inquiry is not None and inquiry.can_go_back
        self._order = KeyOrder() if can_go_back else None
        self._covered = CoveredRows(recovery)
        self._refused = RefusedRows(recovery.host, recovery.options)
        self._held: list[tuple[OutgoingRows, RowPlaces]] = []  # of a partition that is one batch
        self._held_bytes = 0

    @property
    def dead_letters(self) -> int:
        """Rows that the stream refused and the dead-letter subject took."""
        return self._refused.dead_letters

    def close(self) -> Operation[None]:
        """Give the connection back."""
        yield from self._recovery.put_back(self._flow)

    def abandon(self) -> None:
        """End the connection, whatever is under way."""
        self._flow.close()

    def publish_rows(
        self, rows: OutgoingRows, first_row: int, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Operation[None]:
        """Write those of consecutive rows that are wanted; return when they are stored.

        Args:
            first_row: number of the first one in the partition.

        Raises: as `Publisher.publish`; with `atomicUnit=partition` RowRefusedError where there are
            too many rows for a batch, before anything was sent.
        """
        # Blocks are cut before stored rows are left out: so an attempt that goes on where another
        # one ended has the same blocks, and no batch has rows of two of them.
        is_block = self._options.atomic_unit == "block"
        size = self._options.atomic_rows if is_block else max(len(rows), 1)
        for start in range(0, len(rows), size):
            block = rows.part(start, size)
            numbers = np.arange(start, start + len(block)) + first_row
            if wanted is not None:
                keep = np.flatnonzero(wanted[start : start + size])
                block, numbers = block.at(keep), numbers[keep]
            if is_block:
                yield from self._write(block, numbers)
            else:
                self._hold(block, numbers)

    def finish(self) -> Operation[None]:
        """Write what was held back; afterwards no row is covered by one before it."""
        if self._held:
            rows = joined_rows([part for part, _ in self._held])
            numbers = np.concatenate([part for _, part in self._held])
            self._held.clear()
            yield from self._write(rows, numbers)
        yield from self._store_covered()

    def _store_covered(self) -> Operation[None]:
        if len(self._covered) and self._order is not None:
            self._flow, *stored = yield from self._covered.store(self._flow)
            self._order.note_again(*stored)

    def _hold(self, rows: OutgoingRows, numbers: RowPlaces) -> None:
        if not len(rows):
            return
        self._held.append((rows, numbers))
        self._held_bytes += held_bytes(rows)
        count, most = sum(len(part) for _, part in self._held), self._options.atomic_rows
        if count > most or self._held_bytes > PARTITION_BYTES_MAX:
            size = f"{count} rows" if count > most else f"{self._held_bytes} bytes"
            limit = f"{most} rows" if count > most else f"{PARTITION_BYTES_MAX} bytes"
            limit += "" if count > most else ", with headers and 1 KiB for each row"
            raise RowRefusedError(
                int(numbers[-1]),
                "",
                f"the partition has {size} or more, and atomicUnit=partition stores it as one "
                f"batch of at most {limit}; nothing of it was sent",
                "Write smaller partitions (repartition), or set atomicUnit=block.",
            )

    def _write(self, rows: OutgoingRows, numbers: RowPlaces) -> Operation[None]:
        """Write rows until each is stored, or a dead letter."""
        keep = _without_repeated_ids(rows)
        self.duplicates += len(rows) - len(keep)
        rows, numbers = rows.at(keep), numbers[keep]
        sequences = yield from self._stored_at(rows, numbers)
        if self._order is None:
            return
        behind = self._order.take(rows.subjects, sequences)
        for place, over in zip(behind.places.tolist(), behind.over.tolist(), strict=True):
            frame = bytes(rows.part(place, 1).frames(b"", 0)[0])
            self._covered.add(covered_row(frame, int(numbers[place]), over))
        if self._covered.nbytes > COVERED_BYTES_MAX:
            yield from self._store_covered()

    def _stored_at(self, rows: OutgoingRows, numbers: RowPlaces) -> Operation[RowPlaces]:
        """Write rows; return where the stream has each: 0 where it does not, or no longer has what
        an earlier attempt had stored."""
        first, sequences = numbers, np.zeros(len(rows), dtype=np.int64)
        after, first_sent, tries = self.last_sequence, self._host.now(), 0
        was_lost = False
        while len(rows):
            self._flow = yield from self._recovery.renewed(self._flow)
            try:
                outcome = yield from self._send(rows, numbers, hears_all=was_lost)
            except (TimeoutError, ConnectionLostError, UnavailableError) as error:
                subject = bytes(rows.subject_column()[0].as_py())
                lost = len(rows), subject, after, first_sent
                self._flow, stored = yield from self._recovery.replace(self._flow, error, *lost)
                keep = places_not_in(stored.ids, rows, numbers, self._inquiry)
                found, teller = sequences_of(stored.ids, rows), stored.server_id
            else:
                if outcome.last_sequence:
                    self._refused.note_progress()
                self._recovery.note_progress()
                self.last_sequence = max(self.last_sequence, outcome.last_sequence)
                is_lost_now = any(is_lost(one.err_code) for one in outcome.refusals)
                was_lost |= is_lost_now
                tries += not is_lost_now
                keep, found, teller = yield from self._judge(outcome, rows, numbers, tries)
            self._recovery.witnesses.note_highest(teller, rows.ids, found)
            sequences[np.searchsorted(first, numbers)] = found
            rows, numbers = rows.at(keep), numbers[keep]
        return sequences

    def _send(
        self, rows: OutgoingRows, numbers: RowPlaces, *, hears_all: bool
    ) -> Operation[BatchOutcome]:
        to, first = (self._options.stream, self._options.ack_timeout_s), int(numbers[0])
        return (yield from write_atomic_batch(self._flow, rows, *to, first, hears_all=hears_all))

    # --- what was not stored ----------------------------------------------------------------

    def _judge(
        self, outcome: BatchOutcome, rows: OutgoingRows, numbers: RowPlaces, tries: int
    ) -> Operation[tuple[RowPlaces, RowPlaces, str]]:
        """Return the places of rows that are to be sent again, the others are done with; the
        sequence of each row, 0 where it is not stored, or not known; and the id of the server that
        said so."""
        unknown, teller = np.zeros(len(rows), dtype=np.int64), self._flow.server_id
        if not outcome.refusals:
            last = outcome.last_sequence
            return np.arange(0), np.arange(last - len(rows) + 1, last + 1), teller
        for refusal in outcome.refusals:
            if refusal.err_code == DUPLICATE_IN_BATCH and self._inquiry is not None:
                stored = yield from self._inquiry.recent_ids()
                missing = places_not_in(stored.ids, rows, numbers, self._inquiry)
                if len(missing) < len(rows):
                    self.duplicates += len(rows) - len(missing)
                    return missing, sequences_of(stored.ids, rows), stored.server_id
            named = rows.at(refusal.places), numbers[refusal.places]
            if (yield from self._refused.judge(refusal, *named, tries)):
                return refusal.places, unknown, teller
        return np.arange(0), unknown, teller


def _without_repeated_ids(rows: OutgoingRows) -> RowPlaces:
    """The places of rows whose id no row before them has."""
    if rows.ids is None:
        return np.arange(len(rows))
    distinct = pc.unique(rows.ids)
    if len(distinct) == len(rows):
        return np.arange(len(rows))
    firsts = pc.index_in(distinct, value_set=rows.ids)
    return np.sort(firsts.to_numpy().astype(np.int64))
