"""A small piece of state that changes often: a log whose last whole entry counts.

A consumer's position changes with every ack. Replacing a file takes a new file, two syncs and two
commits of the file system's journal, milliseconds each; appending takes a write and at most one
sync. So states are appended, and a new file is begun when the old one has grown large, or after a
restart, as its end may be torn.

    files     <name>.<number>, of which only the highest counts; lower ones are on their way out
    entry     u32 CRC-32C over the rest, u32 length, the state

Invariants: the first entry of a file is synced before the file before it is removed, so there is
always a whole entry. Entries saved lazily are synced only now and then; if the last ones are lost,
a slightly earlier state is found, which is what lazily means. What is noted past the queue (`note`)
is in the system's memory at once; of a file begun that way the next `save` makes the first entry
durable, and only then are the files before it removed.

An entry that is torn or damaged is left out, and reading goes on behind it. If it is the last one,
nobody can tell which of the two it is: a slightly earlier state is found, and `damage` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.disk.commit import BlockFile, GroupCommit
from jetstream_server.store.disk.owner import Owner

_HEADER = Struct("<II")
_LENGTH = _CHECKSUM = Struct("<I")
FILE_BYTES_MIN = 64 * 1024  # a file is left behind when it has this many bytes ...
FILE_ENTRIES_MIN = 8  # ... and as many times the bytes of an entry
LAZY_SYNC_EVERY = 10  # one lazy entry in so many is synced


class StateLog:
    """A `StateFile` for state that changes often.

    Args:
        path: folder and name of the files, without the number.
        commit: the queue to the disk.
        owner: is told how writing went.

    Attributes:
        damage: what of the files `load` could not read and did without; empty when there is
            nothing.
    """

    def __init__(self, path: Path, commit: GroupCommit, owner: Owner) -> None:
        self.damage = ""
        self._path = path
        self._commit = commit
        self._owner = owner
        self._file: Path | None = None  # the one being written
        self._used = 0  # bytes of that file
        self._lazy_entries = 0  # since the last one that was not lazy
        self._queued_at = -1  # how many flushes had been taken when something was last queued
        self._opened: BlockFile | None = None  # for `note`
        self._beginning: list[
            Buffer
        ] = []  # first entry of a file that `note` has begun, until it is queued

    def load(self) -> bytes | None:
        """Return what was saved last, whether or not it is on disk yet.

        Raises:
            StoreError: it cannot be read, or there is no whole entry.
        """
        queued = self._commit.last_append(self._path)
        if queued is not None:
            return queued[_HEADER.size :]
        self.damage, is_filled = "", False
        for number in reversed(self._numbers()):
            stored = self._read(number)
            *_, (stop, state) = [(0, None), *_entries(stored)]
            if stored[stop:].strip(b"\0"):
                is_filled = True
                place = f"{self._at(number)} at byte {stop}"
                self.damage = self.damage or f"the last state is torn or damaged ({place})"
            if state is not None:
                return state
        if is_filled:
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
            if entries := [entry for _, entry in _entries(stored)]:
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
        self._let_go()
        self._file = None
        self._beginning = []

    def note(self, data: bytes, whole: Callable[[], bytes] | None = None) -> bool:
        """Append a state at once: it outlives this process, but not a power cut.

        Only while no flush runs.

        Args:
            data: the state.
            whole: gives what a new file begins with instead, None where every state is whole.

        Returns:
            Whether it is there. It is not when something is queued for the same files, or when the
            system refuses.
        """
        commit = self._commit
        if self._queued_at == commit.taken:
            return False
        entry = _entry([data])
        if self._file is None or self.is_worn(len(data)):
            if whole is not None:
                entry = _entry([whole()])
            numbers = self._numbers()
            self._let_go()
            self._file = self._at(numbers[-1] + 1 if numbers else 1)
            self._used, self._beginning = 0, entry
        if self._opened is None:
            self._opened = BlockFile(self._file)
        if not commit.write_at_once(self._owner, self._opened, entry[0], self._used):
            self.leave()
            return False
        self._used += len(entry[0])
        return True

    def _let_go(self) -> None:
        """Close the file: whoever opens it next may append to it."""
        if self._opened is not None:
            self._commit.close(self._opened)
            self._opened = None

    def save(
        self, *parts: Buffer, lazily: bool = False, begins: bool = False, joins: bool = True
    ) -> None:
        """Append a state.

        Args:
            parts: the state, which must not change from now on.
            lazily: it may be lost, and the state is then the one before.
            begins: whether to begin a new file with it.
            joins: whether it may be written together with the last one, ahead of what was queued
                in between.
        """
        self._let_go()
        self._queued_at = self._commit.taken
        entry = _entry(parts)
        size = sum(map(len, entry))
        if begins or self._file is None or self.is_worn(size - _HEADER.size):
            self._begin(entry)
        else:
            if self._beginning:
                self._queue_beginning(self._file, self._beginning, self._numbers())
                joins = False  # it does not follow right behind that
            self._lazy_entries = self._lazy_entries + 1 if lazily else 0
            is_due = not lazily or self._lazy_entries % LAZY_SYNC_EVERY == 0
            syncs = is_due and not self._commit.lazily_ns
            self._commit.append(
                self._owner, self._file, entry, self._used, syncs=syncs, joins=joins
            )
        self._used += size

    def _begin(self, entry: list[Buffer]) -> None:
        """Begin a new file, and have the ones before it removed."""
        numbers = self._numbers()
        self._file = self._at(numbers[-1] + 1 if numbers else 1)
        self._used = self._lazy_entries = 0
        self._queue_beginning(self._file, entry, numbers)

    def _queue_beginning(self, file: Path, entry: list[Buffer], numbers: list[int]) -> None:
        """Have the first entry of a file made durable, and then the other files removed."""
        commit = self._commit
        commit.append(self._owner, file, entry, 0, syncs=True, joins=False)
        self._beginning = []
        for number in numbers:
            if (other := self._at(number)) != file:
                commit.remove(self._owner, other, waits=True)

    def remove(self) -> None:
        """Queue the removal."""
        if not self._commit.is_removed(self._path.parent):
            for number in self._numbers():
                self._commit.remove(self._owner, self._at(number))
        self.leave()

    def _at(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _numbers(self) -> list[int]:
        """Return the numbers of the files that are there or will be, rising."""
        head = f"{self._path.name}."
        # Of those that will be, `_file` is one at most: a full disk may hold up more.
        there = self._commit.disk.names(self._path.parent)
        found = {
            unsigned(name.removeprefix(head))
            for name in (*there, *self._commit.appended(self._path))
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


def _entry(parts: Sequence[Buffer]) -> list[Buffer]:
    """Return an entry in parts, as a state may have megabytes; a short one is one part."""
    length = _LENGTH.pack(sum(map(len, parts)))
    checksum = crc32c(length)
    for part in parts:
        checksum = crc32c(part, checksum)
    entry = [_CHECKSUM.pack(checksum) + length, *parts]
    return entry if len(parts) > 1 else [b"".join(entry)]


def _entries(stored: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where each whole entry ends, and its state."""
    at = 0
    while at + _HEADER.size < len(stored):
        checksum, length = _HEADER.unpack_from(stored, at)
        stop = at + _HEADER.size + length
        if length and stop <= len(stored) and crc32c(stored[at + 4 : stop]) == checksum:
            yield stop, stored[at + _HEADER.size : stop]
            at = stop
        else:
            at += 1
