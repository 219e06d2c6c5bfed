"""A disk that keeps exactly what the port promises, and no more.

Bytes written and not synced vanish, tear at sectors or survive in any order when the power goes;
so do names in a folder that was not synced. Of folders that were made and set aside under one name
some first part survives: the file system has one name for two of them at no time. Faults on
request: the N-th change fails, the power goes at the N-th change, the disk fills.
"""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.disk.disk import REMOVED_PREFIX

SECTOR_BYTES = 64  # small, so that small tests tear too
_OPEN_FILE = Path("?")  # what is changed by its handle


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


# By folder and name in it: texts, as there are many of them, and paths are slow to compare.
_Names = dict[str, dict[str, _File]]


def _split(path: Path) -> tuple[str, str]:
    """Return the folder of a path, and its name there."""
    folder, _, name = str(path).rpartition("/")
    return folder or "/", name


def _parts(path: str) -> list[str]:
    return path.split("/")


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above.rstrip("/") + "/")


def _paths(files: _Names) -> list[str]:
    return [f"{folder.rstrip('/')}/{name}" for folder, names in files.items() for name in names]


class _Temporary:
    """A file beside the one that it is to replace."""

    def __init__(self, disk: SimDisk, path: Path, content: bytes) -> None:
        self._disk, self._path = disk, path
        self._folder, self._name = _split(path)
        disk._change(path)
        if len(content) > disk._room():
            raise disk._no_room(path)
        self._file = disk._put(self._folder, self._name + ".tmp")
        self._file.write(0, content)

    def sync(self) -> None:
        self._disk.sync(self._file)

    def place(self) -> None:
        self._disk._change(self._path)
        names = self._disk._files[self._folder]
        names[self._name] = names.pop(self._name + ".tmp")

    def drop(self) -> None:
        del self._disk._files[self._folder][self._name + ".tmp"]


