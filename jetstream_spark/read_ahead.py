"""Arrow batches of a task, made or read ahead of their use.

A task that writes reads its rows from Spark's JVM through a socket that holds less than one batch,
and a task that reads hands its rows over the same way. If the next batch were only asked for when
the last one is used up, the JVM would wait for the stream's server, and then the server for the
JVM. A thread that works ahead keeps all three busy; it spends its time in `recv` and in kernels,
which release the interpreter.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable

import pyarrow as pa

# So much may wait before reading pauses: some batches of short rows, one of long ones.
AHEAD_BYTES = 8 << 20


class _Shelf:
    """Batches between the thread that reads them and the one that uses them."""

    def __init__(self) -> None:
        self._batches: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._is_over = False  # nothing follows, or nothing more is wanted
        self._changed = threading.Condition()

    def wait_for_room(self) -> bool:
        """Return when another batch may be read; False when none is wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < AHEAD_BYTES or self._is_over)
            return not self._is_over

    def put(self, batch: pa.RecordBatch) -> None:
        """Leave a batch."""
        with self._changed:
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify()

    def take(self) -> pa.RecordBatch | None:
        """Wait for the next batch; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._is_over)
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._bytes -= batch.nbytes
            self._changed.notify()
            return batch

    def end(self) -> None:
        """Say, on either side, that this was the last one."""
        with self._changed:
            self._is_over = True
            self._changed.notify()


def read_ahead(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches in order, while a thread asks for the next ones.

    An error in making them is raised after the batches that came before it. If this is closed
    early, the thread ends with the batch that is under way, and closes the iterator it reads from
    if that is a generator.
    """
    shelf = _Shelf()
    errors: list[BaseException] = []

    def read() -> None:
        source = iter(batches)
        try:
            while shelf.wait_for_room():
                shelf.put(next(source))
        except StopIteration:
            pass
        except BaseException as error:  # whatever it is, it is the user's to handle
            errors.append(error)
        finally:
            shelf.end()
            if isinstance(source, Generator):
                source.close()  # here, where it runs, so that it leaves no connection open

    threading.Thread(target=read, name="jetstream-read-ahead", daemon=True).start()
    try:
        while (batch := shelf.take()) is not None:
            yield batch
        if errors:
            raise errors[0]
    finally:
        shelf.end()
