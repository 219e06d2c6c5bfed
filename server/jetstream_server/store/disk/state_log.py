"""A small piece of state that changes often: a log whose last whole entry counts.

A consumer's position changes with every ack. Replacing a file takes a new file, two syncs and two
commits of the file system's journal, milliseconds each; appending takes a write and at most one
sync. So states are appended, and a new file is begun when the old one has grown large, or after a
restart, as its end may be torn.

    files     <name>.<number>, of which only the highest counts; lower ones are on their way out
    entry     u32 CRC-32C over the rest, u32 length, the state

Invariants: the first entry of a file is synced before the file before it is removed, so there is
always a whole entry. Entries saved lazily are synced only now and then; if the last ones are lost,
the state is that of a little earlier, which is what lazily means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner

_HEADER = Struct("<II")
FILE_BYTES_MIN = 64 * 1024  # a file is left behind when it has this many bytes ...
FILE_ENTRIES_MIN = 8  # ... and as many times the bytes of an entry
LAZY_SYNC_EVERY = 10  # one lazy entry in so many is synced


class StateLog:
    """A `StateFile` for state that changes often.

    Args:
        path: folder and name of the files, without the number.
        commit: the queue to the disk.
        owner: is told how writing went.
    """

    def __init__(self, path: Path, commit: GroupCommit, owner: Owner) -> None:
        self._path = path
        self._commit = commit
        self._owner = owner
        self._file: Path | None = None  # the one being written
        self._used = 0
        self._lazy_entries = 0

    def load(self) -> bytes | None:
        """Return what was saved last, whether or not it is on disk yet.

        Raises:
            StoreError: it cannot be read, or there is no whole entry.
        """
        queued = self._commit.last_append(self._path)
        if queued is not None:
            return queued[_HEADER.size :]
        numbers = self._numbers()
        for number in reversed(numbers):
            if (state := _last_entry(self._read(number))) is not None:
                return state
        if any(self._read(number).strip(b"\0") for number in numbers):
            raise StoreError("the file is damaged: it holds no whole state", str(self._path), 0)
        return None

    def load_all(self) -> tuple[list[bytes], bool]:
        """Return all whole states of the last file that has one, and whether a file is damaged.

        For recovery, when nothing is queued. Bytes behind the last whole entry may be a torn tail.

        Raises:
            StoreError: a file cannot be read.
        """
        is_damaged = False
        for number in reversed(self._numbers()):
            stored = self._read(number)
            if entries := list(_entries(stored)):
                return entries, is_damaged
            is_damaged = True
        return [], is_damaged

    def is_worn(self, size: int) -> bool:
        """Tell whether the next state, of `size` bytes, begins a new file."""
        return self._file is None or (
            self._used > FILE_BYTES_MIN and self._used > FILE_ENTRIES_MIN * (size + _HEADER.size)
        )

    def leave(self) -> None:
        """Begin a new file with the next state."""
        self._file = None

    def save(
        self, data: bytes, *, lazily: bool = False, begins: bool = False, joins: bool = True
    ) -> None:
        """Append a state.

        Args:
            data: the state.
            lazily: it may be lost, and the state is then the one before.
            begins: whether to begin a new file with it.
            joins: whether it may be written before what was queued since the last one was.
        """
        rest = len(data).to_bytes(4, "little") + data
        entry = crc32c(rest).to_bytes(4, "little") + rest
        if begins or self._file is None or self.is_worn(len(data)):
            self._begin(entry)
        else:
            self._lazy_entries = self._lazy_entries + 1 if lazily else 0
            is_due = not lazily or self._lazy_entries % LAZY_SYNC_EVERY == 0
            syncs = is_due and not self._commit.lazily_ns
            self._commit.append(
                self._owner, self._file, entry, self._used, syncs=syncs, joins=joins
            )
        self._used += len(entry)

    def _begin(self, entry: bytes) -> None:
        """Begin a new file, and have the ones before it removed."""
        commit = self._commit
        numbers = self._numbers()
        self._file = self._at(numbers[-1] + 1 if numbers else 1)
        self._used = self._lazy_entries = 0
        commit.append(self._owner, self._file, entry, 0, syncs=True)
        for number in numbers:
            commit.remove(self._owner, self._at(number), waits=True)

    def remove(self) -> None:
        """Queue the removal."""
        if self._commit.is_removed(self._path.parent):
            self._file = None
            return
        for number in self._numbers():
            self._commit.remove(self._owner, self._at(number))
        self._file = None

    def _at(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _numbers(self) -> list[int]:
        """Return the numbers of the files that are there or will be, rising."""
        head = f"{self._path.name}."
        found = {
            unsigned(name.removeprefix(head))
            for name in self._commit.disk.names(self._path.parent)
            if name.startswith(head) and unsigned(name.removeprefix(head)) >= 0
        }
        found = {number for number in found if not self._commit.is_removed(self._at(number))}
        if self._file is not None:
            found.add(int(self._file.suffix[1:]))
        return sorted(found)

    def _read(self, number: int) -> bytes:
        path = self._at(number)
        try:
            return self._commit.disk.read(path) or b""
        except OSError as error:
            raise StoreError(f"read failed: {error.strerror}", str(path)) from error


def _entries(stored: bytes) -> Iterator[bytes]:
    """Yield the states of whole entries, up to the first that is not whole."""
    at = 0
    while at + _HEADER.size <= len(stored):
        checksum, length = _HEADER.unpack_from(stored, at)
        stop = at + _HEADER.size + length
        if stop > len(stored) or crc32c(stored[at + 4 : stop]) != checksum:
            break
        yield stored[at + _HEADER.size : stop]
        at = stop


def _last_entry(stored: bytes) -> bytes | None:
    """Return the state of the last whole entry."""
    return next(iter(deque(_entries(stored), maxlen=1)), None)
