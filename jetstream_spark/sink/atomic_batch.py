"""One atomic batch on the wire: the stream takes all of its rows, or none.

Headers of each row say which batch it belongs to and its number there. The last one commits them,
and only its answer tells what became of them. The answers to the others are empty, except
that the first one tells why a batch could not be begun; so that one is subscribed to as well.

Every error means that nothing was stored, except TimeoutError and ConnectionLostError: if the
answer is lost, what became of the batch is not known here (`recovery.py`).

Specification: nats-server 2.12 and later, streams with `allow_atomic`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Operation
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

SEND_BYTES = 256 << 10


def write_atomic_batch(
    flow: Flow, rows: OutgoingRows, stream: str, ack_timeout_s: float, numbers: Any
) -> Operation[BatchOutcome]:
    """Send all rows as one batch, and wait for what became of it.

    Args:
        numbers: of the rows in their partition, for errors.

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
    sids = [flow.subscribe(subject) for subject in {first, last}]
    for at in range(0, len(data), SEND_BYTES):
        yield from flow.send(data[at : at + SEND_BYTES], host.now() + ack_timeout_s)
    deadline = host.now() + ack_timeout_s
    beginning: RowRefusal | None = None
    while True:
        message = yield from flow.await_message(deadline)
        if message.subject == last:
            break
        if message.subject == first and len(message.payload or message.headers):
            beginning = _refusal(message, count, stream)
    for sid in sids:
        flow.unsubscribe(sid)
    refusal = _refusal(message, count, stream)
    if refusal is None:
        return BatchOutcome(_sequence(message, stream, batch_id, count))
    if refusal.err_code == BATCH_INCOMPLETE and beginning is not None:
        refusal = beginning  # the consequence of it
    return BatchOutcome(0, [refusal])


def _position_lines(count: int) -> pa.BinaryArray:
    lines = [b"Nats-Batch-Sequence: %d\r\n" % (row + 1) for row in range(count)]
    lines[-1] += b"Nats-Batch-Commit: 1\r\n"
    return pa.array(lines, pa.binary())


def _refusal(message: Message, count: int, stream: str) -> RowRefusal | None:
    everything = np.arange(count)
    answer = answer_of(message)
    refusal = refusal_in(answer)
    if refusal is None:
        return None
    if answer.get("stream", stream) != stream:
        text = f"stream '{answer['stream']}' collects this subject"
        return RowRefusal(everything, 400, WRONG_STREAM, text)
    return RowRefusal(everything, *refusal)


def _sequence(message: Message, stream: str, batch_id: bytes, count: int) -> int:
    answer = answer_of(message)
    expected = (stream, batch_id.decode(), count)
    if (answer.get("stream"), answer.get("batch"), answer.get("count")) != expected:
        raise ProtocolViolationError(
            f"a batch of {count} rows was answered with {message.payload[:120]!r}.",
            "Somebody other than the stream answers publishes to its subjects; find out who.",
        )
    return int(answer["seq"])
