"""A range by batched direct get: for streams from which a consumer of ours would take messages.

On a work-queue stream a consumer of ours would be refused or take messages from others, and on an
interest stream it would count as interest and remove what it reads. Direct get (ADR-31) changes
nothing. It costs a text header block and some Python objects per message, so ordinary streams are
read through a consumer.

Direct get may be answered by a replica that lags behind the leader, so an answer that ends before
the range does is believed only after the leader has confirmed that nothing follows.
"""

from __future__ import annotations

import json
from array import array

from jetstream_spark.client import pool
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import (
    RequestRefusedError,
    RetentionRefusedError,
    RetryableError,
    StreamNotFoundError,
)
from jetstream_spark.fetch.data_loss import find_loss_in_range, find_missing_end
from jetstream_spark.fetch.direct_answer import DirectMessage, stored_in
from jetstream_spark.fetch.fetch import FetchStep
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock
from jetstream_spark.options.format_options import SourceOptions

BATCH_MAX = 1000


class _AnswerIncompleteError(RetryableError):
    """The replica that answered lacks something that the leader has, or stopped in between."""

    condition = "ANSWER_INCOMPLETE"


class DirectWay:
    """One block for each answer."""

    def __init__(self, host: Host, options: SourceOptions, sequences: SequenceRange) -> None:
        self._host = host
        self._options = options
        self._range = sequences
        self._control = Control(host, options.connection, "reader", patience_s=0)
        self._is_checked = False  # the stream was compared with the plan
        self._lacks_end = False  # it was said that the stream lacks some of what was planned

    def advance(self, position: int) -> Operation[FetchStep]:
        """One request and its answer; see `Way`."""
        if not self._is_checked:
            step = yield from self._check(position)
            self._is_checked = True
            if step is not None:
                return step
        options = self._options.connection
        flow = yield from pool.take(self._host, options, "reader")
        with pool.keeping(self._host, options, "reader", flow):
            messages, following = yield from self._ask(flow, position)
        # An answer does not say which incarnation it is from; one that still exists existed then.
        step = yield from self._check(position, is_identity_only=True)
        if step is not None:
            return step
        if messages:
            is_last = following >= self._range.stop
            return FetchStep(
                following, _block(messages), is_last, _gap(messages, position, following)
            )
        if following < self._range.stop:
            yield from self._confirm_end(position)
        first_gap = position if position < self._range.stop else None
        return FetchStep(self._range.stop, is_last=True, first_gap=first_gap)

    def abandon(self) -> None:
        """Nothing is open between two requests."""

    def finish(self) -> Operation[None]:
        """Nothing is left behind."""
        yield from ()

    def _check(self, position: int, is_identity_only: bool = False) -> Operation[FetchStep | None]:
        """Compare the stream with what the range was planned on; the step when there is loss.

        Args:
            is_identity_only: only compare incarnations; messages gone from its beginning do not
                matter.
        """
        try:
            known = self._range.stream, self._range.created, self._range.stop
            state = yield from self._control.state_reaching(*known)
        except StreamNotFoundError:
            state = None
        removals = self._options.expects_removals or is_identity_only
        loss, following = find_loss_in_range(self._range, position, state, removals)
        if loss is None and state is not None and not self._lacks_end:
            loss = find_missing_end(self._range, state)
            if loss is not None and state.is_replicated and self._options.fail_on_data_loss:
                raise _AnswerIncompleteError(f"the stream's leader lacks something: {loss.what}")
            self._lacks_end = loss is not None
        if loss is None:
            return None
        return FetchStep(following, is_last=following >= self._range.stop, loss=loss)

    def _ask(self, flow: Flow, position: int) -> Operation[tuple[list[DirectMessage], int]]:
        """The messages of one answer that belong to the range, and the sequence after them.

        That sequence is the end of the range when the answer shows that nothing more of it follows.
        """
        request: dict[str, object] = {
            "seq": position,
            "batch": min(BATCH_MAX, self._options.fetch_batch, self._range.stop - position),
            "max_bytes": self._options.fetch_max_bytes,
        }
        if self._options.subjects:
            request["next_by_subj"] = self._options.subjects[0]
        subject = f"{self._options.connection.api_prefix}.DIRECT.GET.{self._range.stream}"
        inbox = flow.new_inbox()
        sid = flow.subscribe(inbox)
        flow.publish(subject.encode(), json.dumps(request).encode(), inbox)
        deadline = self._host.now() + self._options.connection.request_timeout_s
        try:
            yield from flow.flush(deadline)
            answer = yield from self._answer(flow, sid, position, deadline)
        except TimeoutError:
            raise _AnswerIncompleteError("a direct get was not answered in time") from None
        flow.unsubscribe(sid)
        return answer

    def _answer(
        self, flow: Flow, sid: bytes, position: int, deadline: float
    ) -> Operation[tuple[list[DirectMessage], int]]:
        messages: list[DirectMessage] = []
        previous, following = 0, position
        while True:
            message = yield from flow.await_message(deadline)
            if message.sid != sid:
                continue
            stored = stored_in(message)
            if stored is None:
                code, text = message.status
                if code in (204, 404):
                    return messages, following
                if code == 503:
                    raise _AnswerIncompleteError("no replica of the stream answers direct gets")
                raise RequestRefusedError(f"DIRECT.GET.{self._range.stream}", code, 0, text)
            if stored.previous is None:
                raise RetentionRefusedError(
                    f"the server of stream '{self._range.stream}' answers direct gets one by one; "
                    "in batches it does so from nats-server 2.11 on.",
                    "Upgrade the server, or read a stream that mirrors this one by limits.",
                )
            sequence = stored.sequence
            if stored.previous != previous or sequence < following:
                # One was lost between servers: keep what came before it, and ask again from there.
                if not messages:
                    raise _AnswerIncompleteError("the answer to a direct get has a hole")
                return messages, following
            if sequence >= self._range.stop:
                return messages, self._range.stop
            previous, following = sequence, sequence + 1
            messages.append(stored)

    def _confirm_end(self, position: int) -> Operation[None]:
        """Ask the leader whether anything of the range follows.

        Raises:
            RetryableError: there is; the replica lags.
        """
        pattern = self._options.subjects[0] if self._options.subjects else ">"
        following = yield from self._control.next_sequence(self._range.stream, position, pattern)
        if following is not None and following < self._range.stop:
            raise _AnswerIncompleteError(f"sequence {following} is not on the replica yet")


def _gap(messages: list[DirectMessage], position: int, stop: int) -> int | None:
    """The first sequence from a position on that an answer passed over; None if there is none."""
    if stop - position == len(messages):
        return None
    for message in messages:
        if message.sequence != position:
            break
        position += 1
    return position


def _block(messages: list[DirectMessage]) -> MessageBlock:
    """The messages in the form that record batches are made from."""
    parts: list[bytes] = []
    fields, numbers, at = array("i"), array("q"), 0
    for message in messages:
        parts += (message.subject, message.headers, message.payload)
        after_subject = at + len(message.subject)
        after_headers = after_subject + len(message.headers)
        stop = after_headers + len(message.payload)
        fields.extend((at, after_subject, after_subject, after_headers, stop))
        numbers.extend((message.sequence, 0, message.time_ns, 0))
        at = stop
    return MessageBlock(b"".join(parts), fields, numbers, len(messages))
