"""Where the chunks of a restore wait until the last of them has come.

It is a message store in a folder that belongs to no stream: it never gets a config, so a crash
leaves nothing that could be taken for a stream, and whoever uses the folder next finds it empty.
"""

from __future__ import annotations

from jetstream_server.store.ports import StreamFolder


class Spool:
    """Chunks in the order in which they came.

    Attributes:
        number: of the folder.
    """

    def __init__(self, number: int, folder: StreamFolder) -> None:
        self.number = number
        self._folder = folder
        self._store = folder.messages()
        self._next_seq = 1

    def append(self, chunk: bytes, now: int) -> None:
        """Keep a chunk.

        Raises:
            StoreError: the disk is full or failed.
        """
        self._store.append(b"chunk", b"", chunk, now)

    def take(self) -> bytes | None:
        """Return the next chunk and drop it here; None when there are no more.

        Raises:
            StoreError: it cannot be read.
        """
        message = self._store.load_next(None, self._next_seq)
        if message is None:
            return None
        self._next_seq = message.sequence + 1
        self._store.truncate_front(self._next_seq)
        return message.payload

    def remove(self) -> None:
        """Remove everything."""
        self._folder.remove()
