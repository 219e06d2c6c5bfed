"""What every way of fetching a range shares: where it stands, what was lost, when to give up.

A fetch reads one range in order, whatever happens on the way. A retryable failure is followed by a
pause, each longer than the last, and another try at the position reached; when nothing came for
`readTimeout` the task fails, and Spark retries it. How messages come is up to the subclass, which
moves `position` in `_read_on`; what the range has to be compared with is the same for all.
"""

from __future__ import annotations

import abc
import logging
import time
from collections.abc import Iterator

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.data_loss import messages_expired, stream_deleted, stream_recreated
from jetstream_spark.errors import DataLossError, ReadTimeoutError, RetryableError
from jetstream_spark.options import SourceOptions
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import Block

_log = logging.getLogger("jetstream_spark")

PAUSE_S = 0.1
PAUSE_MAX_S = 2.0


class Fetch(abc.ABC):
    """One reading of one range.

    Attributes:
        position: the first sequence not fetched yet.
        loss: what was lost unread, when `failOnDataLoss` is false; otherwise it is raised.
    """

    def __init__(self, options: SourceOptions, sequences: SequenceRange) -> None:
        self.options = options
        self.range = sequences
        self.position = sequences.start
        self.loss: DataLossError | None = None
        self._control = Control(options.connection, "reader")
        self._pause_s = PAUSE_S
        self._progress_at = time.monotonic()

    def blocks(self) -> Iterator[Block]:
        """The messages of the range in order; each block is used up before the next is asked for.

        Raises:
            DataLossError: messages of the range are not there any more.
            ReadTimeoutError: no progress within `readTimeout`.
            ConnectorError: the server refuses to serve the range.
        """
        while self.position < self.range.stop:
            try:
                for block in self._read_on():
                    yield block
                    self._progress_at = time.monotonic()  # the reader's own time is not silence
            except RetryableError as error:
                self._pause_or_give_up(error)
        self._check_gaps()

    @abc.abstractmethod
    def _read_on(self) -> Iterator[Block]:
        """Fetch from the position on, to the end of the range or as far as it goes.

        Raises:
            RetryableError: it broke off; what follows is fetched by another call.
        """

    def _check_gaps(self) -> None:  # noqa: B027 - most have nothing to look for
        """Look for loss that shows only at the end."""

    # --- patience ---------------------------------------------------------------------------

    def _note_progress(self) -> None:
        self._progress_at = time.monotonic()
        self._pause_s = PAUSE_S

    @property
    def _silent_s(self) -> float:
        return time.monotonic() - self._progress_at

    def _pause_or_give_up(self, error: RetryableError) -> None:
        silent_s = self._silent_s
        if silent_s + self._pause_s > self.options.read_timeout_s:
            raise ReadTimeoutError(
                f"{self.range} made no progress beyond sequence {self.position} for "
                f"{silent_s:.0f} s; the last reason: {error.what}",
                "The task can be retried. Raise readTimeout if the server needs longer.",
            ) from error
        _log.warning("%s: going on at sequence %d after: %s", self.range, self.position, error.what)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    # --- loss -------------------------------------------------------------------------------

    def _check_stream(self, state: StreamState | None) -> None:
        """Compare the stream with what the range was planned on; what is lost is passed over."""
        if state is None:
            self._lose(stream_deleted(self.range.stream, self.position))
            self.position = self.range.stop
        elif state.created != self.range.created:
            self._lose(stream_recreated(self.range.stream, self.range.created, state.created))
            self.position = self.range.stop
        elif state.first > self.position and not self.options.expects_removals:
            first = min(state.first, self.range.stop)
            self._lose(messages_expired(self.range.stream, self.position, first))
            if first == self.range.stop:
                self.position = first

    def _lose(self, loss: DataLossError) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        self.loss = self.loss or loss
