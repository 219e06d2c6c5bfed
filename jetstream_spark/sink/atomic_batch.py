"""One atomic batch on the wire: the stream takes all of its rows, or none.

Headers of each row say which batch it belongs to and its number there. The last one commits them,
and only its answer tells what became of them. The answers to the others are empty, except
that the first one tells why a batch could not be begun; so that one is subscribed to as well.
Of a batch that was lost on its way the answer to the commit does not tell why: when it is sent
again, all answers are heard (`row_answers.py`).

Every error means that nothing was stored, except TimeoutError and ConnectionLostError: if the
answer is lost, what became of the batch is not known here (`recovery.py`).

Specification: nats-server 2.12 and later, streams with `allow_atomic`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import ProtocolViolationError
from jetstream_spark.kernels.arrow_to_wire import ROW_DIGITS, BytesColumn
from jetstream_spark.sink.batch_outcome import BatchOutcome
from jetstream_spark.sink.outgoing_rows import OutgoingRows, check_payloads
from jetstream_spark.sink.refusals import BATCH_INCOMPLETE, answer_of
from jetstream_spark.sink.row_answers import RowAnswers, batch_refusal

SEND_BYTES = 256 << 10
_OTHERS_S = 1.0  # for answers to rows that come after that to the commit of a lost batch
# Of a message, as the bundled server counts what it holds: 1 KiB besides its subject, headers and
# payload; and the headers that it has because it is one of a batch, with numbers of seven digits.
_HELD_BESIDES_BYTES = 1024
_BLOCK_BYTES = len(b"NATS/1.0\r\n\r\n")
_BATCH_LINES_BYTES = len(
    b"Nats-Batch-Id: 0123456789abcdef0123456789abcdef\r\n"
    b"Nats-Batch-Sequence: 1000000\r\n"
    b"Nats-Batch-Commit: 1\r\n"
)
_ID_LINE_BYTES = len(b"Nats-Msg-Id: \r\n")


def held_bytes(rows: OutgoingRows) -> int:
    """What the bundled server holds of rows while their batch is open, in bytes, or a little more.

    Their subjects are counted as they are published: a mapping or a transform may change that.
    """
    each = _HELD_BESIDES_BYTES + _BLOCK_BYTES + _BATCH_LINES_BYTES + len(rows.fixed_lines)
    columns = [rows.subjects, rows.lines, rows.payloads]
    if rows.ids is not None:
        each += _ID_LINE_BYTES
        columns.append(rows.ids)
    return len(rows) * each + sum(_total_bytes(one, len(rows)) for one in columns)


def write_atomic_batch(
    flow: Flow,
    rows: OutgoingRows,
    stream: str,
    ack_timeout_s: float,
    numbers: Any,
    *,
    hears_all: bool = False,
) -> Operation[BatchOutcome]:
    """Send all rows as one batch, and wait for what became of it.

    Args:
        numbers: of the rows in their partition, for errors.
        hears_all: have the answers to all rows sent, so that the one is known which is to blame.

    Raises:
        RowRefusedError: a row is larger than the server takes; nothing was sent.
        TimeoutError, ConnectionLostError: nobody knows what became of it.
        ProtocolViolationError: the answer does not belong to this batch.
    """
    host, count = flow.host, len(rows)
    batch_id = host.token(16).encode()
    prefix = flow.new_inbox() + b"."
    named = rows.with_lines(b"Nats-Batch-Id: %b\r\n" % batch_id, _position_lines(count))
    frames, offsets = named.frames(prefix, 0)
    data = memoryview(frames)
    check_payloads(data, offsets, numbers, int(flow.info.get("max_payload", 1 << 20)))
    first, last = (prefix + b"%0*d" % (ROW_DIGITS, row) for row in (0, count - 1))
    heard = {prefix + b"*"} if hears_all else {first, last}
    sids = [flow.subscribe(subject) for subject in heard]
    for at in range(0, len(data), SEND_BYTES):
        yield from flow.send(data[at : at + SEND_BYTES], host.now() + ack_timeout_s)
    deadline = host.now() + ack_timeout_s
    answers = RowAnswers(prefix, count, stream)
    while (message := (yield from flow.await_message(deadline))).subject != last:
        answers.note(message)
    refusal = batch_refusal(message, count, stream)
    if hears_all and refusal is not None and refusal.err_code == BATCH_INCOMPLETE:
        yield from _hear_the_others(flow, answers, min(deadline, host.now() + _OTHERS_S))
    for sid in sids:
        flow.unsubscribe(sid)
    if refusal is None:
        return BatchOutcome(_sequence(message, stream, batch_id, count))
    if refusal.err_code == BATCH_INCOMPLETE and answers.reason is not None:
        refusal = answers.reason  # the consequence of it
    elif refusal.err_code == BATCH_INCOMPLETE and hears_all:
        refusal = replace(refusal, at=answers.first_not_taken)
    return BatchOutcome(0, [refusal])


def _hear_the_others(flow: Flow, answers: RowAnswers, deadline: float) -> Operation[None]:
    """Hear what is said of the other rows until there is a reason: who took one elsewhere may
    answer later than the stream. A row that was lost on its way is never answered."""
    try:
        while answers.reason is None and not answers.are_complete:
            answers.note((yield from flow.await_message(deadline)))
    except TimeoutError:
        pass


def _position_lines(count: int) -> pa.BinaryArray:
    lines = [b"Nats-Batch-Sequence: %d\r\n" % (row + 1) for row in range(count)]
    lines[-1] += b"Nats-Batch-Commit: 1\r\n"
    return pa.array(lines, pa.binary())


def _total_bytes(column: BytesColumn, count: int) -> int:
    if isinstance(column, bytes):
        return len(column) * count
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _sequence(message: Message, stream: str, batch_id: bytes, count: int) -> int:
    answer = answer_of(message)
    expected = (stream, batch_id.decode(), count)
    if (answer.get("stream"), answer.get("batch"), answer.get("count")) != expected:
        raise ProtocolViolationError(
            f"a batch of {count} rows was answered with {message.payload[:120]!r}.",
            "Somebody other than the stream answers publishes to its subjects; find out who.",
        )
    return int(answer["seq"])
