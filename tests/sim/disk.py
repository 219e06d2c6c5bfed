"""A disk that keeps exactly what the port promises, and no more.

Bytes written and not synced vanish, tear at sectors or survive in any order when the power goes;
so do names in a folder that was not synced. Of folders that were made and set aside under one name
some first part survives: the file system has one name for two of them at no time. Faults on
request: the N-th change fails, the power goes at the N-th change, the disk fills.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.disk.disk import REMOVED_PREFIX

SECTOR_BYTES = 64  # small, so that small tests tear too


class PowerLostError(Exception):
    """The machine went dark; call `restart`."""


class _File:
    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.writes: list[tuple[int, bytes]] = []

    def write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        self.content.extend(bytes(max(end - len(self.content), 0)))
        self.content[offset:end] = data
        self.writes.append((offset, data))

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.writes.clear()

    def lose_power(self, random: Random) -> None:
        survived = bytearray(self.durable)
        for offset, data in self.writes:
            if random.random() < 0.3:
                continue
            tears = random.random() < 0.5
            at = offset
            while at < offset + len(data):
                stop = min((at // SECTOR_BYTES + 1) * SECTOR_BYTES, offset + len(data))
                if not tears or random.random() < 0.5:
                    survived.extend(bytes(max(stop - len(survived), 0)))
                    survived[at:stop] = data[at - offset : stop - offset]
                at = stop
        self.content = survived
        self.sync()


def _inside(folder: Path) -> Callable[[Path], bool]:
    """Whether a path is directly in a folder; by texts, which paths keep: it is asked often."""
    start = str(folder).rstrip("/")
    return lambda path: str(path).rpartition("/")[0] == start


class _Temporary:
    """A file beside the one that it is to replace."""

    def __init__(self, disk: SimDisk, path: Path, content: bytes) -> None:
        self._disk, self._path = disk, path
        self._temporary = path.with_name(path.name + ".tmp")
        disk._change(path)
        if len(content) > disk._room():
            raise disk._no_room(path)
        if path.parent not in disk._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        self._file = disk._files[self._temporary] = _File()
        self._file.write(0, content)

    def sync(self) -> None:
        self._disk.sync(self._file)

    def place(self) -> None:
        self._disk._change(self._path)
        del self._disk._files[self._temporary]
        self._disk._files[self._path] = self._file

    def drop(self) -> None:
        del self._disk._files[self._temporary]


class SimDisk:
    """Files in memory.

    Attributes:
        capacity: bytes of all files together; None for no limit.
        fail_in: that many changes from now, one fails with `fail_errno`.
        dark_in: that many changes from now, the power goes.
        is_read_only: every change fails.
        changes: how many there were.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.capacity: int | None = None
        self.fail_in: int | None = None
        self.fail_errno = errno.EIO
        self.dark_in: int | None = None
        self.is_read_only = False
        self.changes = 0
        self._files: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._folders = {Path("/")}
        # What happened to folders of a name since the folder above was synced: the name that one
        # was set aside under, None where one was made.
        self._renamed: dict[Path, list[Path | None]] = {}
        self._locks: set[Path] = set()

    def restart(self) -> None:
        """Lose what was not durable, and whoever held locks; faults end, but for a full disk."""
        self.fail_in = self.dark_in = None
        self._locks.clear()
        self._lose_folders()
        survived: dict[Path, _File] = {}
        for path in sorted({*self._files, *self._durable}):
            versions = [self._files.get(path), self._durable.get(path)]
            file = versions[0] if versions[0] is versions[1] else self.random.choice(versions)
            if file is not None:
                survived[path] = file
        for file in dict.fromkeys(survived.values()):
            file.lose_power(self.random)
        self._files, self._durable = survived, dict(survived)

    def damage(self, path: Path, offset: int) -> None:
        """Flip a byte."""
        file = self._files[path]
        file.content[offset] ^= 0xFF
        file.sync()

    def put(self, path: Path, content: bytes) -> None:
        """Place a durable file, as somebody else would."""
        self.make_folder(path.parent)
        file = self._files[path] = self._durable[path] = _File()
        file.write(0, content)
        file.sync()

    def _change(self, path: Path) -> None:
        self.changes += 1
        if self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        if self.dark_in is not None:
            self.dark_in -= 1
            if self.dark_in < 0:
                raise PowerLostError
        if self.fail_in is not None:
            self.fail_in -= 1
            if self.fail_in < 0:
                self.fail_in = None
                raise OSError(self.fail_errno, os.strerror(self.fail_errno), str(path))

    def _no_room(self, path: Path) -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _room(self) -> int:
        if self.capacity is None:
            return 1 << 60
        return max(self.capacity - sum(len(file.content) for file in self._files.values()), 0)

    # -- the port --------------------------------------------------------------------------

    def open(self, path: Path) -> tuple[_File, bool]:
        if path in self._files:
            return self._files[path], False
        self._change(path)
        if path.parent not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        self._files[path] = _File()
        return self._files[path], True

    def write(self, handle: _File, data: memoryview, offset: int) -> None:
        try:
            self._change(Path("?"))
        except PowerLostError:
            handle.write(offset, bytes(data[: self.random.randrange(len(data) + 1)]))
            raise
        room = self._room() + max(len(handle.content) - offset, 0)
        handle.write(offset, bytes(data[:room]))
        if room < len(data):
            raise self._no_room(Path("?"))

    def sync(self, handle: _File) -> None:
        self._change(Path("?"))
        handle.sync()

    def close(self, handle: _File) -> None:
        pass

    def replace(self, path: Path, parts: Sequence[Buffer]) -> None:
        replacement = self.prepare(path, parts)
        replacement.sync()
        replacement.place()

    def prepare(self, path: Path, parts: Sequence[Buffer]) -> _Temporary:
        return _Temporary(self, path, b"".join(parts))

    def as_stored(self, path: Path, parts: Sequence[Buffer]) -> bytes:
        return b"".join(parts)

    def content_of(self, path: Path, raw: bytes) -> bytes:
        return raw

    def truncate(self, path: Path, size: int) -> None:
        self._change(path)
        file = self._files[path]
        del file.content[size:]
        file.sync()

    def overwrite(self, path: Path, offset: int, head: bytes, stop: int) -> None:
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        for at, data in ((offset, head), (offset + len(head), bytes(stop - offset - len(head)))):
            self.write(file, memoryview(data), at)
            self.sync(file)

    def free_bytes(self, path: Path) -> int:
        return self._room()

    def allocate(self, path: Path, size: int) -> None:
        file = self.open(path)[0]
        if size - len(file.content) > self._room():
            del file.content[:]
            raise self._no_room(path)
        file.content[:] = bytes(size)

    def read(self, path: Path) -> bytes | None:
        file = self._files.get(path)
        return bytes(file.content) if file else None

    def map(self, path: Path) -> bytes:
        content = self.read(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return content

    def size(self, path: Path) -> int:
        return len(self.map(path))

    def names(self, path: Path) -> list[str]:
        is_inside = _inside(path)
        inside = {other.name for other in self._files if is_inside(other)}
        inside |= {other.name for other in self._folders if is_inside(other) and other != path}
        return sorted(inside)

    def make_folder(self, path: Path) -> None:
        for folder in self.add_folder(path):
            self.sync_folder(folder)

    def add_folder(self, path: Path) -> list[Path]:
        if path in self._folders:
            return []
        self._change(path)
        missing = [each for each in (path, *path.parents) if each not in self._folders][::-1]
        for folder in missing:
            self._folders.add(folder)
            self._renamed.setdefault(folder, []).append(None)
        return [folder.parent for folder in missing]

    def together(self, syncs: Sequence[Callable[[], None]]) -> list[OSError | None]:
        outcomes: dict[int, OSError | None] = {}
        order = list(range(len(syncs)))
        if len(order) > 1:
            self.random.shuffle(order)
        for at in order:
            try:
                syncs[at]()
                outcomes[at] = None
            except OSError as error:
                outcomes[at] = error
        return [outcomes[at] for at in range(len(syncs))]

    def sync_folder(self, path: Path) -> None:
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        self._change(path)
        is_inside = _inside(path)
        for other in [p for p in {**self._files, **self._durable} if is_inside(p)]:
            if other in self._files:
                self._durable[other] = self._files[other]
            else:
                self._durable.pop(other, None)
        for other in [p for p in self._renamed if is_inside(p)]:
            del self._renamed[other]

    def remove(self, path: Path) -> None:
        self._change(path)
        self._files.pop(path, None)

    def set_aside(self, path: Path) -> Path | None:
        if path not in self._folders and not any(p.is_relative_to(path) for p in self._files):
            return None
        self._change(path)
        number = 0
        while (aside := path.with_name(f"{REMOVED_PREFIX}{number}")) in self._folders:
            number += 1
        self._rename(path, aside)
        self._renamed.setdefault(path, []).append(aside)
        return aside

    def _rename(self, path: Path, other: Path) -> None:
        for names in (self._files, self._durable, self._renamed):
            for each in [p for p in names if p.is_relative_to(path) and p != path]:
                names[other / each.relative_to(path)] = names.pop(each)
        inside = {p for p in self._folders if p.is_relative_to(path)}
        self._folders -= inside
        self._folders |= {other / p.relative_to(path) for p in inside} | {other}

    def _lose_folders(self) -> None:
        """Go back to some moment for each name of a folder that is not durable."""
        # From the leaves: what is in a folder is found where the folder is now.
        for path in sorted(self._renamed, key=lambda each: (-len(each.parts), each)):
            changes = self._renamed[path]
            for aside in reversed(changes[self.random.randrange(len(changes) + 1) :]):
                if aside is None:
                    self.remove_tree(path)
                else:
                    self._rename(aside, path)
        self._renamed.clear()

    def clear(self, path: Path, files_max: int) -> int:
        inside = sorted(p for p in self._files if p.is_relative_to(path))
        for other in inside[:files_max]:
            self._change(other)
            del self._files[other]
        if len(inside) >= files_max:
            return 0
        self._folders = {p for p in self._folders if not p.is_relative_to(path)}
        return files_max - len(inside)

    def remove_tree(self, path: Path) -> None:
        """Make a folder disappear, as somebody else would."""
        for names in (self._files, self._durable):
            for other in [p for p in names if p.is_relative_to(path)]:
                del names[other]
        self._folders = {p for p in self._folders if not p.is_relative_to(path)}

    def lock(self, path: Path, note: bytes) -> Path | None:
        if path in self._locks:
            return None
        file, _ = self.open(path)
        file.content[:] = note
        self._locks.add(path)
        return path

    def unlock(self, lock: Path) -> None:
        self._locks.discard(lock)
