"""Reading one range in order, completely, whatever happens on the way.

A `Way` brings the messages, block by block: through a consumer (`range_fetch.py`), by direct get
(`direct_fetch.py`), or as the current values of a bucket (`kv_latest.py`). What all of them share
is here: where the reading stands, what was lost, and when to give up.

There is one position, and **only what has been handed over decides it**: it moves when the caller,
having used a block, asks for the next one. A way that fails is dropped with everything it had
collected, and reading goes on from the position. So a broken connection can cost time, never a row.

A failure is followed by a pause, each longer than the last. While the servers cannot be reached
that goes on for `outageTimeout`; while they are there and bring nothing, for `readTimeout`. Then
the task fails, and Spark retries it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Host, Operation, Pause, Production
from jetstream_spark.client.patience import PASSING, GrowingPauses
from jetstream_spark.errors import (
    DataLossError,
    ReadTimeoutError,
    RetryableError,
    StreamNotFoundError,
)
from jetstream_spark.fetch.data_loss import find_loss_in_range, messages_expired
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock
from jetstream_spark.options.format_options import SourceOptions

_log = logging.getLogger("jetstream_spark")


@dataclass(slots=True)
class FetchStep:
    """What a way brought: a block of messages, and what is known beyond it.

    Attributes:
        next: the first sequence that is neither in the block nor before it.
        block: the messages, in memory that the next step uses again. None when there are none.
        is_last: nothing more of the range follows.
        first_gap: the first sequence before `next` that was passed over because it is not there.
        loss: what was found to be lost: the messages up to `next` are gone.
    """

    next: int
    block: MessageBlock | None = None
    is_last: bool = False
    first_gap: int | None = None
    loss: DataLossError | None = None


class Way(Protocol):
    """A way in which the messages of a range are read."""

    def advance(self, position: int) -> Operation[FetchStep]:
        """Bring what begins at a position: `next` of the step before, or where that step failed.

        Raises:
            RetryableError: it broke off; abandon it, and another `advance` goes on.
        """

    def abandon(self) -> None:
        """Drop everything that was collected or is open, without waiting."""

    def finish(self) -> Operation[None]:
        """Tidy up after a range that was read to its end; failures no longer matter."""


class Fetch:
    """One reading of one range.

    Attributes:
        position: the first sequence not handed over yet.
        loss: what was lost unread, when `failOnDataLoss` is false; otherwise it is raised.
    """

    def __init__(
        self, host: Host, options: SourceOptions, sequences: SequenceRange, way: Way
    ) -> None:
        self.options = options
        self.range = sequences
        self.position = sequences.start
        self.loss: DataLossError | None = None
        self._host = host
        self._way = way
        self._first_gap: int | None = None  # the first one met; judged at the end
        self._pauses = GrowingPauses(host)
        self._progress_at = host.now()  # when a block was last brought, in seconds

    def blocks(self) -> Production[MessageBlock]:
        """The messages of the range in order; each block must be used up before the next is asked
        for.

        Raises:
            DataLossError: messages of the range are not there any more.
            ReadTimeoutError: no progress within `readTimeout` or `outageTimeout`.
            ConnectorError: the server refuses to serve the range.
        """
        is_over = self.position >= self.range.stop
        try:
            while not is_over:
                try:
                    step = yield from self._way.advance(self.position)
                except RetryableError as error:
                    self._way.abandon()
                    yield from self._pause_or_give_up(error)
                    continue
                if step.loss is not None:
                    self._lose(step.loss)
                if step.block is not None and step.block.count:
                    yield step.block
                self.position = step.next
                self._note_progress(step)
                is_over = step.is_last
            yield from self._way.finish()
            yield from self._check_gaps()
        finally:
            self._way.abandon()

    # --- patience ---------------------------------------------------------------------------

    def _note_progress(self, step: FetchStep) -> None:
        if self._first_gap is None:
            self._first_gap = step.first_gap
        self._progress_at = self._host.now()  # the time the reader itself took is not silence
        self._pauses.restart()

    def _pause_or_give_up(self, error: RetryableError) -> Operation[None]:
        silent_s = self._host.now() - self._progress_at
        is_outage = isinstance(error, PASSING)
        limit_s = self.options.read_timeout_s
        if is_outage:
            limit_s = max(limit_s, self.options.connection.outage_timeout_s)
        if silent_s + self._pauses.longest_s > limit_s:
            option = "outageTimeout" if is_outage else "readTimeout"
            raise ReadTimeoutError(
                f"{self.range} made no progress beyond sequence {self.position} for "
                f"{silent_s:.0f} s; the last reason: {error.what}",
                f"The task can be retried. Raise {option} if the server needs longer.",
            ) from error
        _log.warning("%s: going on at sequence %d after: %s", self.range, self.position, error.what)
        pause_s = self._pauses.take_s(spreads=is_outage)
        yield Pause(self._host.now() + pause_s)

    # --- loss -------------------------------------------------------------------------------

    def _lose(self, loss: DataLossError) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        self.loss = self.loss or loss

    def _check_gaps(self) -> Operation[None]:
        """Whether a gap was made by limits that overtook the reading, rather than by deletes.

        With a subject filter a gap may be another subject's message. A message that is gone does
        not tell its subject, so it counts as one of ours, as at the beginning of a range. Of a
        stream that is gone nobody can tell what its gaps were, so that counts as loss.
        """
        if self._first_gap is None or self.loss is not None:
            return
        if self.options.expects_removals:
            return
        control = Control(self._host, self.options.connection, "reader")
        state: StreamState | None
        try:
            state = yield from control.stream_state(self.range.stream)
        except StreamNotFoundError:
            state = None
        if state is None or state.created != self.range.created:
            loss, _ = find_loss_in_range(self.range, self._first_gap, state, True)
            assert loss is not None, "it is another one"
            self._lose(loss)
        elif state.first > self._first_gap:
            stop = min(state.first, self.range.stop)
            self._lose(messages_expired(self.range.stream, self._first_gap, stop))
