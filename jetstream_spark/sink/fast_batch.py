"""One fast batch: rows that are stored as they arrive, and acknowledged together. No I/O.

Each row says in its reply subject which batch it belongs to, its number there and what it does:
`<inbox>.<batch>.<flow>.fail.<position>.<op>.$FI`. The server answers every so many rows, and
the last one, which ends the batch, with how many it took.

A missing or refused row ends the batch (`fail`): so the rows that were taken are always the first
ones, and their number says which. The other mode of the protocol goes on behind such a row and
counts it in, so that a lost report of it could not be told from success.

Rows behind the end of a batch are refused one by one; the answers are passed over. What is left to
find out is what became of a batch whose last row did not reach the stream: its first row, sent once
more behind the last one, makes a gap, which ends the batch without storing anything (`probe`). A
message without data would do as well, but whoever else subscribes to the subject would see it.

Specification: nats-server 2.14 and later, streams with `allow_batched`;
docs/reference/publishing.md#fast-batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from jetstream_spark.client.flow import Message
from jetstream_spark.errors import ProtocolViolationError
from jetstream_spark.kernels.arrow_to_wire import ROW_DIGITS
from jetstream_spark.sink.batch_outcome import BatchOutcome, RowRefusal
from jetstream_spark.sink.outgoing_rows import OutgoingRows, check_payloads
from jetstream_spark.sink.refusals import (
    BATCH_INCOMPLETE,
    WRONG_STREAM,
    answer_of,
    refusal_in,
)

# Acknowledged together at most: progress of a slow stream is heard of before `ackTimeout`.
FLOW_ROWS = 500
BEGIN, APPEND, COMMIT = 0, 1, 2

OutgoingFrames = tuple[memoryview, npt.NDArray[np.int32]]


class FastBatch:
    """One batch, and what the stream has said of it.

    Args:
        prefix: of the reply subjects, up to the batch.
        batch_id: what no other open batch of the stream is called.
        rows: at least one.

    Attributes:
        stored: so many rows, from the first on, are known to be taken.
        outcome: what became of the rows; None while that is not known.
        is_forgotten: the server knows nothing of the batch, and nobody knows what it had stored.
        wants_probe: the last row did not reach the stream; send `probe`.
    """

    def __init__(self, prefix: bytes, batch_id: bytes, rows: OutgoingRows, stream: str) -> None:
        self.batch_id = batch_id
        self.stored = 0
        self.outcome: BatchOutcome | None = None
        self.is_forgotten = False
        self.wants_probe = False
        self._head = b"%b%b.%d.fail." % (prefix, batch_id, FLOW_ROWS)
        self._rows = rows
        self._count = len(rows)
        self._stream = stream
        self._faults: dict[int, tuple[int, int, str]] = {}  # by position, from 1

    def frames(self, first_number: int, largest: int) -> list[OutgoingFrames]:
        """The frames of all rows, in pieces, and where each starts.

        Args:
            first_number: of the first row in the partition, for errors.
            largest: message that the server takes.

        Raises:
            RowRefusedError: a row is larger.
        """
        last = self._count - 1
        pieces = [(0, 1, BEGIN), (1, last - 1, APPEND), (last, 1, COMMIT)]
        found = [self._piece(*piece) for piece in (pieces if last else pieces[2:]) if piece[1]]
        at = first_number
        for data, offsets in found:
            check_payloads(data, offsets, at, largest)
            at += len(offsets) - 1
        return found

    def probe(self) -> memoryview:
        """A frame that ends the batch if the server has it open, and stores nothing."""
        self.wants_probe = False
        return self._encoded(self._rows.part(0, 1), self._count + 1, COMMIT)[0]

    def _piece(self, start: int, count: int, op: int) -> OutgoingFrames:
        return self._encoded(self._rows.part(start, count), start + 1, op)

    def _encoded(self, rows: OutgoingRows, position: int, op: int) -> OutgoingFrames:
        frames, offsets = rows.frames(self._head, position, b".%d.$FI" % op)
        return memoryview(frames), offsets

    # --- what the stream says ----------------------------------------------------------------

    def take(self, position: int, message: Message) -> None:
        """Take the answer to one row.

        Raises:
            ProtocolViolationError: no stream answers like that.
        """
        if self.outcome is not None or self.is_forgotten:
            return
        answer = answer_of(message)
        try:
            self._take(position, answer)
        except (KeyError, TypeError, ValueError, OverflowError, ProtocolViolationError):
            raise _not_of_the_stream(f"{self._count} rows", message.payload) from None

    def _take(self, position: int, answer: dict[str, Any]) -> None:
        kind = answer.get("type")
        if kind == "ack":
            self.stored = max(self.stored, min(int(answer["seq"]), self._count))
        elif kind == "err":
            self._note(int(answer["seq"]), answer)
        elif "batch" in answer:
            self._end(answer)
        elif kind != "gap":  # after which the end is told
            self._note(position, answer)
            if position >= self._count:
                self._end_is_unknown(position)

    def _note(self, position: int, answer: dict[str, Any]) -> None:
        refusal, stream = refusal_in(answer), answer.get("stream", self._stream)
        if refusal is None:
            raise ValueError
        code, err_code, text = refusal
        if stream != self._stream:  # whatever that one says of batches
            code, err_code, text = 400, WRONG_STREAM, f"stream '{stream}' collects this subject"
        self._faults.setdefault(position, (code, err_code, text))

    def _end(self, answer: dict[str, Any]) -> None:
        count = int(answer["count"])
        is_ours = (answer["stream"], answer["batch"]) == (self._stream, self.batch_id.decode())
        if not is_ours or not self.stored <= count <= self._count:
            raise ValueError
        self._conclude(count, int(answer["seq"]))

    def _end_is_unknown(self, position: int) -> None:
        """Note that the answer to the last row, or to the probe, was not the end of the batch."""
        if 1 in self._faults:
            self._conclude(0, 0)  # it never began
        elif position > self._count:
            self.is_forgotten = True
        else:
            self.wants_probe = True

    def _conclude(self, count: int, last_sequence: int) -> None:
        self.stored = count
        refusals = [self._refusal(count)] if count < self._count else []
        unseen = np.arange(count + 1, self._count)
        self.outcome = BatchOutcome(last_sequence, refusals, unseen)

    def _refusal(self, place: int) -> RowRefusal:
        """Why the row that ended the batch was not taken."""
        missing = (0, BATCH_INCOMPLETE, "the row did not reach the stream")
        return RowRefusal(np.array([place]), *self._faults.get(place + 1, missing))


def position_of(tokens: list[bytes]) -> int:
    """The position in a reply subject, after its batch; 0 when it is not one of ours."""
    is_ours = len(tokens) == 5 and tokens[2].isdigit() and len(tokens[2]) == ROW_DIGITS
    return int(tokens[2]) if is_ours else 0


def _not_of_the_stream(what: str, payload: bytes) -> ProtocolViolationError:
    return ProtocolViolationError(
        f"a batch of {what} was answered with {payload[:120]!r}.",
        "Somebody other than the stream answers publishes to its subjects; find out who.",
    )
