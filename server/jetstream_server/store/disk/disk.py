"""The disk as the store sees it: a port, and the operating system behind it.

Every method raises plain `OSError`; `store/disk/commit.py` decides what a failure means. What is
guaranteed to survive power loss: bytes of a file after `sync`, names in a folder after
`sync_folder`, nothing else. `tests/sim/disk.py` is the other implementation and takes these
sentences literally.

Handles and locks are what the disk gave out, opaque to everybody else.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from jetstream_server.base.sync_data import sync_data
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.disk.spare_descriptors import DESCRIPTOR_ERRNOS, SpareDescriptors

# What is stored is nobody's business but the server's.
FILE_MODE = 0o600
FOLDER_MODE = 0o700

# Full, quota used up: conditions that end, after which the same write may succeed.
FULL_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT))

# Each of them waits for the device, which answers many as fast as one.
_SYNC_THREADS = 16
_TOGETHER_MIN = 3  # of fewer, threads cost more than they save

Sync = Callable[[], None]


class Replacement(Protocol):
    """New content for a file, written beside it; to be synced, and then placed or dropped."""

    def sync(self) -> None:
        """Return when the content is durable."""
        ...

    def place(self) -> None:
        """Put it in place of the file; the folder is to be synced."""
        ...

    def drop(self) -> None:
        """Remove it."""
        ...


class Disk(Protocol):
    """Where files live."""

    def open(self, path: Path) -> tuple[Any, bool]:
        """Open for reading and writing, making the file if need be; tell whether it was made."""
        ...

    def write(self, handle: Any, data: memoryview, offset: int) -> None:
        """Write all of `data`."""
        ...

    def sync(self, handle: Any) -> None:
        """Return when every byte written to this file is durable."""
        ...

    def descriptor(self, handle: Any) -> int | None:
        """Return the system's descriptor, if to write and sync is no more than its two calls for
        that; None if there is more to it."""
        ...

    def close(self, handle: Any) -> None:
        """Give the handle back."""
        ...

    def replace(self, path: Path, parts: Sequence[Buffer]) -> None:
        """Put a whole new content in place at once, durable but for the folder entry."""
        ...

    def prepare(self, path: Path, parts: Sequence[Buffer]) -> Replacement:
        """Write what `replace` puts in place, and no more; one at a time for each file."""
        ...

    def as_stored(self, path: Path, parts: Sequence[Buffer]) -> bytes:
        """Return what `replace` writes, for somebody else to put in place."""
        ...

    def content_of(self, path: Path, raw: bytes) -> bytes:
        """Return the content of a file that stands on the disk like this."""
        ...

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file to `size` bytes, durably."""
        ...

    def overwrite(self, path: Path, offset: int, head: bytes, stop: int) -> None:
        """Put `head` and then zeros in [offset, stop) of a file that nobody has open, durably.

        What stood there cannot be read from the disk afterwards. `head` is durable before any
        byte behind it changes.
        """
        ...

    def read(self, path: Path) -> bytes | None:
        """Return the whole content, None when there is no such file."""
        ...

    def map(self, path: Path) -> Buffer:
        """Return the whole content, paged in on demand where the system can."""
        ...

    def size(self, path: Path) -> int:
        """Return the number of bytes in a file."""
        ...

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a folder; none when there is no such folder."""
        ...

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it; durable, names included."""
        ...

    def add_folder(self, path: Path) -> list[Path]:
        """Make a folder and those above it.

        Returns:
            The folders that are to be synced for that, from the top.
        """
        ...

    def sync_folder(self, path: Path) -> None:
        """Return when every name made, changed or removed in the folder is durable."""
        ...

    def together(self, syncs: Sequence[Sync]) -> list[OSError | None]:
        """Carry out syncs in any order; return for each how it failed, None if it did not."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; it is no error if there is none."""
        ...

    def set_aside(self, path: Path) -> Path | None:
        """Take a folder with everything in it out of the way.

        After a power cut it is there as before or not at all; the caller syncs the folder above.

        Returns:
            Where it is now, beside where it was, under a name that begins with REMOVED_PREFIX; None
            when it was not there.
        """
        ...

    def clear(self, path: Path, files_max: int) -> int:
        """Remove up to `files_max` files of a folder, and with the last one the folder.

        Returns:
            How many more it might have removed; 0 when something may be left.
        """
        ...

    def lock(self, path: Path, note: bytes) -> Any | None:
        """Take an exclusive lock that ends with the process; None when somebody holds it."""
        ...

    def unlock(self, lock: Any) -> None:
        """Give a lock back."""
        ...


