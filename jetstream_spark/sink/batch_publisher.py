"""Rows published in batches: one batch at a time, its answer awaited before the next one.

What `publisher.py` is for single rows. A batch is a block - up to `atomicRows` consecutive rows, no
more than an Arrow batch brings - or with `atomicUnit=partition` the whole partition. What happens
to one that was not stored, or not all of it:

    the stream is busy                                     again, `publishRetries` times
    too many batches have been begun                       again, for `outageTimeout`
    silence for `ackTimeout`, or the connection broke      the stream is looked into over another
                                                           connection (`recovery.py`); rows that it
                                                           has not got are sent as a batch again
    a row of an atomic batch is stored already (10201)     the stream is looked into, and the batch
                                                           sent again without it
    any other refusal                                      PublishRefusedError; or, with
                                                           onError=deadLetter, its rows go there: of
                                                           an atomic batch all, as none is stored

Memory: the rows of a batch as they came and as they are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import Patience
from jetstream_spark.errors import (
    ConnectionLostError,
    PublishRefusedError,
    RequestRefusedError,
    RowRefusedError,
    UnavailableError,
)
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.atomic_batch import write_atomic_batch
from jetstream_spark.sink.batch_outcome import BatchOutcome, Places, Refusal
from jetstream_spark.sink.claim import Claim
from jetstream_spark.sink.dead_letter import dead_letter
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.last_stored import LastStored
from jetstream_spark.sink.outgoing_rows import OutgoingRows, joined_rows
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.refusals import (
    DUPLICATE_IN_BATCH,
    NOBODY,
    TOO_MANY_BATCHES,
    is_about_the_stream,
    is_passing,
    refused,
)

RETRY_PAUSE_S = 0.25
# A partition that is one batch is held as a whole, here and at the server.
PARTITION_BYTES_MAX = 256 << 20


class BatchPublisher:
    """One write: a connection of the pool, and the batch that is on its way.

    Made by `open`, ended by `close`.

    Attributes:
        duplicates: rows that the stream already had.
        dead_letters: rows that the stream refused and the dead-letter subject took.
        last_sequence: as far as the stream is known to have come.
    """

    def __init__(
        self, host: Host, options: SinkOptions, inquiry: Inquiry | None, recovery: Recovery
    ) -> None:
        self.duplicates = 0
        self.dead_letters = 0
        self.last_sequence = inquiry.last_sequence if inquiry else 0
        self._host = host
        self._options = options
        self._inquiry = inquiry
        self._recovery = recovery
        self._flow: Flow
        self._control = Control(host, options.connection, "writer")
        self._crowd = Patience(host, options.connection.outage_timeout_s)
        self._held: list[tuple[OutgoingRows, Places]] = []
        self._held_bytes = 0

    @classmethod
    def open(
        cls,
        host: Host,
        options: SinkOptions,
        inquiry: Inquiry | None,
        claim: Claim | None = None,
    ) -> Operation[BatchPublisher]:
        """Take a connection of the pool. Args: as `Publisher.open`."""
        publisher = cls(host, options, inquiry, Recovery(host, options, inquiry, claim))
        publisher._flow = yield from publisher._recovery.take()
        return publisher

    def close(self) -> Operation[None]:
        """Give the connection back."""
        yield from self._recovery.put_back(self._flow)

    def abandon(self) -> None:
        """End the connection, whatever is on its way."""
        self._flow.close()

    def publish_rows(
        self, rows: OutgoingRows, first_row: int, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Operation[None]:
        """Write consecutive rows, those that are wanted; return when they are stored.

        Args:
            first_row: number of the first one in the partition.

        Raises: as `Publisher.publish`; with `atomicUnit=partition` RowRefusedError where there are
            too many rows for a batch, before anything was sent.
        """
        numbers = np.arange(first_row, first_row + len(rows))
        if wanted is not None:
            rows, numbers = rows.at(np.flatnonzero(wanted)), numbers[wanted]
        if self._options.atomic_unit == "partition":
            self._hold(rows, numbers)
            return
        size = self._options.atomic_rows
        for start in range(0, len(rows), size):
            yield from self._write(rows.part(start, size), numbers[start : start + size])

    def finish(self) -> Operation[None]:
        """Write what was held back."""
        if self._held:
            rows = joined_rows([part for part, _ in self._held])
            numbers = np.concatenate([part for _, part in self._held])
            self._held.clear()
            yield from self._write(rows, numbers)

    def _hold(self, rows: OutgoingRows, numbers: Places) -> None:
        if not len(rows):
            return
        self._held.append((rows, numbers))
        self._held_bytes += rows.nbytes
        count, most = sum(len(part) for _, part in self._held), self._options.atomic_rows
        if count > most or self._held_bytes > PARTITION_BYTES_MAX:
            size = f"{count} rows" if count > most else f"{self._held_bytes} bytes"
            limit = f"{most} rows" if count > most else f"{PARTITION_BYTES_MAX} bytes"
            raise RowRefusedError(
                int(numbers[-1]),
                "",
                f"the partition has {size} or more, and atomicUnit=partition stores it as one "
                f"batch of at most {limit}; nothing of it was sent",
                "Write smaller partitions (repartition), or set atomicUnit=block.",
            )

    def _write(self, rows: OutgoingRows, numbers: Places) -> Operation[None]:
        """Write rows until each is stored, or a dead letter."""
        keep = _without_repeated_ids(rows)
        self.duplicates += len(rows) - len(keep)
        rows, numbers = rows.at(keep), numbers[keep]
        after, first_sent, tries = self.last_sequence, self._host.now(), 0
        while len(rows):
            yield from self._refresh()
            try:
                outcome = yield from self._send(rows, numbers)
            except (TimeoutError, ConnectionLostError, UnavailableError) as error:
                stored = yield from self._recover(error, rows, after, first_sent)
                keep = self._not_in(stored, rows, numbers)
            else:
                if outcome.last_sequence:
                    self._crowd.note_progress()
                self._recovery.note_progress()
                self.last_sequence = max(self.last_sequence, outcome.last_sequence)
                tries += 1
                keep = yield from self._judge(outcome, rows, numbers, tries)
            rows, numbers = rows.at(keep), numbers[keep]

    def _send(self, rows: OutgoingRows, numbers: Places) -> Operation[BatchOutcome]:
        options = self._options
        write: Callable[..., Operation[BatchOutcome]] = write_atomic_batch
        args: tuple[Any, ...] = (self._flow, rows, options.stream, options.ack_timeout_s)
        return (yield from write(*args, int(numbers[0])))

    def _refresh(self) -> Operation[None]:
        """Hear what was said meanwhile; go on at another server if this one is gone or ends."""
        flow = self._flow
        try:
            if not flow.buffer.room:
                flow.buffer.make_room(1 << 16)
            yield from flow.receive(self._host.now())
            while (message := flow.next_message()) is not None:
                self._recovery.check(message)
        except (TimeoutError, ConnectionLostError):
            pass
        if not flow.is_open or flow.is_leaving:
            flow.close()
            self._flow = yield from self._recovery.take()

    # --- what was not stored ----------------------------------------------------------------

    def _recover(
        self, error: Exception, rows: OutgoingRows, after: int, first_sent: float
    ) -> Operation[set[bytes]]:
        """Nobody knows what became of a batch: return the ids of it that are stored."""
        recovery = self._recovery
        inquiry = recovery.begin(self._flow, error, len(rows))
        subject = bytes(rows.subject_column()[0].as_py())
        while True:
            recovery.give_up(self._flow)
            try:
                self._flow, stored = yield from recovery.reconnect(subject, after)
                break
            except recovery.PASSING as again:
                yield from recovery.wait(again, len(rows))
        inquiry.check_window(first_sent, self._options.ack_timeout_s)
        return stored

    def _not_in(self, stored: set[bytes], rows: OutgoingRows, numbers: Places) -> Places:
        """The places of rows that the stream has not got."""
        assert rows.ids is not None, "without ids nothing is looked up"
        known = pc.is_in(rows.ids, pa.array(stored, pa.binary()))
        is_stored = known.to_numpy(zero_copy_only=False)
        if self._inquiry is not None and self._inquiry.keeps_last:
            last, subjects = LastStored(), rows.subject_column()
            last.note(subjects.filter(known), numbers[is_stored])
            is_stored = is_stored | last.is_after(subjects, numbers)
        return np.flatnonzero(~is_stored)

    def _judge(
        self, outcome: BatchOutcome, rows: OutgoingRows, numbers: Places, tries: int
    ) -> Operation[Places]:
        """Return the places of rows that are to be sent again; the others are done with."""
        again: list[Places] = []
        for refusal in outcome.refusals:
            if refusal.err_code == DUPLICATE_IN_BATCH and self._inquiry is not None:
                stored = yield from self._inquiry.recent_ids()
                missing = self._not_in(stored, rows, numbers)
                if len(missing) < len(rows):
                    self.duplicates += len(rows) - len(missing)
                    return missing
            if refusal.err_code in TOO_MANY_BATCHES:
                yield from self._crowd.wait(self._refused(rows, numbers, refusal), "a write")
                return np.arange(len(rows))
            if is_passing(refusal.code, refusal.err_code) and (
                tries <= self._options.publish_retries
            ):
                again.append(refusal.places)
                continue
            yield from self._divert(rows.at(refusal.places), numbers[refusal.places], refusal)
        if not again:
            return np.arange(0)
        yield Pause(self._host.now() + RETRY_PAUSE_S)
        return np.sort(np.concatenate(again))

    def _divert(self, rows: OutgoingRows, numbers: Places, refusal: Refusal) -> Operation[None]:
        """The server refused rows for good: send them to the dead-letter subject, or give up."""
        options = self._options
        if refusal.code == NOBODY:
            yield from self._control.stream_state(options.stream)  # it may be gone
        if options.on_error != "deadLetter" or is_about_the_stream(refusal.err_code):
            raise self._refused(rows, numbers, refusal)
        target, frames = options.dead_letter_subject, rows.frames(b"", 0)
        reason = f"{refusal.text} (error {refusal.err_code})"
        for row in range(len(rows)):
            start, stop = frames[1][row : row + 2]
            letter = dead_letter(bytes(memoryview(frames[0])[start:stop]), reason)
            try:
                yield from self._control.request_message(target, letter.payload, letter.headers)
            except RequestRefusedError as error:
                said = error.code, error.err_code, error.description
                raise refused(int(numbers[row]), target, *said) from None
            self.dead_letters += 1

    def _refused(
        self, rows: OutgoingRows, numbers: Places, refusal: Refusal
    ) -> PublishRefusedError:
        subject = bytes(rows.subject_column()[0].as_py()).decode("utf-8", "replace")
        text = refusal.text
        if len(rows) > 1:
            text += f" (this row or one of the {len(rows) - 1} after it in its batch)"
        return refused(int(numbers[0]), subject, refusal.code, refusal.err_code, text)


def _without_repeated_ids(rows: OutgoingRows) -> Places:
    """The places of rows whose id no row before them has."""
    if rows.ids is None:
        return np.arange(len(rows))
    distinct = pc.unique(rows.ids)
    if len(distinct) == len(rows):
        return np.arange(len(rows))
    firsts = pc.index_in(distinct, value_set=rows.ids)
    return np.sort(firsts.to_numpy().astype(np.int64))
