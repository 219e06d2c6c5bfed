"""Batches are read ahead of their use: in order, within bounds, and to a clean end."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from jetstream_spark.read_ahead import AHEAD_BYTES, read_ahead


def batch(number: int, size: int = 1) -> pa.RecordBatch:
    """Return a batch of `size` bytes and its number."""
    columns = {"number": pa.array([number]), "data": pa.array([b"x" * size], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


def number_of(batch: pa.RecordBatch) -> int:
    return batch.column("number")[0].as_py()


class Source:
    """Batches, and how many were asked for; says when the next one is about to be refused."""

    def __init__(self, batches: list[pa.RecordBatch], error: BaseException | None = None) -> None:
        self.batches = batches
        self.error = error
        self.read = threading.Semaphore(0)  # one permit for each that was read
        self.threads: set[threading.Thread] = set()

    def __iter__(self):
        for each in self.batches:
            self.threads.add(threading.current_thread())
            self.read.release()
            yield each
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_all_batches_come_in_their_order(count) -> None:
    source = Source([batch(number) for number in range(count)])
    assert [number_of(each) for each in read_ahead(source)] == list(range(count))
    source.join()


def test_short_batches_are_read_before_they_are_wanted() -> None:
    source = Source([batch(number) for number in range(20)])
    ahead = read_ahead(source)
    assert number_of(next(ahead)) == 0
    for _ in range(20):
        assert source.read.acquire(timeout=60)
    assert [number_of(each) for each in ahead] == list(range(1, 20))


def test_of_long_batches_only_the_next_one_is_read() -> None:
    source = Source([batch(number, AHEAD_BYTES) for number in range(4)])
    ahead = read_ahead(source)
    for number in range(4):
        assert number_of(next(ahead)) == number
        assert source.read.acquire(timeout=60)
        if number < 3:
            # The next one at most: the one behind it has no room.
            assert source.read.acquire(timeout=60)
            assert not source.read.acquire(blocking=False)
            source.read.release()
    source.join()
    assert not source.read.acquire(blocking=False)


def test_an_error_comes_behind_what_was_read_before_it() -> None:
    source = Source([batch(0), batch(1)], OSError("the JVM is gone"))
    ahead = read_ahead(source)
    assert [number_of(next(ahead)), number_of(next(ahead))] == [0, 1]
    with pytest.raises(OSError, match="the JVM is gone"):
        next(ahead)
    source.join()


def test_the_thread_ends_when_nobody_wants_more() -> None:
    source = Source([batch(number, AHEAD_BYTES) for number in range(10)])
    ahead = read_ahead(source)
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    source.join()
    assert sum(source.read.acquire(blocking=False) for _ in range(11)) < 4


def test_a_generator_is_closed_in_the_thread_that_ran_it() -> None:
    closed_in: list[threading.Thread] = []
    is_closed = threading.Event()

    def made():
        try:
            for number in range(10):
                yield batch(number, AHEAD_BYTES)
        finally:
            closed_in.append(threading.current_thread())
            is_closed.set()

    ahead = read_ahead(made())
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    assert is_closed.wait(60)
    assert closed_in != [threading.current_thread()]
