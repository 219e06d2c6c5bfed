"""Room kept back for a full disk: an empty file that is given up piece by piece.

A disk never fills up neatly between two messages. What the state machines above concluded from
messages that are still queued cannot be taken back, and all that they say afterwards would have to
wait for room that nobody may ever make. So a little room is set aside while there is some. When a
write is refused, the file shrinks by what is queued, the write is tried again at once, and the
server goes on: it takes no more publishes, but answers, delivers, saves positions and notes
deletes, all of which need little. Only when the reserve is filled up again is the shortage over.

The file belongs to the worker thread that runs flushes: every method is called there. The file
holds nothing, so no crash can harm it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.disk import FULL_ERRNOS
from jetstream_server.store.disk.spare_descriptors import DESCRIPTOR_ERRNOS

RESERVE_NAME = ".reserve"  # no account's folder begins with a dot
# Twice what may be queued for the disk (`UNFLUSHED_HIGH_BYTES`): a flush, and what came meanwhile.
RESERVE_BYTES_MAX = 64 * 1024 * 1024
RESERVE_BYTES_MIN = 256 * 1024
FREE_SHARE = 16  # it takes no more than this part of what is free
# As large a part of it must stay free beside it, or a shortage would end and begin again at once.
SLACK_SHARE = 4
# Other programs take whatever room they find, so no more is given up than is needed now.
PIECE_BYTES = 64 * 1024


class RoomDisk(Protocol):
    """What it takes to set room aside."""

    def free_bytes(self, path: Path) -> int:
        """Return how much the disk of a folder has left."""
        ...

    def allocate(self, path: Path, size: int) -> None:
        """Make a file of that size whose room is really taken; OSError if there is none."""
        ...

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file."""
        ...

    def size(self, path: Path) -> int:
        """Return the size of a file."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; it is no error if there is none."""
        ...


class Reserve:
    """The reserve of one store directory.

    Args:
        folder: where its file is.
        disk: the plain disk, not one that encrypts.
        bytes_max, bytes_min: how large it gets, and what is too little to be of use.

    Attributes:
        folder: as given.
        is_usable: False once the file system turned out not to set room aside.
    """

    def __init__(
        self,
        folder: Path,
        disk: RoomDisk,
        *,
        bytes_max: int = RESERVE_BYTES_MAX,
        bytes_min: int = RESERVE_BYTES_MIN,
    ) -> None:
        self.folder = folder
        self.is_usable = True
        self._path = folder / RESERVE_NAME
        self._disk = disk
        self._bytes_max = bytes_max
        self._bytes_min = bytes_min

    def _size(self) -> int:
        try:
            return self._disk.size(self._path)
        except OSError:
            return 0

    def fill(self) -> StoreError | None:
        """Set room aside, as much as the free space allows; return why there is too little."""
        has = self._size()
        try:
            free = self._disk.free_bytes(self.folder)
            wanted = max(has, min(self._bytes_max, (free + has) // FREE_SHARE))
            is_short = wanted < self._bytes_min or free < wanted - has + wanted // SLACK_SHARE
            if has == wanted and not is_short:
                return None
            while not is_short and wanted >= max(self._bytes_min, has):
                try:
                    self._disk.allocate(self._path, wanted)
                except OSError as error:
                    if error.errno not in FULL_ERRNOS:
                        raise
                    wanted //= 2  # a quota, or somebody was quicker
                else:
                    return None
        except OSError as error:
            if error.errno in DESCRIPTOR_ERRNOS:
                return StoreError(f"no file can be opened: {error.strerror}", str(self._path))
            self.is_usable = False
            self._disk.remove(self._path)
            return None
        return StoreError("the disk is full: too little room is left", str(self.folder))

    def give(self, wanted: int) -> bool:
        """Give up room for so many bytes; tell whether there was any."""
        has = self._size()
        if not has:
            return False
        try:
            self._disk.truncate(self._path, max(has - max(2 * wanted, PIECE_BYTES), 0))
        except OSError:
            return False
        return True