TEMPORARY_SUFFIX = ".tmp"
REMOVED_PREFIX = ".removed-"


class OsDisk:
    """Files of the operating system.

    Args:
        spares: for files that are open only for a moment.
    """

    def __init__(self, spares: SpareDescriptors | None = None) -> None:
        self._spares = spares
        self._asides = itertools.count()

    @contextlib.contextmanager
    def _briefly(self, path: Path, flags: int) -> Iterator[int]:
        """Have a file open for a moment."""
        flags |= os.O_CLOEXEC
        spares = self._spares
        handle = (
            os.open(path, flags, FILE_MODE)
            if spares is None
            else spares.open(path, flags, FILE_MODE)
        )
        try:
            yield handle
        finally:
            if spares is None:
                os.close(handle)
            else:
                spares.close(handle)

    def open(self, path: Path) -> tuple[int, bool]:
        """Open for reading and writing, making the file if need be."""
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            return os.open(path, flags), False
        except FileNotFoundError:
            return os.open(path, flags | os.O_CREAT, FILE_MODE), True

    def write(self, handle: int, data: memoryview, offset: int) -> None:
        """Write all of `data`; the kernel may take it in pieces."""
        done = os.pwrite(handle, data, offset)
        while done < len(data):
            done += os.pwrite(handle, data[done:], offset + done)

    def sync(self, handle: int) -> None:
        """Flush the file's bytes, and its size if that changed, to the device."""
        sync_data(handle)

    def descriptor(self, handle: int) -> int | None:
        """Return the handle: it is one."""
        return handle

    def close(self, handle: int) -> None:
        """Close the descriptor."""
        os.close(handle)

    def replace(self, path: Path, parts: Sequence[Buffer]) -> None:
        """Write a temporary file beside it, sync, rename."""
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            with self._briefly(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as handle:
                offset = 0
                for part in parts:
                    with memoryview(part) as view:
                        self.write(handle, view, offset)
                        offset += len(view)
                sync_data(handle)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()  # on a full disk it would use up space
            raise
        temporary.replace(path)

    def prepare(self, path: Path, parts: Sequence[Buffer]) -> Replacement:
        """Write a temporary file beside it."""
        return _Temporary(self, path, parts)

    def as_stored(self, path: Path, parts: Sequence[Buffer]) -> bytes:
        """Return just the content."""
        return b"".join(parts)

    def content_of(self, path: Path, raw: bytes) -> bytes:
        """Return what is there."""
        return raw

    def truncate(self, path: Path, size: int) -> None:
        """Cut and sync."""
        with self._briefly(path, os.O_RDWR) as handle:
            os.ftruncate(handle, size)
            os.fsync(handle)

    def overwrite(self, path: Path, offset: int, head: bytes, stop: int) -> None:
        """Write in place."""
        with self._briefly(path, os.O_RDWR) as handle:
            self.write(handle, memoryview(head), offset)
            sync_data(handle)
            self.write(handle, memoryview(bytes(stop - offset - len(head))), offset + len(head))
            sync_data(handle)

    def free_bytes(self, path: Path) -> int:
        """Return what an ordinary user may still take."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def allocate(self, path: Path, size: int) -> None:
        """Take the room without writing it; a file that is there already grows or shrinks."""
        if not hasattr(os, "posix_fallocate"):  # pragma: no cover - not Linux
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(path))
        with self._briefly(path, os.O_RDWR | os.O_CREAT) as handle:
            try:
                os.posix_fallocate(handle, 0, size)
                os.ftruncate(handle, size)
            except OSError:
                os.ftruncate(handle, 0)
                raise

    def read(self, path: Path) -> bytes | None:
        """Read the file."""
        try:
            with (
                self._briefly(path, os.O_RDONLY) as handle,
                os.fdopen(handle, "rb", closefd=False) as file,
            ):
                return file.read()
        except FileNotFoundError:
            return None

    def map(self, path: Path) -> Buffer:
        """Map the file read-only; it stays readable after it is removed or replaced."""
        with self._briefly(path, os.O_RDONLY) as handle:
            if os.fstat(handle).st_size == 0:
                return b""  # mmap refuses empty files
            try:
                return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
            except OSError as error:  # Python keeps a descriptor for as long as the file is mapped
                if error.errno not in DESCRIPTOR_ERRNOS:
                    raise
        return self.read(path) or b""

    def size(self, path: Path) -> int:
        """Return the size."""
        return path.stat().st_size

    def names(self, path: Path) -> list[str]:
        """List a folder."""
        try:
            return sorted(self._list(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _list(self, path: Path) -> list[str]:
        try:
            return os.listdir(path)  # noqa: PTH208 - names are wanted, not paths
        except OSError as error:
            if self._spares is None or error.errno not in DESCRIPTOR_ERRNOS:
                raise
        with self._spares.lent():
            return os.listdir(path)  # noqa: PTH208 - names are wanted, not paths

    def make_folder(self, path: Path) -> None:
        """Make what is missing, and sync what it is in."""
        made = self.add_folder(path)
        try:
            for folder in made:
                self.sync_folder(folder)
        except OSError:
            # Else the next try would find them there and not sync them.
            for folder in [path, *path.parents][: len(made)]:
                folder.rmdir()
            raise

    def add_folder(self, path: Path) -> list[Path]:
        """Make what is missing, from the top."""
        missing = list(itertools.takewhile(lambda each: not each.exists(), (path, *path.parents)))
        made: list[Path] = []
        try:
            for folder in reversed(missing):
                folder.mkdir(exist_ok=True, mode=FOLDER_MODE)
                made.append(folder)
        except OSError:  # the next try would find them there and not have them synced
            for folder in reversed(made):
                folder.rmdir()
            raise
        return [folder.parent for folder in reversed(missing)]

    def sync_folder(self, path: Path) -> None:
        """Sync the folder itself."""
        with self._briefly(path, os.O_RDONLY) as handle:
            os.fsync(handle)

    def together(self, syncs: Sequence[Sync]) -> list[OSError | None]:
        """Wait for the device once for several, in threads."""
        if len(syncs) < _TOGETHER_MIN:
            return [_outcome(each) for each in syncs]
        with ThreadPoolExecutor(min(_SYNC_THREADS, len(syncs)), "sync") as pool:
            outcomes = list(pool.map(_outcome, syncs))
        # So many at once may need more descriptors than there are.
        return [
            _outcome(sync) if error is not None and error.errno in DESCRIPTOR_ERRNOS else error
            for sync, error in zip(syncs, outcomes, strict=True)
        ]

    def remove(self, path: Path) -> None:
        """Unlink."""
        path.unlink(missing_ok=True)

    def set_aside(self, path: Path) -> Path | None:
        """Rename it."""
        for number in self._asides:
            aside = path.with_name(f"{REMOVED_PREFIX}{number}")
            try:
                path.rename(aside)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                return aside
        raise AssertionError("numbers end")

    def clear(self, path: Path, files_max: int) -> int:
        """Remove from the leaves."""
        try:
            return _clear(path, files_max)
        except FileNotFoundError:
            return files_max

    def lock(self, path: Path, note: bytes) -> int | None:
        """Lock a file with `flock` and write `note` (who holds it) into it."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        os.ftruncate(handle, 0)
        with contextlib.suppress(OSError):  # on a full disk the note is left out
            os.pwrite(handle, note, 0)
        return handle

    def unlock(self, lock: int) -> None:
        """Close the file, which ends the lock."""
        os.close(lock)


class _Temporary:
    """A file beside the one that it is to replace.

    Args:
        disk: writes it.
        path: of the file to be replaced.
        parts: the content.
    """

    def __init__(self, disk: OsDisk, path: Path, parts: Sequence[Buffer]) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._handle = os.open(self._temporary, flags, FILE_MODE)
        try:
            offset = 0
            for part in parts:
                with memoryview(part) as view:
                    disk.write(self._handle, view, offset)
                    offset += len(view)
        except OSError:
            self.drop()
            raise

    def sync(self) -> None:
        """Sync the file."""
        sync_data(self._handle)

    def place(self) -> None:
        """Rename it."""
        os.close(self._handle)
        self._temporary.replace(self._path)

    def drop(self) -> None:
        """Unlink it: on a full disk it would use up space."""
        os.close(self._handle)
        with contextlib.suppress(OSError):
            self._temporary.unlink()


def _outcome(sync: Sync) -> OSError | None:
    try:
        sync()
    except OSError as error:
        return error.with_traceback(None)  # which knows the call that takes it
    return None


def _clear(folder: Path, left: int) -> int:
    """Remove files, then the folder, never listing all of it; return how many more may go."""
    while left > 0:
        with os.scandir(folder) as entries:
            some = list(itertools.islice(entries, left))
        if not some:
            folder.rmdir()
            return left
        for entry in some:
            if entry.is_dir(follow_symlinks=False):
                left = _clear(folder / entry.name, left)
            elif left > 0:
                (folder / entry.name).unlink()
                left -= 1
    return 0
