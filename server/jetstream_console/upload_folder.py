"""Where the files are that browsers send, until they are in an object store.

The folder goes with the console. Of one that was killed it stays, and the next console that starts
removes it: only a console that lives holds the lock in its folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "jetstream-console-"
_LOCK = "lock"


@contextmanager
def upload_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for this process, and remove those that others have left.

    Args:
        parent: where such folders are.
    """
    for each in parent.glob(f"{_PREFIX}*"):
        # What belongs to somebody else, or is no such folder, is none of ours.
        with suppress(OSError):
            _remove_if_left(each)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with folder.joinpath("new").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Nobody sees the lock before it is held.
            folder.joinpath("new").rename(folder / _LOCK)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return
    with folder.joinpath(_LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
