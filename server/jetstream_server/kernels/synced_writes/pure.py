"""A thread's writes to files, each with its sync, in pure Python: the reference for `fast.pyx`.

Whoever publishes waits for a write, its sync, and two threads that wake each other. The compiled
twin does in its thread what is here without ever holding the interpreter, so it neither waits until
the loop lets go of that, nor keeps it from going on; that is a tenth of what a publish takes.

One thread serves, another one begins writes and takes back how they went, one at a time:

    writes = SyncedWrites(told)     # a pipe's end, or the like
    writes.serve()                  # thread: returns when it is called away
    writes.begin(handle, buffer, start, stop)
    ...                             # a byte has come through `told`
    write_errno, sync_errno = writes.end()
"""

from __future__ import annotations

import errno
import os
from queue import SimpleQueue

from jetstream_server.base.sync_data import sync_data
from jetstream_server.kernels.record_format import Buffer

_NOTHING, _BEGUN, _DONE = range(3)


class SyncedWrites:
    """Writes that a thread carries out.

    Args:
        told: the descriptor to which a byte is written when a write is over.
    """

    def __init__(self, told: int) -> None:
        self._told = told
        self._wanted: SimpleQueue[bool] = SimpleQueue()  # whether it is a write
        self._state = _NOTHING
        self._handle = -1
        self._data = memoryview(b"")
        self._offset = 0
        self._outcome = 0, 0

    def begin(self, handle: int, buffer: Buffer, start: int, stop: int) -> None:
        """Have `buffer[start:stop]` written to the same place in a file, and the file synced.

        The buffer must neither move nor change in that range, and the descriptor stay open, until
        `end`.

        Raises:
            RuntimeError: the write before was not ended.
            ValueError: the range is not in the buffer.
        """
        if self._state != _NOTHING:
            raise RuntimeError("one write at a time: end the last one first")
        data = memoryview(buffer)
        if not 0 <= start <= stop <= len(data):
            raise ValueError(f"{start} to {stop} is not in a buffer of {len(data)} bytes")
        self._handle, self._data, self._offset = handle, data[start:stop], start
        self._state = _BEGUN
        self._wanted.put(True)

    def call(self) -> None:
        """Have `serve` return once, after what was begun."""
        self._wanted.put(False)

    def serve(self) -> None:
        """Carry out writes until somebody calls."""
        while self._wanted.get():
            self._outcome = _written_and_synced(self._handle, self._data, self._offset)
            self._state = _DONE
            os.write(self._told, b"\1")

    def end(self) -> tuple[int, int]:
        """Take a write back.

        Returns:
            The error number of the write, and that of the sync: 0 where all is well. What could not
            be written is not synced.

        Raises:
            RuntimeError: none is over.
        """
        if self._state != _DONE:
            raise RuntimeError("no write is over")
        self._data = memoryview(b"")
        self._state = _NOTHING
        return self._outcome


def _written_and_synced(handle: int, data: memoryview, offset: int) -> tuple[int, int]:
    done = 0
    while done < len(data):
        try:
            taken = os.pwrite(handle, data[done:], offset + done)
        except OSError as error:
            return error.errno or errno.EIO, 0
        if not taken:
            return errno.EIO, 0
        done += taken
    try:
        sync_data(handle)
    except OSError as error:
        return 0, error.errno or errno.EIO
    return 0, 0
