"""Publishes that are acknowledged: a window of rows in flight, every ack checked, none forgotten.

Frames come in blocks (`kernels/arrow_to_wire`), each row with the reply subject `<inbox>.<row>`.
A row is *awaiting* until the server says that a stream has it. What happens to one that waits:

    nobody answers the subject (503), or the stream is busy    sent again after a pause
    "too many requests" (429)                                  the same, with a smaller window
    silence for `ackTimeout`, or the connection broke          another connection is opened; what
                                                               the stream does not have and will not
                                                               get is sent again
    still nobody answers, and the stream was deleted           StreamNotFoundError
    any other refusal, or still nobody answers                 PublishRefusedError, with the row;
                                                               or, with onError=deadLetter, the row
                                                               goes to that subject instead

Rows are only sent again where that cannot write them twice: the server said that it did not take
the row, or rows have ids and an inquiry found that it did not (`inquiry.py`). A row is never under
way twice. An outage - no server can be reached, or the stream that collects the subject has no
leader - is waited out for `outageTimeout`; anything else fails the write after `publishRetries`
attempts, and Spark decides.

Rows sent again may land after later ones; `maxInFlight=1` keeps the order at the price of one round
trip per row. Where only the last message of a subject stays, a row that ends up covered by
a row before it is stored once more, over that one (`key_order.py`, `covered_rows.py`).

Ids are made, and remembered beyond this write, elsewhere (`message_ids`, `ledger`).
"""

from __future__ import annotations

import logging
import math
import re
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Operation
from jetstream_spark.client.patience import PASSING
from jetstream_spark.errors import (
    ConnectionLostError,
    ConnectorError,
    PublishRefusedError,
    StreamNotFoundError,
)
from jetstream_spark.kernels.arrow_to_wire import ROW_DIGITS, BytesColumn
from jetstream_spark.kernels.pub_acks import take_pub_acks
from jetstream_spark.sink.covered_rows import CoveredRows, covered_row
from jetstream_spark.sink.dead_letter import dead_letter_frame
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.key_order import KeyOrder
from jetstream_spark.sink.last_stored import LastStored
from jetstream_spark.sink.outgoing_rows import OutgoingRows, check_payloads
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.refusals import (
    NOT_STORED,
    TOO_MANY_REQUESTS,
    answer_of,
    is_passing,
    refusal_in,
    refused,
)
from jetstream_spark.sink.stored_ids import StoredIds

Rows = npt.NDArray[np.int64]

IN_FLIGHT_BYTES_MAX = 32 << 20
# One send: enough to be worth a kernel call, little enough for any link within ackTimeout.
SEND_BYTES = 256 << 10
RETRY_PAUSE_S = 0.25
# The server lets so many publishes of all tasks wait (`max_buffered_msgs`, 100,000 unless set) and
# refuses more. It refuses many rows at once, so the window is cut once per pause.
WINDOW_DIVISOR = 4
# Of payloads that wait to be stored again.
COVERED_BYTES_MAX = 8 << 20

_log = logging.getLogger("jetstream_spark")

_PLAIN_ACK = re.compile(rb'(\{"stream":"[^"\\]+", ?"seq":)[0-9]+\}')
# How often to ask whether a stream without a leader is still there.
LOOK_EVERY_S = 2.0


