"""What is said of the rows of an atomic batch before the answer to its commit.

A row that is put aside is answered with an empty message. Any other answer is the reason why the
batch is lost, or its consequence for a row behind that.
"""

from __future__ import annotations

import numpy as np

from jetstream_spark.client.flow import Message
from jetstream_spark.sink.batch_outcome import RowRefusal
from jetstream_spark.sink.refusals import BATCH_INCOMPLETE, WRONG_STREAM, answer_of, refusal_in


class RowAnswers:
    """The answers to the rows of one batch.

    Args:
        prefix: of the reply subjects, up to the number of the row.
        count: of the rows.
        stream: which is to take them.

    Attributes:
        reason: why the batch is lost: what was said of its first row that is none of the
            consequences; None when nobody said it.
    """

    def __init__(self, prefix: bytes, count: int, stream: str) -> None:
        self._prefix = prefix
        self._count = count
        self._stream = stream
        self._taken: set[int] = set()
        self._refused: set[int] = set()
        self.reason: RowRefusal | None = None
        self._reason_at: int | None = None

    def note(self, message: Message) -> None:
        """Note an answer to a row; passed over is what is none, and what is said again. Not counted
        is the row that commits them: who hears that the batch is lost has its answer.

        Raises:
            ProtocolViolationError: no stream answers like that.
        """
        number = message.subject[len(self._prefix) :]
        if not message.subject.startswith(self._prefix) or not number.isdigit():
            return
        row = int(number)
        if row in self._taken or row in self._refused:
            return
        is_commit = row == self._count - 1
        if not len(message.payload or message.headers):
            if not is_commit:
                self._taken.add(row)
        elif (refusal := batch_refusal(message, self._count, self._stream, row)) is not None:
            if not is_commit:
                self._refused.add(row)
            is_consequence = refusal.err_code == BATCH_INCOMPLETE
            if not is_consequence and (self._reason_at is None or row < self._reason_at):
                self.reason, self._reason_at = refusal, row

    @property
    def are_complete(self) -> bool:
        """Whether all rows but the one that commits them were answered."""
        return len(self._taken) + len(self._refused) >= self._count - 1

    @property
    def first_not_taken(self) -> int:
        """The first row that was not put aside, where the answers to all of them are heard."""
        return next(row for row in range(self._count) if row not in self._taken)


def batch_refusal(
    message: Message, count: int, stream: str, at: int | None = None
) -> RowRefusal | None:
    """What an answer says against a batch, None if nothing.

    Args:
        count: of its rows.
        stream: which is to take them.
        at: the row that is answered, None when the answer is that to the batch.

    Raises:
        ProtocolViolationError: no stream answers like that.
    """
    everything = np.arange(count)
    answer = answer_of(message)
    refusal = refusal_in(answer)
    if refusal is None:
        return None
    if answer.get("stream", stream) != stream:
        text = f"stream '{answer['stream']}' collects this subject"
        return RowRefusal(everything, 400, WRONG_STREAM, text, at)
    return RowRefusal(everything, *refusal, at)
