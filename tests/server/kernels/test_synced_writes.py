"""The synced writes kernel: writes that a thread carries out."""

from __future__ import annotations

import errno
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.synced_writes")


class Serving:
    """Synced writes with a thread that serves them."""

    def __init__(self, kernel: Any) -> None:
        self.heard, self.told = os.pipe()
        self.writes = kernel.SyncedWrites(self.told)
        self.returns = threading.Semaphore(0)  # released whenever `serve` has returned
        self._is_over = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over:
            self.writes.serve()
            self.returns.release()

    def written(self, handle: int, buffer: Any, start: int, stop: int) -> tuple[int, int]:
        """Have something written, and return how it went."""
        self.writes.begin(handle, buffer, start, stop)
        assert os.read(self.heard, 64) == b"\1"
        outcome: tuple[int, int] = self.writes.end()
        return outcome

    def close(self) -> None:
        self._is_over = True
        self.writes.call()
        self._thread.join(60)
        assert not self._thread.is_alive()
        os.close(self.heard)
        os.close(self.told)


@pytest.fixture
def serving(kernel: Any) -> Iterator[Serving]:
    serving = Serving(kernel)
    yield serving
    serving.close()


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield handle
    os.close(handle)


def test_a_range_is_written_to_its_own_place(serving: Serving, handle: int) -> None:
    buffer = bytearray(b"0123456789")
    assert serving.written(handle, buffer, 0, 4) == (0, 0)
    assert serving.written(handle, memoryview(buffer), 4, 4) == (0, 0)
    assert serving.written(handle, bytes(buffer), 8, 10) == (0, 0)
    assert os.pread(handle, 100, 0) == b"0123\0\0\0\x0089"


def test_many_megabytes_are_written_whole(serving: Serving, handle: int) -> None:
    buffer = os.urandom(1 << 20) * 9
    assert serving.written(handle, buffer, 5, len(buffer) - 7) == (0, 0)
    assert os.pread(handle, len(buffer), 0) == bytes(5) + buffer[5:-7]


def test_the_buffer_stays_where_it_is_until_the_end(serving: Serving, handle: int) -> None:
    buffer = bytearray(b"abc")
    serving.writes.begin(handle, buffer, 0, 3)
    with pytest.raises(BufferError):
        buffer.extend(b"d")
    os.read(serving.heard, 1)
    serving.writes.end()
    buffer.extend(b"d")


def test_one_at_a_time(serving: Serving, handle: int) -> None:
    with pytest.raises(RuntimeError, match="no write is over"):
        serving.writes.end()
    serving.writes.begin(handle, b"a", 0, 1)
    with pytest.raises(RuntimeError, match="end the last one first"):
        serving.writes.begin(handle, b"b", 0, 1)
    os.read(serving.heard, 1)
    with pytest.raises(RuntimeError, match="end the last one first"):
        serving.writes.begin(handle, b"b", 0, 1)
    assert serving.writes.end() == (0, 0)
    with pytest.raises(RuntimeError, match="no write is over"):
        serving.writes.end()
    assert os.pread(handle, 10, 0) == b"a"


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 4), (4, 4)])
def test_a_range_that_is_not_there(serving: Serving, handle: int, start: int, stop: int) -> None:
    buffer = bytearray(b"abc")
    with pytest.raises(ValueError, match=f"{start} to {stop} is not in a buffer of 3 bytes"):
        serving.writes.begin(handle, buffer, start, stop)
    buffer.extend(b"d")  # it is not held
    assert serving.written(handle, buffer, 0, 4) == (0, 0)


def test_what_cannot_be_written_is_not_synced(serving: Serving, tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    assert serving.written(handle, b"abc", 0, 3) == (errno.EBADF, 0)
    os.close(handle)


def test_what_has_no_places_cannot_be_written(serving: Serving) -> None:
    assert serving.written(serving.told, b"abc", 0, 3) == (errno.ESPIPE, 0)


def test_what_cannot_be_synced(serving: Serving) -> None:
    handle = os.open("/dev/null", os.O_WRONLY)
    assert serving.written(handle, b"abc", 0, 3) == (0, errno.EINVAL)
    os.close(handle)


def test_a_call_comes_after_what_was_begun(serving: Serving, handle: int) -> None:
    serving.writes.begin(handle, b"abc", 0, 3)
    serving.writes.call()
    assert serving.returns.acquire(timeout=60)
    assert os.pread(handle, 10, 0) == b"abc"
    os.read(serving.heard, 1)
    assert serving.writes.end() == (0, 0)


def test_each_call_has_serving_return_once(kernel: Any, serving: Serving, handle: int) -> None:
    for _ in range(3):
        serving.writes.call()
    for _ in range(3):
        assert serving.returns.acquire(timeout=60)
    assert serving.written(handle, b"abc", 0, 3) == (0, 0)
    assert not serving.returns.acquire(blocking=False)


def test_it_needs_nothing_of_the_interpreter(compiled: Any, tmp_path: Path) -> None:
    """Nobody lets go of the interpreter from the beginning of a write until it is in the file."""
    serving = Serving(compiled.load("jetstream_server.kernels.synced_writes"))
    handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert serving.written(handle, b"---", 0, 3) == (0, 0)  # so it serves by now
    deadline, switch_s = time.monotonic() + 60, sys.getswitchinterval()
    with mmap.mmap(handle, 3) as mapped:
        sys.setswitchinterval(600)
        try:
            serving.writes.begin(handle, b"abc", 0, 3)
            while (found := mapped[:3]) != b"abc" and time.monotonic() < deadline:
                pass
        finally:
            sys.setswitchinterval(switch_s)
    assert found == b"abc"
    assert os.read(serving.heard, 1) == b"\1"
    assert serving.writes.end() == (0, 0)
    os.close(handle)
    serving.close()
