"""Rows that an earlier row of their subject covers (`key_order.py`), stored a second time over it.

Each is sent under another id, because the server knows its own, and on the condition that the row
which covers it is still the last message of the subject. So it never covers what somebody else has
written, nor a later row; and it can be sent again when an answer is lost, by whatever attempt,
without any inquiry: the second one is a duplicate, or its condition fails.

Conditions that the row came with are left out: they held when it was stored for the first time.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from jetstream_spark.client.control import MESSAGE_NOT_FOUND, Control
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Operation
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import (
    ConnectionLostError,
    RequestRefusedError,
    RowRefusedError,
    UnavailableError,
)
from jetstream_spark.sink.key_order import Sequences
from jetstream_spark.sink.kv import WRONG_LAST_SEQUENCE
from jetstream_spark.sink.message_ids import id_again
from jetstream_spark.sink.outgoing_rows import published
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.refusals import NOBODY, answer_of, is_passing, refusal_in, refused
from jetstream_spark.sink.stored_ids import ID_HEADER

IN_FLIGHT_ROWS, IN_FLIGHT_BYTES = 1_000, 1 << 20
_ID = ID_HEADER.lower() + b":"
_LEFT_OUT = (b"nats-expected-last-", b"nats-batch-", _ID)


@dataclass(frozen=True, slots=True)
class CoveredRow:
    """A row that is to be stored again.

    Attributes:
        number: in its partition.
        id: under which it is stored again.
        headers: the block that it is sent with.
    """

    number: int
    id: bytes
    subject: bytes
    headers: bytes
    payload: bytes


def covered_row(frame: bytes, number: int, over: int) -> CoveredRow:
    """Return what is sent of a row.

    Args:
        frame: that it was published with, under an id.
        over: the sequence of the message that covers it.
    """
    subject, lines, payload = published(frame)
    row_id = next(one for one in lines if one.lower().startswith(_ID))[len(_ID) :].strip()
    kept = [one for one in lines if not one.lower().startswith(_LEFT_OUT)]
    row_id = id_again(row_id, over)
    kept.append(b"%b: %b" % (ID_HEADER, row_id))
    kept.append(b"Nats-Expected-Last-Subject-Sequence: %d" % over)
    block = b"\r\n".join([b"NATS/1.0", *kept, b"", b""])
    return CoveredRow(number, row_id, subject, block, payload)


class CoveredRows:
    """The covered rows of one write that were not stored again yet.

    Attributes:
        nbytes: of their payloads.
    """

    def __init__(self, recovery: Recovery) -> None:
        self.nbytes = 0
        self._host = recovery.host
        self._options = recovery.options
        self._recovery = recovery
        self._rows: dict[bytes, CoveredRow] = {}  # by subject: of several the last one counts

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: CoveredRow) -> None:
        """Note one, in place of an earlier one of its subject."""
        before = self._rows.get(row.subject)
        self.nbytes += len(row.payload) - (len(before.payload) if before is not None else 0)
        self._rows[row.subject] = row

    def store(self, flow: Flow) -> Operation[tuple[Flow, pa.BinaryArray, Sequences]]:
        """Store all of them again, unless something else was stored over what covers them.

        Args:
            flow: nothing is under way over it.

        Returns:
            The connection to go on with; the subjects that are as they should be, and the sequences
            of their messages.

        Raises:
            PublishRefusedError, RowRefusedError: the stream does not take one.
            StreamNotFoundError: it was deleted.
            AttemptSupersededError: another attempt has begun.
            RetryableError: the server does not answer for `outageTimeout`.
        """
        rows, self._rows, self.nbytes = list(self._rows.values()), {}, 0
        sequences = np.zeros(len(rows), dtype=np.int64)
        waiting = set(range(len(rows)))
        patience = Patience(self._host, self._options.connection.outage_timeout_s)
        while waiting:
            before = len(waiting)
            try:
                flow = yield from self._recovery.renewed(flow)
                yield from self._send(flow, rows, waiting, sequences)
            except (TimeoutError, *PASSING) as error:
                flow.close()
                if len(waiting) < before:
                    patience.note_progress()
                yield from patience.wait(self._passing(error), "a write")
        stored = np.flatnonzero(sequences)
        subjects = pa.array([rows[place].subject for place in stored.tolist()], pa.binary())
        return flow, subjects, sequences[stored]

    def _passing(self, error: Exception) -> Exception:
        if not isinstance(error, TimeoutError):
            return error
        silence = f"no ack came within {self._options.ack_timeout_s:g} s."
        return ConnectionLostError(silence, "Look into the state of the server.")

    def _send(
        self, flow: Flow, rows: Sequence[CoveredRow], waiting: set[int], sequences: Sequences
    ) -> Operation[None]:
        """Send rows; take those out of `waiting` whose outcome is known."""
        inbox = flow.new_inbox() + b"."
        sid = flow.subscribe(inbox + b"*")
        left, on_way, size = deque(sorted(waiting)), 0, 0
        deadline = self._host.now() + self._options.ack_timeout_s
        while left or on_way:
            while left and on_way < IN_FLIGHT_ROWS and (not on_way or size < IN_FLIGHT_BYTES):
                self._publish(flow, rows[left[0]], inbox + b"%d" % left[0])
                size += len(rows[left.popleft()].payload)
                on_way += 1
            yield from flow.flush(deadline)
            message = yield from flow.await_message(deadline)
            self._recovery.check(message)
            if message.sid != sid:
                continue
            place = int(message.subject[len(inbox) :])
            sequence, teller = yield from self._sequence(flow, rows[place], message)
            sequences[place] = sequence
            self._recovery.witnesses.note(teller, sequence, rows[place].id)
            waiting.discard(place)
            on_way, size = on_way - 1, size - len(rows[place].payload)
            deadline = self._host.now() + self._options.ack_timeout_s
        flow.unsubscribe(sid)

    def _publish(self, flow: Flow, row: CoveredRow, reply: bytes) -> None:
        size, largest = len(row.headers) + len(row.payload), int(flow.info["max_payload"])
        if size > largest:
            reason = f"with what it takes to store it again it is {size} bytes, more than {largest}"
            raise RowRefusedError(row.number, row.subject.decode("utf-8", "replace"), reason)
        flow.publish(row.subject, row.payload, reply, row.headers)

    def _sequence(
        self, flow: Flow, row: CoveredRow, message: Message
    ) -> Operation[tuple[int, str]]:
        """Where a row is stored now, 0 where something else was stored in its place; and the id of
        the server that said so."""
        answer = answer_of(message)
        refusal = refusal_in(answer)
        if refusal is None and answer.get("stream") == self._options.stream:
            return int(answer["seq"]), flow.server_id
        code, err_code, text = refusal or (0, 0, f"the answer is {message.payload[:80]!r}")
        if err_code in WRONG_LAST_SEQUENCE:
            return (yield from self._own_sequence(row))
        subject = row.subject.decode("utf-8", "replace")
        if not is_passing(code, err_code):
            raise refused(row.number, subject, code, err_code, text)
        if code == NOBODY:
            control = Control(self._host, self._options.connection, "writer")
            yield from control.check_there(self._options.stream)
        raise UnavailableError(
            f"row {row.number} to '{subject}' is not taken just now: {text}.",
            "It is tried again; look into the state of the server.",
        )

    def _own_sequence(self, row: CoveredRow) -> Operation[tuple[int, str]]:
        """The same for a row that is the last message of its subject, because it was sent before;
        else 0."""
        control = Control(self._host, self._options.connection, "writer")
        body = {"last_by_subj": row.subject.decode("utf-8", "replace")}
        try:
            answer = yield from control.look_up(f"STREAM.MSG.GET.{self._options.stream}", body)
        except RequestRefusedError as error:
            if error.err_code != MESSAGE_NOT_FOUND:
                raise
            return 0, control.server_id
        lines = base64.b64decode(answer["message"].get("hdrs", "")).split(b"\r\n")
        is_own = b"%b: %b" % (ID_HEADER, row.id) in lines
        return int(answer["message"]["seq"]) if is_own else 0, control.server_id