class _FrameBlock:
    """Frames of consecutive rows; rows are counted from 0 within the block.

    Attributes:
        subjects: of the rows, where the order of those of one subject matters.
        sequences: where the stream has each row, 0 where it does not; None where their order does
            not matter.
    """

    __slots__ = (
        "after",
        "awaiting",
        "first_row",
        "first_sent",
        "frames",
        "ids",
        "offsets",
        "pending",
        "sent",
        "sequences",
        "sizes",
        "subjects",
    )

    def __init__(
        self,
        frames: Any,
        offsets: npt.NDArray[np.int32],
        first_row: int,
        wanted: Any,
        ids: pa.BinaryArray | None,
        subjects: BytesColumn | None = None,
    ) -> None:
        rows = len(offsets) - 1
        self.frames = memoryview(frames)
        self.offsets = offsets
        self.sizes = np.diff(offsets)
        self.first_row = first_row
        self.awaiting = np.ones(rows, dtype=np.bool_) if wanted is None else wanted.copy()
        self.pending = int(self.awaiting.sum())
        self.sent = 0
        self.ids = ids
        self.subjects = subjects
        self.sequences = None if subjects is None else np.zeros(rows, dtype=np.int64)
        self.first_sent = 0.0  # seconds on the host's clock; no row of it was sent earlier
        self.after = 0  # the rows that are stored have higher sequences

    def bytes_of(self, rows: Rows) -> int:
        """Return how many bytes the frames of some rows have; the rows rise."""
        start, stop = int(rows[0]), int(rows[-1]) + 1
        if stop - start == len(rows):
            return int(self.offsets[stop] - self.offsets[start])
        return int(self.sizes[rows].sum())

    def settle(self, rows: Rows, sequences: Rows | None = None) -> tuple[int, int]:
        """Note that rows are stored; return how many were awaited, and their bytes.

        They are numbered as in the partition; some may belong to other blocks.
        """
        local = rows - self.first_row
        places = np.flatnonzero((local >= 0) & (local < self.sent))
        places = places[self.awaiting[local[places]]]
        settled = local[places]
        if self.sequences is not None and sequences is not None:
            self.sequences[settled] = sequences[places]
        if (np.diff(settled) <= 0).any():  # out of order, or twice after a second sending
            settled = np.unique(settled)
        self.awaiting[settled] = False
        self.pending -= len(settled)
        return len(settled), int(self.sizes[settled].sum())

    def settle_all(self, start: int, stop: int, sequences: Rows | None = None) -> tuple[int, int]:
        """The same for all rows of a range, which is what most acks are about."""
        first = start - self.first_row
        start, stop = max(0, first), min(self.sent, stop - self.first_row)
        if start >= stop:
            return 0, 0
        waiting = self.awaiting[start:stop]
        if self.sequences is not None and sequences is not None:
            np.copyto(
                self.sequences[start:stop], sequences[start - first : stop - first], where=waiting
            )
        count = int(np.count_nonzero(waiting))
        size = int(self.offsets[stop] - self.offsets[start])
        if count < stop - start:
            size = int(self.sizes[start:stop][waiting].sum())
        waiting[:] = False
        self.pending -= count
        return count, size

    def outstanding(self) -> Rows:
        """Return the rows that were sent and are not acknowledged."""
        return np.flatnonzero(self.awaiting[: self.sent])

    def outstanding_of(self, ids: pa.Array) -> tuple[Rows, Rows]:
        """Return those of them that have one of these ids, and the place of each one's id."""
        rows = self.outstanding()
        if self.ids is None or not len(rows):
            return rows[:0], rows[:0]
        found = pc.index_in(self.ids.take(pa.array(rows)), value_set=ids)
        places = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        return rows[places >= 0], places[places >= 0]

    def frame(self, row: int) -> memoryview:
        """Return the bytes of one row."""
        return self.frames[self.offsets[row] : self.offsets[row + 1]]

    def subject(self, row: int) -> str:
        """Return the subject of one row."""
        return bytes(self.frame(row)[:5000]).split(b" ", 2)[1].decode("utf-8", "replace")

    def subjects_of(self, rows: Rows) -> pa.BinaryArray:
        """Return the subjects of some rows."""
        return pa.array([self.subject(row).encode() for row in rows.tolist()], pa.binary())


def _sequence(answer: dict[str, Any]) -> Rows | None:
    """The sequence that an ack names, None if it is none that a stream can have."""
    found = answer.get("seq")
    is_one = isinstance(found, int) and 0 <= found < 1 << 63
    return np.array([found], dtype=np.int64) if is_one else None


