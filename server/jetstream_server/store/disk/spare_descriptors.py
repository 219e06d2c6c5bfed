"""File descriptors kept back for files that are open only for a moment.

If all descriptors of the process were taken, no block could be read and no folder synced, and a
stream goes offline when something cannot be done to one of its files. So a few are held while there
are some. A caller that gets none from the system borrows one, which is taken back the very moment
the file is closed, before anybody else can have it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

# Of the process, of the system: conditions that end, after which the same file may be opened.
DESCRIPTOR_ERRNOS = frozenset((errno.EMFILE, errno.ENFILE))
SPARES = 4  # the loop reads and the worker writes, each with a file and a folder


class SpareDescriptors:
    """Descriptors that are held in reserve."""

    def __init__(self, count: int = SPARES) -> None:
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._spares = [os.dup(self._null) for _ in range(count)]
        self._count = count

    def open(self, path: Path, flags: int, mode: int) -> int:
        """Open a file, with a spare descriptor if there is no other.

        Raises:
            OSError: as `os.open`.
        """
        try:
            return os.open(path, flags, mode)
        except OSError as error:
            if error.errno not in DESCRIPTOR_ERRNOS:
                raise
            try:
                spare = self._spares.pop()
            except IndexError:  # other threads have them
                raise error from None
        os.close(spare)
        return os.open(path, flags, mode)

    def close(self, handle: int) -> None:
        """Close a file; its descriptor replaces one that was borrowed."""
        if len(self._spares) < self._count:
            os.dup2(self._null, handle, inheritable=False)
            self._spares.append(handle)
        else:
            os.close(handle)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Leave one to a function that opens and closes a descriptor by itself."""
        if self._spares:
            os.close(self._spares.pop())
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # somebody else was quicker
                self._spares.append(os.dup(self._null))

    def release(self) -> None:
        """Give all of them back; nothing is held any more."""
        while self._spares:
            os.close(self._spares.pop())
        if self._null >= 0:
            os.close(self._null)
        self._count, self._null = 0, -1
