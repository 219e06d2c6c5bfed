"""Patience: a fetch goes on after failures, pauses grow, and it gives up with the last reason."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest

from jetstream_spark import fetch as module
from jetstream_spark.errors import ConnectionLostError, ReadTimeoutError
from jetstream_spark.fetch import Fetch
from jetstream_spark.options import SourceOptions
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import Block


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Faulty(Fetch):
    """Breaks off `failures` times before each message."""

    def __init__(self, stop: int, failures: int) -> None:
        options = {"servers": "nats://h:1", "stream": "S", "readTimeout": "10s"}
        super().__init__(SourceOptions.parse(options), SequenceRange("S", "t", 1, stop))
        self._failures = self._left = failures

    def _read_on(self) -> Iterator[Block]:
        if self._left:
            self._left -= 1
            raise ConnectionLostError("the line was cut.")
        self._left = self._failures
        self.position += 1
        self._note_progress()
        yield Block(b"", array("i"), array("q"), 1)


def test_pauses_grow_and_start_over_with_progress(clock):
    reading = Faulty(3, failures=3)
    assert len(list(reading.blocks())) == 2
    assert clock.pauses == [0.1, 0.2, 0.4] * 2


def test_silence_ends_it_with_the_last_reason(clock):
    reading = Faulty(3, failures=99)
    with pytest.raises(ReadTimeoutError, match=r"beyond sequence 1 .* the line was cut") as raised:
        list(reading.blocks())
    assert clock.now <= 10
    assert max(clock.pauses) == 2.0
    assert isinstance(raised.value.__cause__, ConnectionLostError)