class SimDisk:
    """Files in memory.

    Attributes:
        capacity: bytes of all files together; None for no limit.
        fail_in: that many changes from now, one fails with `fail_errno`.
        dark_in: that many changes from now, the power goes.
        is_read_only: every change fails.
        changes: how many there were.
        gives_descriptors: somebody is there who writes to them.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.capacity: int | None = None
        self.fail_in: int | None = None
        self.fail_errno = errno.EIO
        self.dark_in: int | None = None
        self.is_read_only = False
        self.changes = 0
        self.gives_descriptors = False
        self._files: _Names = {}
        self._durable: _Names = {}
        self._folders: dict[str, set[str]] = {"/": set()}  # with the names of folders in each
        # What happened to folders of a name since the folder above was synced: the name that one
        # was set aside under, None where one was made.
        self._renamed: dict[str, list[str | None]] = {}
        self._locks: set[Path] = set()
        self._described: list[_File] = []  # by descriptor

    def restart(self) -> None:
        """Lose what was not durable, and whoever held locks; faults end, but for a full disk."""
        self.fail_in = self.dark_in = None
        self._locks.clear()
        self._described.clear()
        self._lose_folders()
        kept: dict[_File, None] = {}
        survived: _Names = {}
        for path in sorted({*_paths(self._files), *_paths(self._durable)}, key=_parts):
            folder, _, name = path.rpartition("/")
            folder = folder or "/"
            live = self._files.get(folder, {}).get(name)
            durable = self._durable.get(folder, {}).get(name)
            file = live if live is durable else self.random.choice([live, durable])
            if file is not None:
                survived.setdefault(folder, {})[name] = file
                kept[file] = None
        for file in kept:
            file.lose_power(self.random)
        self._files = survived
        self._durable = {folder: dict(names) for folder, names in survived.items()}

    def copied(self, random: Random) -> SimDisk:
        """Return another disk, with what this one would hold if the power went now."""
        other = SimDisk(random)
        # Together, because one file may be in several of them.
        kept = copy.deepcopy((self._files, self._durable, self._folders, self._renamed))
        other._files, other._durable, other._folders, other._renamed = kept
        other.restart()
        return other

    def paths(self) -> list[Path]:
        """Return where files are."""
        return [Path(path) for path in _paths(self._files)]

    def used_bytes(self) -> int:
        """Return the bytes of all files together."""
        return sum(len(file.content) for names in self._files.values() for file in names.values())

    def durable_bytes(self, path: Path) -> bytes:
        """Return what a file holds whenever the power goes."""
        folder, name = _split(path)
        return self._durable[folder][name].durable

    def damage(self, path: Path, offset: int) -> None:
        """Flip a byte."""
        file = self._file(path)
        file.content[offset] ^= 0xFF
        file.sync()

    def put(self, path: Path, content: bytes) -> None:
        """Place a durable file, as somebody else would."""
        self.make_folder(path.parent)
        folder, name = _split(path)
        file = self._put(folder, name)
        self._durable.setdefault(folder, {})[name] = file
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

    def _find(self, path: Path) -> _File | None:
        folder, name = _split(path)
        names = self._files.get(folder)
        return names.get(name) if names else None

    def _file(self, path: Path) -> _File:
        file = self._find(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return file

    def _put(self, folder: str, name: str) -> _File:
        """Make a file, or another one in its place."""
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", f"{folder}/{name}")
        file = self._files.setdefault(folder, {})[name] = _File()
        return file

    def _no_room(self, path: Path) -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _room(self) -> int:
        if self.capacity is None:
            return 1 << 60
        return max(self.capacity - self.used_bytes(), 0)

    # -- the port --------------------------------------------------------------------------

    def open(self, path: Path) -> tuple[_File, bool]:
        file = self._find(path)
        if file is not None:
            return file, False
        self._change(path)
        return self._put(*_split(path)), True

    def write(self, handle: _File, data: memoryview, offset: int) -> None:
        try:
            self._change(_OPEN_FILE)
        except PowerLostError:
            handle.write(offset, bytes(data[: self.random.randrange(len(data) + 1)]))
            raise
        room = self._room() + max(len(handle.content) - offset, 0)
        handle.write(offset, bytes(data[:room]))
        if room < len(data):
            raise self._no_room(_OPEN_FILE)

    def sync(self, handle: _File) -> None:
        self._change(_OPEN_FILE)
        handle.sync()

    def descriptor(self, handle: _File) -> int | None:
        if not self.gives_descriptors:
            return None
        if handle not in self._described:
            self._described.append(handle)
        return self._described.index(handle)

    def write_and_sync(self, descriptor: int, data: memoryview, offset: int) -> tuple[int, int]:
        """Do both, as whoever has a descriptor does; return the error numbers of each."""
        handle = self._described[descriptor]
        try:
            self.write(handle, data, offset)
        except OSError as error:
            return error.errno or errno.EIO, 0
        try:
            self.sync(handle)
        except OSError as error:
            return 0, error.errno or errno.EIO
        return 0, 0

    def close(self, handle: _File) -> None:
        if handle in self._described:  # the number is not given out again
            self._described[self._described.index(handle)] = _File()

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
        file = self._file(path)
        del file.content[size:]
        file.sync()

    def overwrite(self, path: Path, offset: int, head: bytes, stop: int) -> None:
        file = self._file(path)
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
        file = self._find(path)
        return bytes(file.content) if file else None

    def map(self, path: Path) -> bytes:
        return bytes(self._file(path).content)

    def size(self, path: Path) -> int:
        return len(self._file(path).content)

    def names(self, path: Path) -> list[str]:
        folder = str(path)
        return sorted({*self._files.get(folder, ()), *self._folders.get(folder, ())})

    def make_folder(self, path: Path) -> None:
        made = self.add_folder(path)
        try:
            for folder in made:
                self.sync_folder(folder)
        except OSError:  # as the other disk does: the next try is to make and sync them again
            for name in [str(each) for each in (path, *path.parents)][: len(made)]:
                self._leave([name])
                if changes := self._renamed.get(name):
                    changes.pop()
                    if not changes:
                        del self._renamed[name]
            raise

    def add_folder(self, path: Path) -> list[Path]:
        if str(path) in self._folders:
            return []
        self._change(path)
        missing = [each for each in (path, *path.parents) if str(each) not in self._folders][::-1]
        for folder in missing:
            self._enter(str(folder))
            self._renamed.setdefault(str(folder), []).append(None)
        return [folder.parent for folder in missing]

    def _enter(self, folder: str) -> None:
        head = folder.rstrip("/") + "/"
        below = [each[len(head) :] for each in self._folders if each.startswith(head)]
        self._folders[folder] = {each for each in below if "/" not in each}
        above, _, name = folder.rpartition("/")
        self._folders.get(above or "/", set()).add(name)

    def _leave(self, folders: Sequence[str]) -> None:
        for folder in folders:
            del self._folders[folder]
        for folder in folders:
            above, _, name = folder.rpartition("/")
            self._folders.get(above or "/", set()).discard(name)

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
        folder = str(path)
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        self._change(path)
        self._durable[folder] = dict(self._files.get(folder, ()))
        if self._renamed:
            for other in [
                each for each in self._renamed if (each.rpartition("/")[0] or "/") == folder
            ]:
                del self._renamed[other]

    def remove(self, path: Path) -> None:
        self._change(path)
        folder, name = _split(path)
        self._files.get(folder, {}).pop(name, None)

    def set_aside(self, path: Path) -> Path | None:
        name = str(path)
        if name not in self._folders and not any(
            names and _is_below(folder, name) for folder, names in self._files.items()
        ):
            return None
        self._change(path)
        number = 0
        while str(aside := path.with_name(f"{REMOVED_PREFIX}{number}")) in self._folders:
            number += 1
        self._rename(name, str(aside))
        self._renamed.setdefault(name, []).append(str(aside))
        return aside

    def _rename(self, path: str, other: str) -> None:
        for names in (self._files, self._durable):
            for folder in [each for each in names if _is_below(each, path)]:
                names.setdefault(other + folder[len(path) :], {}).update(names.pop(folder))
        for each in [p for p in self._renamed if _is_below(p, path) and p != path]:
            self._renamed[other + each[len(path) :]] = self._renamed.pop(each)
        inside = sorted((p for p in self._folders if _is_below(p, path)), key=_parts)
        self._leave(inside)
        for folder in dict.fromkeys([other, *(other + each[len(path) :] for each in inside)]):
            if folder not in self._folders:
                self._enter(folder)

    def _lose_folders(self) -> None:
        """Go back to some moment for each name of a folder that is not durable."""
        # From the leaves: what is in a folder is found where the folder is now.
        for path in sorted(self._renamed, key=lambda each: (-each.count("/"), _parts(each))):
            changes = self._renamed[path]
            for aside in reversed(changes[self.random.randrange(len(changes) + 1) :]):
                if aside is None:
                    self.remove_tree(Path(path))
                else:
                    self._rename(aside, path)
        self._renamed.clear()

    def clear(self, path: Path, files_max: int) -> int:
        below = [folder for folder in self._files if _is_below(folder, str(path))]
        inside = sorted(
            (f"{folder}/{name}" for folder in below for name in self._files[folder]), key=_parts
        )
        for other in inside[:files_max]:
            self.remove(Path(other))
        if len(inside) >= files_max:
            return 0
        self._leave([each for each in self._folders if _is_below(each, str(path))])
        return files_max - len(inside)

    def remove_tree(self, path: Path) -> None:
        """Make a folder disappear, as somebody else would."""
        for names in (self._files, self._durable):
            for folder in [each for each in names if _is_below(each, str(path))]:
                del names[folder]
        self._leave([each for each in self._folders if _is_below(each, str(path))])

    def lock(self, path: Path, note: bytes) -> Path | None:
        if path in self._locks:
            return None
        file, _ = self.open(path)
        file.content[:] = note
        self._locks.add(path)
        return path

    def unlock(self, lock: Path) -> None:
        self._locks.discard(lock)