class Publisher:
    """One write: a connection of the pool, its inbox, and the rows in flight.

    Ended by `close`, or by `abandon`.

    Args:
        recovery: gives connections, and takes them back.
        flow: the first one of them.

    Attributes:
        duplicates: rows that the server already had from an earlier attempt.
        dead_letters: rows that the stream refused and the dead-letter subject took.
    """

    def __init__(self, recovery: Recovery, flow: Flow) -> None:
        self._host = host = recovery.host
        self._options = options = recovery.options
        self._inquiry = inquiry = recovery.inquiry
        self._recovery = recovery
        self.duplicates = 0
        self.dead_letters = 0
        self._blocks: deque[_FrameBlock] = deque()  # not wholly acknowledged, oldest first
        self._window = options.max_in_flight  # most rows in flight; cut after a 429
        self._window_cut_at = 0.0  # seconds on the host's clock
        self._in_flight = 0  # rows sent and not acknowledged, and their bytes
        self._in_flight_bytes = 0
        self._ack_head = b""  # of the stream's plain acks, up to the sequence
        self._is_own_head = False  # not that of the dead letters' stream
        self._last_progress = self._settled_at = host.now()  # of any sign of life; of an ack
        self._looked_at = float("-inf")  # when a stream without a leader was last asked after
        # What is sent from now on is stored after this sequence.
        self._acknowledged = inquiry.last_sequence if inquiry else 0
        self._window_closes = math.inf  # for what was sent again without looking
        self._late = 0  # rows stored after that moment
        can_go_back = inquiry is not None and inquiry.can_go_back
        self._order = KeyOrder() if can_go_back else None
        self._covered = CoveredRows(recovery)
        self._attempts: dict[int, int] = {}  # row -> how often it was sent again
        self._diverted: dict[int, int] = {}  # row -> how often it was sent as a dead letter
        self._retries: deque[tuple[float, int]] = deque()  # when to send a row again, and which
        self._flow = flow
        self.reply_prefix = flow.new_inbox() + b"."
        self._sid = flow.subscribe(self.reply_prefix + b"*")

    @property
    def last_sequence(self) -> int:
        """As far as the stream is known to have come; 0 when it was not named."""
        return self._acknowledged

    def close(self) -> Operation[None]:
        """Give the connection back, when every row is acknowledged."""
        yield from self._recovery.put_back(self._flow, self._sid)

    def abandon(self) -> None:
        """End the connection, whatever is in flight."""
        self._flow.close()

    # --- sending ----------------------------------------------------------------------------

    def publish(
        self,
        frames: Any,
        offsets: npt.NDArray[np.int32],
        first_row: int,
        wanted: npt.NDArray[np.bool_] | None = None,
        ids: pa.BinaryArray | None = None,
        subjects: BytesColumn | None = None,
    ) -> Operation[None]:
        """Send the frames of consecutive rows, taking acks whenever the window is full.

        Args:
            frames: a buffer of frames made with `reply_prefix`.
            offsets: where each starts, and where the last ends.
            first_row: number of the first row in the partition.
            wanted: which rows to send, all when None.
            ids: the ids that the frames carry.
            subjects: of the rows; without them the order of those of one subject is not watched.

        Raises:
            RowRefusedError, PublishRefusedError, NotAcknowledgedError, ConnectorError: the write
                failed; rows may have been stored.
        """
        if len(offsets) < 2:
            return
        subjects = None if self._order is None else subjects
        block = _FrameBlock(frames, offsets, first_row, wanted, ids, subjects)
        block.first_sent, block.after = self._host.now(), self._acknowledged
        largest = int(self._flow.info.get("max_payload", 1 << 20))
        check_payloads(block.frames, offsets, first_row, largest)
        if not block.pending:
            return
        if self._covered.nbytes > COVERED_BYTES_MAX:
            yield from self._store_covered()
        if not self._in_flight:
            yield from self._listen()
        if self._flow.is_leaving:
            yield from self._move()
        self._blocks.append(block)
        rows = np.flatnonzero(block.awaiting)
        ends = block.offsets[rows + 1].astype(np.int64)  # once, and not at each search
        at = 0
        while at < len(rows):
            stop = self._window_stop(int(block.offsets[rows[at]]), ends, at)
            if stop == at:
                yield from self._await_acks()
                continue
            part = rows[at:stop]
            if not self._in_flight:
                self._last_progress = self._settled_at = self._host.now()
            # Counted as sent first: if the connection breaks, recovery sends these rows too.
            block.sent = int(part[-1]) + 1
            self._in_flight += len(part)
            self._in_flight_bytes += block.bytes_of(part)
            yield from self._send(block, part)
            at = stop

    def publish_rows(
        self, rows: OutgoingRows, first_row: int, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Operation[None]:
        """Send those of consecutive rows that are wanted. As `publish`."""
        frames, offsets = rows.frames(self.reply_prefix, first_row)
        yield from self.publish(frames, offsets, first_row, wanted, rows.ids, rows.subjects)

    def finish(self) -> Operation[None]:
        """Wait until every row is acknowledged, and none is covered by a row before it."""
        yield from self._store_covered()
        if self._late:
            _log.warning(
                "%d rows may be written twice: they were sent again, and the server took them when "
                "its duplicate window of %g s may have passed",
                self._late,
                self._inquiry.window_s if self._inquiry else 0,
            )

    def _store_covered(self) -> Operation[None]:
        """Wait until nothing is under way; then store again what earlier rows cover."""
        while self._blocks:
            yield from self._await_acks()
        if not len(self._covered) or self._order is None:
            return
        if self._flow.is_open:
            self._flow.unsubscribe(self._sid)
        self._flow, *stored = yield from self._covered.store(self._flow)
        self._sid = self._flow.subscribe(self.reply_prefix + b"*")
        self._order.note_again(*stored)

    def _listen(self) -> Operation[None]:
        """Read what arrived while there was nothing to send; a connection that broke is replaced.

        No row is under way, so that is safe without ids as well.
        """
        if not self._flow.buffer.room:
            self._flow.buffer.make_room(1 << 20)
        try:
            yield from self._flow.receive(self._host.now())
            yield from self._read_buffer()
        except TimeoutError:
            return
        except ConnectionLostError:
            yield from self._move()

    def _move(self) -> Operation[None]:
        """Move to another server before this one cuts off rows that could not be sent again."""
        while self._blocks:
            yield from self._await_acks()
        self._flow = yield from self._recovery.another(self._flow)
        self._sid = self._flow.subscribe(self.reply_prefix + b"*")

    def _window_stop(self, start: int, ends: Rows, at: int) -> int:
        """Return the end of the rows that may be sent now; `at` when the window is too full.

        Args:
            start: where the first of them begins in its block.
            ends: where each row ends, those before `at` included.
        """
        limit = self._window
        room = limit - self._in_flight
        if room < min(max(1, limit // 4), len(ends) - at):
            return at
        room_bytes = IN_FLIGHT_BYTES_MAX - self._in_flight_bytes
        if self._in_flight and room_bytes < SEND_BYTES:
            return at
        reach = start + min(room_bytes, SEND_BYTES)
        by_bytes = int(np.searchsorted(ends[at:], reach, side="right"))
        return at + max(1, min(room, by_bytes))

    def _send(self, block: _FrameBlock, rows: Rows) -> Operation[None]:
        """Send rows, each stretch of neighbours at once; recover if the connection breaks."""
        try:
            yield from self._send_stretches(block, rows)
        except (TimeoutError, ConnectionLostError) as error:
            yield from self._recover(error)

    def _send_stretches(self, block: _FrameBlock, rows: Rows) -> Operation[None]:
        stretches = [rows]
        if rows[-1] - rows[0] >= len(rows):  # some in between were stored by an earlier attempt
            stretches = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        for stretch in stretches:
            start, stop = block.offsets[stretch[0]], block.offsets[stretch[-1] + 1]
            deadline = self._host.now() + self._options.ack_timeout_s
            yield from self._flow.send(block.frames[start:stop], deadline)

    def _send_outstanding(self) -> Operation[None]:
        for block in self._blocks:
            rows = block.outstanding()
            for row in rows.tolist():
                self._attempts.setdefault(block.first_row + row, 1)
            # At most SEND_BYTES at a time, so that a slow link stays within its time limit.
            for part in np.array_split(rows, 1 + int(block.sizes[rows].sum()) // SEND_BYTES):
                if len(part):
                    yield from self._send_stretches(block, part)
        self._retries.clear()
        self._last_progress = self._host.now()

    # --- acks -------------------------------------------------------------------------------

    def _await_acks(self) -> Operation[None]:
        """Take the acks that have arrived, or wait for some."""
        try:
            if (yield from self._read_buffer()):
                return
            now = self._host.now()
            deadline = self._last_progress + self._options.ack_timeout_s
            if self._retries:
                yield from self._send_retries(now)
                # One that is due and was not sent waits for an ack, to have room in the window.
                if self._retries and self._retries[0][0] > now:
                    deadline = min(deadline, self._retries[0][0])
            if not self._flow.buffer.room:
                self._flow.buffer.make_room(1 << 20)
            yield from self._flow.receive(deadline)
        except TimeoutError as error:
            if not self._flow.is_open or self._is_silent():
                yield from self._recover(error)
        except ConnectionLostError as error:
            yield from self._recover(error)

    def _is_silent(self) -> bool:
        return self._host.now() >= self._last_progress + self._options.ack_timeout_s

    def _read_buffer(self) -> Operation[bool]:
        """Take what is complete in the buffer; tell whether rows were acknowledged."""
        flow, before = self._flow, self._in_flight
        while True:
            if self._ack_head:
                buffer = flow.buffer
                rows, sequences, buffer.start = take_pub_acks(
                    buffer.data, buffer.start, buffer.stop, self.reply_prefix, self._ack_head
                )
                if len(rows):
                    self._note_late(rows)
                if len(rows) and self._is_own_head:
                    self._note_stored(int(rows[-1]), int(sequences[-1]))
                self._settle(rows, sequences if self._is_own_head else None)
            message = flow.next_message()
            if message is None:
                return self._in_flight < before
            yield from self._read_message(message)

    def _note_stored(self, row: int, sequence: int) -> None:
        """Remember how far the stream is known to have come, and by which row."""
        self._acknowledged = max(self._acknowledged, sequence)
        block = self._block_of(row)
        if block is not None and block.ids is not None:
            row_id = block.ids[row - block.first_row].as_py()
            self._recovery.witnesses.note(self._flow.server_id, sequence, row_id)

    def _note_late(self, rows: Rows) -> None:
        """Count rows sent again that were stored when the window may have passed."""
        if self._host.now() > self._window_closes:
            self._late += sum(row in self._attempts for row in rows.tolist())

    def _settle(self, rows: Rows, sequences: Rows | None = None) -> None:
        """Note that the server has these rows; rows settled before are ignored.

        Args:
            sequences: of the rows, where they are known and the stream's own.
        """
        if not len(rows):
            return
        self._last_progress = self._settled_at = self._host.now()
        self._recovery.note_progress()
        start, stop = int(rows[0]), int(rows[-1]) + 1
        is_range = stop - start == len(rows) and bool((np.diff(rows) == 1).all())
        for block in self._blocks:
            settled = (
                block.settle_all(start, stop, sequences)
                if is_range
                else block.settle(rows, sequences)
            )
            self._in_flight -= settled[0]
            self._in_flight_bytes -= settled[1]
        while self._blocks and not self._blocks[0].pending:
            self._note_order(self._blocks.popleft())

    def _note_order(self, block: _FrameBlock) -> None:
        """Remember the rows of a block that rows before them cover."""
        if self._order is None or block.subjects is None or block.sequences is None:
            return
        behind = self._order.take(block.subjects, block.sequences)
        for place, over in zip(behind.places.tolist(), behind.over.tolist(), strict=True):
            frame = bytes(block.frame(place))
            self._covered.add(covered_row(frame, block.first_row + place, over))

    def _read_message(self, message: Message) -> Operation[None]:
        """Read one answer in full: the first of a stream, and everything that is not plain."""
        self._recovery.check(message)
        digits = message.subject.removeprefix(self.reply_prefix)
        if len(digits) != ROW_DIGITS or not digits.isdigit():
            return  # an answer to somebody who used this connection before
        row = int(digits)
        if message.status[0] == 503:
            text = "no stream collects this subject, or JetStream is off"
            yield from self._retry(row, 503, 0, text)
            return
        answer = answer_of(message)
        if (refusal := refusal_in(answer)) is not None:
            if refusal.code == TOO_MANY_REQUESTS:
                self._cut_window()
            if is_passing(refusal.code, refusal.err_code):
                yield from self._retry(row, *refusal)
                return
            yield from self._divert(row, *refusal)
            return
        stream = answer.get("stream", "")
        if not stream or not self._is_expected(stream, row):
            text = f"somebody other than the stream answered: {message.payload[:80]!r}"
            raise self._refused(row, 0, 0, text)
        if not answer.get("duplicate"):
            self._note_late(np.array([row], dtype=np.int64))
        elif row not in self._attempts:
            self.duplicates += 1
        plain, is_own = _PLAIN_ACK.fullmatch(message.payload), stream == self._options.stream
        if plain:
            self._ack_head, self._is_own_head = plain[1], is_own
        sequences = _sequence(answer) if is_own else None
        if sequences is not None:
            self._note_stored(row, int(sequences[0]))
        self._settle(np.array([row], dtype=np.int64), sequences)

    def _is_expected(self, stream: str, row: int) -> bool:
        return stream == self._options.stream or not self._options.stream or row in self._diverted

    def _divert(self, row: int, code: int, err_code: int, text: str) -> Operation[None]:
        """The server refused the row for good: send it to the dead-letter subject, or give up."""
        times = self._diverted.get(row, 0) + 1
        block = self._block_of(row)
        is_hopeless = times > self._options.publish_retries + 1
        if self._options.on_error != "deadLetter" or block is None or is_hopeless:
            raise self._refused(row, code, err_code, text)
        self.dead_letters += times == 1
        self._diverted[row], self._attempts[row] = times, 1
        original = bytes(block.frame(row - block.first_row))
        target = self._options.dead_letter_subject.encode()
        frame = dead_letter_frame(original, target, f"{text} (error {err_code})")
        yield from self._flow.send(frame, self._host.now() + self._options.ack_timeout_s)

    # --- trying again -----------------------------------------------------------------------

    def _retry(self, row: int, code: int, err_code: int, text: str) -> Operation[None]:
        """The server did not take the row: plan to send it again, or give up."""
        # While the window can still be cut, too many requests are our fault and not the row's.
        is_counted = code != TOO_MANY_REQUESTS or self._window == 1
        attempts = self._attempts.get(row, 0) + is_counted
        self._attempts[row] = attempts
        is_hopeless = attempts > self._options.publish_retries
        is_answered = code == TOO_MANY_REQUESTS or err_code == NOT_STORED  # by a leader
        if is_hopeless and (is_answered or not (yield from self._look_for_stream(row))):
            if code == TOO_MANY_REQUESTS or row in self._diverted:
                raise self._refused(row, code, err_code, text)
            yield from self._divert(row, code, err_code, text)
            return
        self._last_progress = self._host.now()
        self._retries.append((self._host.now() + RETRY_PAUSE_S, row))

    def _look_for_stream(self, row: int) -> Operation[bool]:
        """Check now and then whether a row that nobody takes has a stream after all, which may take
        it later.

        Raises:
            StreamNotFoundError: the stream that the write is for was deleted.
        """
        now = self._host.now()
        if now - self._settled_at > self._options.connection.outage_timeout_s:
            return False
        block = self._block_of(row)
        if now - self._looked_at < LOOK_EVERY_S or block is None:
            return True
        self._looked_at = now
        is_diverted = row in self._diverted
        subject = block.subject(row - block.first_row)
        subject = self._options.dead_letter_subject if is_diverted else subject
        control = Control(self._host, self._options.connection, "writer", patience_s=0)
        try:
            if self._options.stream and not is_diverted:
                yield from control.check_there(self._options.stream)
            return (yield from control.is_collected(subject))
        except PASSING:
            return True  # the cluster itself has no leader
        except StreamNotFoundError:
            raise
        except ConnectorError:
            return False  # nothing more can be known

    def _cut_window(self) -> None:
        """Have fewer rows in flight for the rest of the write."""
        now = self._host.now()
        if now >= self._window_cut_at + RETRY_PAUSE_S:
            self._window = max(1, self._window // WINDOW_DIVISOR)
            self._window_cut_at = now

    def _send_retries(self, now: float) -> Operation[None]:
        """Send again what is due, as far as the window has room for it."""
        while self._retries and self._retries[0][0] <= now:
            if self._in_flight - len(self._retries) >= self._window:
                return  # the others are with the server
            row = self._retries.popleft()[1]
            block = self._block_of(row)
            if block is not None and block.awaiting[row - block.first_row]:
                yield from self._send_stretches(block, np.array([row - block.first_row]))

    def _recover(self, error: Exception) -> Operation[None]:
        """No acks come: find out what the stream has, and send the rest over another connection."""
        recovery = self._recovery
        inquiry = yield from recovery.begin(self._flow, error, self._in_flight)
        while True:
            recovery.give_up(self._flow)
            try:
                yield from self._begin_again(inquiry)
                return
            except recovery.PASSING as again:
                yield from recovery.wait(again, self._in_flight)

    def _begin_again(self, inquiry: Inquiry) -> Operation[None]:
        oldest = self._oldest_outstanding()
        if oldest is None:
            flow, _ = yield from self._recovery.reconnect(None, 0)
        else:
            subject = oldest.subject(int(oldest.outstanding()[0])).encode()
            flow, stored = yield from self._recovery.reconnect(subject, oldest.after)
            try:
                self._settle_stored(inquiry, stored, oldest.first_sent)
            except BaseException:
                flow.close()
                raise
        self._flow = flow
        self._sid = flow.subscribe(self.reply_prefix + b"*")
        yield from self._send_outstanding()

    def _settle_stored(self, inquiry: Inquiry, stored: StoredIds, first_sent: float) -> None:
        """Settle what the stream has; raise when the others cannot be sent again."""
        inquiry.check_window(first_sent, self._options.ack_timeout_s)
        if not inquiry.can_look:
            self._window_closes = first_sent + inquiry.window_s
        if not stored.ids:
            return
        ids, last = pa.array(list(stored.ids), pa.binary()), LastStored()
        sequences = np.array(list(stored.ids.values()), dtype=np.int64)
        for block in list(self._blocks):
            rows, places = block.outstanding_of(ids)
            self._recovery.witnesses.note_highest(
                stored.server_id, ids.take(places), sequences[places]
            )
            if inquiry.keeps_last:
                last.note(block.subjects_of(rows), block.first_row + rows)
            self._settle(block.first_row + rows, sequences[places])
        for block in list(self._blocks) if inquiry.keeps_last else ():
            rows = block.outstanding()
            numbers = block.first_row + rows
            self._settle(np.compress(last.is_after(block.subjects_of(rows), numbers), numbers))

    def _oldest_outstanding(self) -> _FrameBlock | None:
        return next((block for block in self._blocks if len(block.outstanding())), None)

    def _refused(self, row: int, code: int, err_code: int, text: str) -> PublishRefusedError:
        block = self._block_of(row)
        subject = block.subject(row - block.first_row) if block else "?"
        return refused(row, subject, code, err_code, text)

    def _block_of(self, row: int) -> _FrameBlock | None:
        for block in self._blocks:
            if 0 <= row - block.first_row < len(block.sizes):
                return block
        return None
