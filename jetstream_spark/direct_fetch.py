"""Fetching one range without a consumer, by batched direct get: for streams with retention.

On a work-queue stream a consumer of ours would be refused or take messages from others, and on an
interest stream it would count as interest and remove what it reads. Direct get (ADR-31) touches
nothing. It costs a text header block and some Python objects a message, so plain streams are read
by `RangeFetch`.

Direct get may be answered by a replica that lags behind the leader, so an answer that ends before
the range does is believed only after the leader has confirmed that nothing follows.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Iterator

from jetstream_spark.client import pool
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.errors import RequestRefusedError, RetryableError, StreamNotFoundError
from jetstream_spark.fetch import Fetch
from jetstream_spark.option_values import timestamp_ns
from jetstream_spark.options import SourceOptions
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import Block

BATCH_MAX = 1000
_OWN_HEADERS = (
    b"Nats-Stream:",
    b"Nats-Subject:",
    b"Nats-Sequence:",
    b"Nats-Time-Stamp:",
    b"Nats-Num-Pending:",
    b"Nats-Last-Sequence:",
)


class _AnswerIncompleteError(RetryableError):
    """The replica that answered does not have all that the leader has, or stopped in between."""

    condition = "ANSWER_INCOMPLETE"


class DirectFetch(Fetch):
    """One reading of one range, a block for each answer."""

    def __init__(self, options: SourceOptions, sequences: SequenceRange) -> None:
        super().__init__(options, sequences)
        self._is_checked = False

    def _read_on(self) -> Iterator[Block]:
        if not self._is_checked:
            self._check_once()
        while self.position < self.range.stop:
            with pool.lease(self.options.connection, "reader") as flow:
                block = self._fetch(flow)
            if block.count:
                self._note_progress()
                yield block
            elif self.position < self.range.stop:
                self._confirm_end()

    def _check_once(self) -> None:
        try:
            state = self._control.stream_state(self.range.stream)
        except StreamNotFoundError:
            state = None
        self._check_stream(state)
        self._is_checked = True

    def _fetch(self, flow: Flow) -> Block:
        """One request and its answer, up to the end of the range."""
        request: dict[str, object] = {
            "seq": self.position,
            "batch": min(BATCH_MAX, self.options.fetch_batch, self.range.stop - self.position),
            "max_bytes": self.options.fetch_max_bytes,
        }
        if self.options.subjects:
            request["next_by_subj"] = self.options.subjects[0]
        subject = f"{self.options.connection.api_prefix}.DIRECT.GET.{self.range.stream}"
        inbox = flow.new_inbox()
        sid = flow.subscribe(inbox)
        flow.publish(subject.encode(), json.dumps(request).encode(), inbox)
        messages = list(self._answers(flow, sid))
        flow.unsubscribe(sid)
        return _block(messages)

    def _answers(self, flow: Flow, sid: bytes) -> Iterator[Message]:
        """The messages of one answer that belong to the range; moves the position."""
        deadline = time.monotonic() + self.options.connection.request_timeout_s
        previous = 0
        while True:
            message = flow.next_message()
            if message is None:
                try:
                    flow.receive_more(deadline)
                except TimeoutError:
                    raise _AnswerIncompleteError("a direct get was not answered in time") from None
                continue
            if message.sid != sid:
                continue
            code, text = message.status
            if code in (204, 404):
                return
            if code == 503:
                raise _AnswerIncompleteError("no replica of the stream answers direct gets")
            if code:
                raise RequestRefusedError(f"DIRECT.GET.{self.range.stream}", code, 0, text)
            sequence = _number(message, b"Nats-Sequence")
            if _number(message, b"Nats-Last-Sequence") != previous or sequence < self.position:
                # One was lost between the servers: keep what came before, ask again from there.
                flow.unsubscribe(sid)
                return
            previous = sequence
            if sequence >= self.range.stop:
                self.position = self.range.stop
                flow.unsubscribe(sid)
                return
            self.position = sequence + 1
            yield message

    def _confirm_end(self) -> None:
        """Ask the leader whether anything of the range follows.

        Raises:
            RetryableError: there is; the replica lags.
        """
        pattern = self.options.subjects[0] if self.options.subjects else ">"
        following = self._control.next_sequence(self.range.stream, self.position, pattern)
        if following is not None and following < self.range.stop:
            raise _AnswerIncompleteError(f"sequence {following} is not on the replica yet")
        self.position = self.range.stop


def _number(message: Message, key: bytes) -> int:
    value = message.header(key) or b""
    return int(value) if value.isdigit() else -1


def _block(messages: list[Message]) -> Block:
    """The messages in the form that record batches are made from."""
    parts: list[bytes] = []
    fields, numbers, at = array("i"), array("q"), 0
    for message in messages:
        subject = message.header(b"Nats-Subject") or b""
        headers = _without_own_headers(message.headers)
        moment = timestamp_ns((message.header(b"Nats-Time-Stamp") or b"").decode())
        parts += (subject, headers, message.payload)
        after_subject = at + len(subject)
        after_headers = after_subject + len(headers)
        stop = after_headers + len(message.payload)
        fields.extend((at, after_subject, after_subject, after_headers, stop))
        numbers.extend((_number(message, b"Nats-Sequence"), 0, moment, 0))
        at = stop
    return Block(b"".join(parts), fields, numbers, len(messages))


def _without_own_headers(block: bytes) -> bytes:
    lines = [line for line in block.split(b"\r\n") if not line.startswith(_OWN_HEADERS)]
    kept = b"\r\n".join(lines)
    return kept if len(lines) > 3 else b""
