"""Patience and position: a fetch goes on behind what it handed over, and gives up with a reason."""

from __future__ import annotations

from array import array

import pytest

from jetstream_spark.client.blocking import BlockingHost
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Operation, Pause
from jetstream_spark.errors import (
    ConnectionLostError,
    MessagesExpiredError,
    ReadTimeoutError,
    StreamDeletedError,
    StreamNotFoundError,
    StreamOfflineError,
    StreamRecreatedError,
)
from jetstream_spark.fetch.fetch import Fetch, FetchStep
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock
from jetstream_spark.options.format_options import SourceOptions


class Clock(BlockingHost):
    """A host whose time is that of its pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.time

    def token(self, size_bytes: int) -> str:
        return "ff" * size_bytes


class Faulty:
    """Breaks off `failures` times before each message."""

    def __init__(self, failures: int, error: Exception) -> None:
        self._failures = self._left = failures
        self._error = error
        self.asked: list[int] = []
        self.abandoned = 0

    def advance(self, position: int) -> Operation[FetchStep]:
        yield from ()
        self.asked.append(position)
        if self._left:
            self._left -= 1
            raise self._error
        self._left = self._failures
        return FetchStep(
            position + 1, MessageBlock(b"", array("i"), array("q"), 1), is_last=position == 2
        )

    def abandon(self) -> None:
        self.abandoned += 1

    def finish(self) -> Operation[None]:
        yield from ()


CUT = ConnectionLostError("the line was cut.")


@pytest.fixture
def clock():
    return Clock()


def fetching(clock: Clock, way: Faulty | Gappy, **more: str) -> Fetch:
    options = {"servers": "nats://h:1", "stream": "S", "readTimeout": "10s", "outageTimeout": "30s"}
    options |= more
    sequences = SequenceRange("S", "t", 1, 3)
    return Fetch(clock, SourceOptions.parse(options), sequences, way)


def run(clock: Clock, fetch: Fetch, stop_after: int = 99) -> int:
    """How many blocks were handed over; pauses pass at once."""
    blocks = 0
    for item in (reading := fetch.blocks()):
        if isinstance(item, Pause):
            clock.pauses.append(round(item.until - clock.time, 3))
            clock.time = item.until
        else:
            blocks += 1
            if blocks == stop_after:
                reading.close()
                break
    return blocks


def test_pauses_grow_and_start_over_with_progress(clock):
    way = Faulty(3, CUT)
    assert run(clock, fetching(clock, way)) == 2
    assert clock.pauses == [0.5, 0.2, 0.4] * 2, "the first one spreads those who were cut together"
    assert way.asked == [1] * 4 + [2] * 4
    assert way.abandoned == 7, "after each failure, and at the end"


@pytest.mark.parametrize(
    ("error", "limit_s", "option"),
    [(CUT, 30, "outageTimeout"), (StreamOfflineError("it is offline."), 10, "readTimeout")],
)
def test_silence_ends_it_with_the_last_reason(clock, error, limit_s, option):
    with pytest.raises(ReadTimeoutError, match=r"beyond sequence 1 ") as raised:
        run(clock, fetching(clock, Faulty(99, error)))
    assert limit_s - 2 <= clock.time <= limit_s
    assert max(clock.pauses) == 2.0
    assert error.what in raised.value.what and option in raised.value.remedy
    assert raised.value.__cause__ is error


def test_a_block_that_nobody_came_back_for_is_not_behind_the_position(clock):
    fetch = fetching(clock, Faulty(0, CUT))
    assert run(clock, fetch, stop_after=1) == 1
    assert fetch.position == 1


class Gappy:
    """Brings the messages 1 and 2 of a range, and says that 2 was passed over, or not."""

    def __init__(self, gap: int | None) -> None:
        self._gap = gap

    def advance(self, position: int) -> Operation[FetchStep]:
        yield from ()
        block = MessageBlock(b"", array("i"), array("q"), 1)
        return FetchStep(3, block, is_last=True, first_gap=self._gap)

    def abandon(self) -> None:
        pass

    def finish(self) -> Operation[None]:
        yield from ()


def state(created: str, first: int) -> StreamState:
    return StreamState("S", created, first, 9, 9 - first, 0, {})


@pytest.mark.parametrize(
    ("now", "gap", "loss"),
    [
        (state("t", 1), 2, None),
        (state("t", 3), 2, MessagesExpiredError),
        (state("later", 1), 2, StreamRecreatedError),
        (state("later", 1), None, None),
        (None, 2, StreamDeletedError),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("fails", [True, False])
def test_what_nobody_can_tell_of_a_gap_any_more_counts_as_loss(
    clock, monkeypatch, now, gap, loss, fails
):
    """Rows that had expired were taken for deleted, as the stream was made anew before the look
    (seed 1622237)."""

    def stream_state(control, stream):
        yield from ()
        if now is None:
            raise StreamNotFoundError("stream not found.")
        return now

    monkeypatch.setattr(Control, "stream_state", stream_state)
    fetch = fetching(clock, Gappy(gap), failOnDataLoss=str(fails))
    if loss is not None and fails:
        with pytest.raises(loss):
            run(clock, fetch)
        return
    assert run(clock, fetch) == 1
    assert type(fetch.loss) is loss if loss is not None else fetch.loss is None
