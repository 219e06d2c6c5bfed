"""Rows published in fast batches, several of them under way one after the other.

This is for fast batches what `publisher.py` is for single rows, with one answer per 500 rows and
per batch in place of one per row. A batch is a block of rows from one Arrow batch, at most
`maxInFlight`; so none is open while Spark makes the next rows, and the server does not give it up.
What happens to a batch of which the stream did not take all rows (`fast_batch.py`):

    a row was refused                                      it is judged by itself
                                                           (`refused_rows.py`), and the rows after
                                                           it in its batch are sent again
    silence for `ackTimeout`, the connection broke, or     the stream is looked into over another
    the server has forgotten a batch                       connection (`recovery.py`); rows of all
                                                           batches that it lacks are sent again

Before anything is sent again, the answers to the other batches are awaited. Then one batch is under
way at a time, a short one first: a batch with many refused rows must not be sent as often as it has
rows. Rows that are sent again may land after later ones. Where only the last row of a subject
stays, as in buckets, that must not happen: there only one batch is under way at a time anyway.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import ConnectionLostError, UnavailableError
from jetstream_spark.sink.batch_outcome import BatchOutcome, RowPlaces
from jetstream_spark.sink.fast_batch import FastBatch, position_of
from jetstream_spark.sink.outgoing_rows import OutgoingRows, joined_rows
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.refusals import TOO_MANY_BATCHES, TOO_MANY_REQUESTS
from jetstream_spark.sink.refused_rows import RefusedRows
from jetstream_spark.sink.stored_rows import places_not_in, sequences_of

IN_FLIGHT_BYTES_MAX = 32 << 20
# One send: so much can be written within `ackTimeout`.
SEND_BYTES = 256 << 10
# Of a batch that is sent again.
CAREFUL_ROWS = 16
# Of what is on its way, when the server says that it is too much.
WINDOW_DIVISOR = 4

_log = logging.getLogger("jetstream_spark")


@dataclass(slots=True)
class _Part:
    """Rows on their way to the stream, or to be sent again.

    Attributes:
        numbers: of the rows in their partition.
        first_sent: when the first of them was sent for the first time; None before.
        after: the rows that are stored have higher sequences.
        closes: when rows that were sent again without looking are no longer recognised.
    """

    rows: OutgoingRows
    numbers: RowPlaces
    first_sent: float | None = None
    after: int = 0
    closes: float = math.inf

    def at(self, places: RowPlaces) -> _Part:
        """Some of them."""
        return replace(self, rows=self.rows.at(places), numbers=self.numbers[places])

    def cut(self, count: int) -> tuple[_Part, _Part]:
        """The first ones, and the others."""
        first, others = self.rows.part(0, count), self.rows.part(count, len(self.rows) - count)
        return (
            replace(self, rows=first, numbers=self.numbers[:count]),
            replace(self, rows=others, numbers=self.numbers[count:]),
        )


class FastPublisher:
    """One write: a connection of the pool, its inbox, and the batches on their way.

    Ended by `close`, or by `abandon`.

    Args: as `Publisher`, and
        is_ordered: a row that is sent again must not land after a later one.
        is_alone: nobody else can have stored a row that is sent, so that the last row which the
            stream took of a batch is the last one that it stored.

    Attributes:
        duplicates: None; the server does not tell of them.
        last_sequence: as far as the stream is known to have come.
    """

    def __init__(
        self, recovery: Recovery, flow: Flow, *, is_ordered: bool, is_alone: bool = False
    ) -> None:
        host, options, inquiry = recovery.host, recovery.options, recovery.inquiry
        self.duplicates: int | None = None
        self.last_sequence = inquiry.last_sequence if inquiry else 0
        self._host = host
        self._options = options
        self._inquiry = inquiry
        self._recovery = recovery
        self._refused = RefusedRows(host, options)
        self._flow = flow
        self._broken: Exception | None = None  # why nothing can be sent over it
        self._is_ordered = is_ordered
        self._is_alone = is_alone
        self._window = options.max_in_flight  # rows under way at most; cut after a 429
        self._on_way: deque[tuple[_Part, FastBatch]] = deque()  # oldest first
        self._fruitless = 0  # batches in a row of which nothing was stored
        self._late = 0  # rows stored when the duplicate window may have passed
        self._prefix = flow.new_inbox() + b"."
        self._name = host.token(6).encode()  # what the ids of all batches begin with
        self._batches = 0  # begun so far
        self._sid = flow.subscribe(self._prefix + b">")

    @property
    def dead_letters(self) -> int:
        """Rows that the stream refused and the dead-letter subject took."""
        return self._refused.dead_letters

    def close(self) -> Operation[None]:
        """Give the connection back, when every row is stored."""
        yield from self._recovery.put_back(self._flow, self._sid)

    def abandon(self) -> None:
        """End the connection, whatever is under way."""
        self._flow.close()

    # --- sending ----------------------------------------------------------------------------

    def publish_rows(
        self, rows: OutgoingRows, first_row: int, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Operation[None]:
        """Send those of consecutive rows that are wanted, as far as the window allows.

        Args:
            first_row: number of the first one in the partition.

        Raises: as `Publisher.publish`.
        """
        rest = _Part(rows, np.arange(first_row, first_row + len(rows)))
        if wanted is not None:
            rest = rest.at(np.flatnonzero(wanted))
        while len(rest.rows):
            part, rest = rest.cut(min(self._window, len(rest.rows)))
            while self._on_way and not self._has_room(part):
                yield from self._await_oldest()
            yield from self._send(part)

    def finish(self) -> Operation[None]:
        """Wait until every row is stored."""
        while self._on_way:
            yield from self._await_oldest()
        if self._late:
            _log.warning(
                "%d rows may be written twice: they were sent again, and the server took them when "
                "its duplicate window may have passed",
                self._late,
            )

    def _has_room(self, part: _Part) -> bool:
        if self._is_ordered or not self._flow.is_open or self._flow.is_leaving:
            return False
        parts = [part, *(one for one, _ in self._on_way)]
        count, size = sum(len(one.rows) for one in parts), sum(one.rows.nbytes for one in parts)
        return count <= self._window and size <= IN_FLIGHT_BYTES_MAX

    def _send(self, part: _Part) -> Operation[None]:
        """Send rows as one batch; a broken connection is noticed when the batch is awaited."""
        if not self._on_way:
            yield from self._renew()
        if part.first_sent is None:
            part.first_sent, part.after = self._host.now(), self.last_sequence
        self._batches += 1
        batch_id = b"%b%d" % (self._name, self._batches)
        batch = FastBatch(self._prefix, batch_id, part.rows, self._options.stream)
        largest = int(self._flow.info.get("max_payload", 1 << 20))
        pieces = batch.frames(int(part.numbers[0]), largest)
        self._on_way.append((part, batch))
        try:
            for data, _ in pieces:
                for at in range(0, len(data), SEND_BYTES):
                    yield from self._write(data[at : at + SEND_BYTES])
            yield from self._flow.flush(self._deadline())
        except (TimeoutError, ConnectionLostError) as error:
            self._broken = error

    def _write(self, data: memoryview) -> Operation[None]:
        """Send bytes, together with others when they are few."""
        self._flow.link.write(data)
        if sum(map(len, self._flow.link.outgoing)) >= SEND_BYTES:
            yield from self._flow.flush(self._deadline())

    def _deadline(self) -> float:
        return self._host.now() + self._options.ack_timeout_s

    def _renew(self) -> Operation[None]:
        flow = yield from self._recovery.renewed(self._flow)
        if flow is not self._flow:
            self._use(flow)

    def _use(self, flow: Flow) -> None:
        self._flow, self._broken = flow, None
        self._sid = flow.subscribe(self._prefix + b">")

    # --- what became of it --------------------------------------------------------------------

    def _await_oldest(self) -> Operation[None]:
        """Wait for the oldest batch; send again what is missing of it and of those after it."""
        missing = yield from self._take_oldest()
        if missing:
            while self._on_way:
                missing += yield from self._take_oldest()
            for part in missing:
                yield from self._send_again(part)

    def _send_again(self, part: _Part) -> Operation[None]:
        """Send rows, one batch at a time, until each is stored or a dead letter."""
        left, most = deque([part]), CAREFUL_ROWS
        while left:
            part = left.popleft()
            if len(part.rows) > min(most, self._window):
                part, rest = part.cut(min(most, self._window))
                left.appendleft(rest)
            yield from self._send(part)
            missing = yield from self._take_oldest()
            most = CAREFUL_ROWS if missing else 2 * most
            left.extendleft(reversed(missing))

    def _take_oldest(self) -> Operation[list[_Part]]:
        """Wait for the outcome of the oldest batch; return what is to be sent again.

        If the connection had to be given up, that is of all batches.
        """
        part, batch = self._on_way[0]
        try:
            outcome = yield from self._outcome(batch)
        except (TimeoutError, ConnectionLostError, UnavailableError) as error:
            return (yield from self._recover(error))
        self._on_way.popleft()
        self._note(part, outcome, batch.stored)
        missing: list[_Part] = []
        for refusal in outcome.refusals:
            refused = part.at(refusal.places)
            if refusal.code == TOO_MANY_REQUESTS and refusal.err_code not in TOO_MANY_BATCHES:
                self._window = max(1, self._window // WINDOW_DIVISOR)
            named = refusal, refused.rows, refused.numbers
            if (yield from self._refused.judge(*named, self._fruitless)):
                missing.append(refused)
        if len(outcome.unseen):
            missing.append(part.at(outcome.unseen))
        return missing

    def _note(self, part: _Part, outcome: BatchOutcome, stored: int) -> None:
        self.last_sequence = max(self.last_sequence, outcome.last_sequence)
        self._fruitless = 0 if stored else self._fruitless + 1
        if not stored:
            return
        if self._is_alone and part.rows.ids is not None:
            row_id = part.rows.ids[stored - 1].as_py()
            self._recovery.witnesses.note(self._flow.server_id, outcome.last_sequence, row_id)
        self._refused.note_progress()
        self._recovery.note_progress()
        if self._host.now() > part.closes:
            self._late += stored

    def _outcome(self, batch: FastBatch) -> Operation[BatchOutcome]:
        """Read until the outcome of a batch is known.

        Raises:
            TimeoutError, ConnectionLostError, UnavailableError: nobody knows.
        """
        deadline = self._deadline()
        while batch.outcome is None:
            message = self._flow.next_message()
            if message is not None:
                if self._take(message):
                    deadline = self._deadline()
            elif batch.is_forgotten:
                raise UnavailableError(
                    "the server knows nothing of a batch that it had begun.",
                    "Look into the state of the cluster and the server's log.",
                )
            elif self._broken is not None:
                raise self._broken
            elif batch.wants_probe:
                yield from self._flow.send(batch.probe(), deadline)
            else:
                yield from self._flow.receive_more(deadline)
        return batch.outcome

    def _take(self, message: Message) -> bool:
        """Hand an answer to its batch; tell whether there was one."""
        self._recovery.check(message)
        if not message.subject.startswith(self._prefix):
            return False
        batch_id, *tokens = message.subject[len(self._prefix) :].split(b".")
        position = position_of(tokens)
        for _, batch in self._on_way if position else ():
            if batch.batch_id == batch_id:
                batch.take(position, message)
                return True
        return False

    def _recover(self, error: Exception) -> Operation[list[_Part]]:
        """The outcome of the batches is unknown: find out what the stream has of them."""
        before = self._flow.server_id
        parts = [part for part, _ in self._on_way]
        taken = [np.arange(len(part.rows)) < batch.stored for part, batch in self._on_way]
        rows = joined_rows([part.rows for part in parts])
        numbers = np.concatenate([part.numbers for part in parts])
        oldest = self._on_way[0][0]
        first_sent = oldest.first_sent or 0.0
        is_taken = np.concatenate(taken)
        subject = bytes(rows.subject_column()[0].as_py())
        lost = len(rows) - int(is_taken.sum()), subject, oldest.after, first_sent
        flow, stored = yield from self._recovery.replace(self._flow, error, *lost)
        self._use(flow)
        self._on_way.clear()
        inquiry = self._inquiry
        assert inquiry is not None, "without ids nothing is sent again"
        missing = places_not_in(stored.ids, rows, numbers, inquiry)
        # Another server may have been given older files, without rows that it had taken; but where
        # later rows remove earlier ones, such a row could come back over what somebody else wrote.
        if not inquiry.can_look or inquiry.keeps_last or stored.server_id == before:
            missing = missing[~is_taken[missing]]
        sequences = sequences_of(stored.ids, rows)
        if self._is_alone:
            missing = missing[~_were_passed(sequences > 0, is_taken, parts)[missing]]
        self._recovery.witnesses.note_highest(stored.server_id, rows.ids, sequences)
        if not len(missing):
            return []
        closes = math.inf if inquiry.can_look else first_sent + inquiry.window_s
        return [_Part(rows, numbers, first_sent, oldest.after, closes).at(missing)]


def _were_passed(
    is_stored: npt.NDArray[np.bool_], is_taken: npt.NDArray[np.bool_], parts: list[_Part]
) -> npt.NDArray[np.bool_]:
    """Which rows the stream has had, be it that limits have removed them since: those before one of
    their batch that it has, and those that it took before one of any batch.

    Args:
        is_stored, is_taken: whether the stream has a row, and whether it said so.
        parts: that these rows are, one behind the other, each sent as a batch.
    """
    passed = np.zeros(len(is_stored), dtype=np.bool_)
    start = 0
    for part in parts:
        stop = start + len(part.rows)
        stored = np.flatnonzero(is_stored[start:stop])
        if len(stored):
            passed[start : start + stored[-1]] = True
            passed[:start] |= is_taken[:start]
        start = stop
    return passed
