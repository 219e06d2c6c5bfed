"""One trip to the disk: what it carries, and how it is carried out.

A `Flush` is made by `GroupCommit` (`store/disk/commit.py`, which says what holds for it), run in
the worker thread, and taken back on the loop with what failed and what has to be tried again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.disk.disk import FULL_ERRNOS, Disk, Replacement
from jetstream_server.store.disk.journal import Journal, Note
from jetstream_server.store.disk.owner import Owner
from jetstream_server.store.disk.reserve import Reserve
from jetstream_server.store.disk.spare_descriptors import DESCRIPTOR_ERRNOS

_TOGETHER_MAX = 64  # small files that are replaced at once, each with a descriptor
# A flush of no more than this, without a sync, is not worth a thread.
_QUICK_WRITES_MAX = 8
_QUICK_BYTES_MAX = 16 * 1024
# What is appended is put together, and encrypted, so much at a time: both keep all threads waiting.
_PIECE_BYTES = 1024 * 1024
CLEARED_FILES = 8  # of removed folders at a time: some take milliseconds each
_OVERHEAD_BYTES = 16 * 1024  # of one operation: names, the ends of files


class BlockFile:
    """A file that is written piece by piece; opened by its first write, in the worker."""

    __slots__ = ("handle", "is_nameless", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle: Any = None
        self.is_nameless = False  # made, and its folder not synced yet


@dataclass(slots=True, eq=False)
class Write:
    owner: Owner
    path: Path
    file: BlockFile
    buffer: Buffer
    start: int
    stop: int

    @property
    def is_quick(self) -> bool:
        """Tell whether it only hands a little to the page cache, which takes microseconds."""
        file = self.file
        return (
            self.stop - self.start <= _QUICK_BYTES_MAX
            and file.handle is not None
            and not file.is_nameless
        )


@dataclass(slots=True, eq=False)
class Seal:
    owner: Owner
    path: Path
    file: BlockFile


@dataclass(slots=True, eq=False)
class Replace:
    owner: Owner
    path: Path
    parts: Sequence[Buffer]
    is_spare: bool = False  # left out on a full disk
    in_journal: bool = False  # noted there first, where there is one


@dataclass(slots=True, eq=False)
class Remove:
    owner: Owner
    path: Path
    waits: bool
    voids: Path | None = None  # a `StateLog` that would be wrong if this went before what is queued
    follows: bool = False  # what the owner wrote before, also on a full disk


@dataclass(slots=True, eq=False)
class RemoveTree:
    owner: Owner
    path: Path


@dataclass(slots=True, eq=False)
class Clear:
    owner: Owner
    path: Path
    files_max: int


@dataclass(slots=True, eq=False)
class Overwrite:
    owner: Owner
    path: Path
    file: BlockFile | None
    offset: int
    head: bytes
    stop: int


@dataclass(slots=True, eq=False)
class Append:
    owner: Owner
    path: Path
    parts: list[Buffer]
    offset: int
    syncs: bool
    last: int = 0  # where the last entry begins in the parts

    @property
    def is_quick(self) -> bool:
        """Tell whether it only hands a little to the page cache, which takes microseconds."""
        is_waited_for = self.syncs or not self.offset
        return not is_waited_for and sum(map(len, self.parts)) <= _QUICK_BYTES_MAX


@dataclass(slots=True, eq=False)
class SyncNames:
    """The sync of a folder for which there was no room."""

    owner: Owner
    path: Path


DiskOperation = (
    Write | Seal | Replace | Remove | RemoveTree | Clear | Overwrite | Append | SyncNames
)


class Flush:
    """What one trip to the disk carries.

    Args:
        operations: in order.
        unsynced: files written but not synced; what is left in it is handed to the next flush.
        files: all that are open.
        names: folders whose names an earlier flush, or the journal, could not make durable; what is
            left in it, or comes to it, is handed to the next flush.
        reserve: room for a full disk, None for none.
        journal: where contents of small files are noted, None for none.
        syncs: whether written files are synced at the end; False under the lazy policy.
        fills: whether the reserve is to be filled up.
        places_max: how many noted contents may be put in place.

    Attributes:
        carried: files to which earlier flushes wrote.
        failures: per owner, what went wrong; filled by `run`.
        stalled: operations to try again, in order.
        touched: owners with operations in this flush.
        aside: removed folders whose files are still to be deleted.
        gave: whether the reserve made room for what was refused.
        shortage: why the reserve could not be filled up.
    """

    def __init__(
        self,
        disk: Disk,
        operations: list[DiskOperation],
        unsynced: dict[BlockFile, Owner],
        files: dict[BlockFile, Owner],
        names: dict[Path, None],
        reserve: Reserve | None,
        journal: Journal | None,
        *,
        syncs: bool,
        fills: bool,
        places_max: int,
    ) -> None:
        self.disk = disk
        self.operations = operations
        self.syncs = syncs
        self.unsynced = unsynced
        self.carried = frozenset(unsynced)
        self.files = files
        self.reserve = reserve
        self.fills = fills
        self.journal = journal
        self.places_max = places_max
        self.names = names
        self.failures: list[tuple[Owner, StoreError]] = []
        self.stalled: list[DiskOperation] = []
        self.touched: dict[Owner, None] = {}
        self.aside: dict[Path, Owner] = {}
        self.gave = False
        self.shortage: StoreError | None = None
        self._lacks_room = False
        self._full: dict[Owner, list[StoreError]] = {}
        self._broken: dict[Owner, None] = {}
        self._replacements: dict[Path, Replace] = {}
        self._notes: list[Replace] = []  # to be noted together
        # To be synced, each with the owners it matters to.
        self._folders: dict[Path, dict[Owner, None]] = {}
        self._removed_from: dict[Path, None] = {}  # where folders were removed
        self._set_aside: list[tuple[Path, Owner]] = []
        self._files_max = CLEARED_FILES  # that may still be cleared
        self._lost: set[Path] = set()  # folders whose names cannot be made durable
        self._unsettled: set[Path] = set()  # whose names are to be tried again

    @property
    def is_single_write(self) -> bool:
        """Return whether it carries nothing but one write, as when one stream is published to."""
        return len(self.operations) == 1 and type(self.operations[0]) is Write

    @property
    def is_quick(self) -> bool:
        """Return whether it is a few quick writes."""
        if self.syncs or self.fills or self.places_max or len(self.operations) > _QUICK_WRITES_MAX:
            return False
        return all(
            isinstance(operation, Write | Append) and operation.is_quick
            for operation in self.operations
        )

    def only_write(self) -> tuple[int, Buffer, int, int] | None:
        """Return what there is to do, if it is no more than to write to an open file and to sync
        it, as when one stream is published to; None if there is more.

        Whoever carries that out instead of `run` tells `wrote` how it went.

        Returns:
            The descriptor, the buffer, and the range of it that is to be at the same place in the
            file.
        """
        if not self.is_single_write or not self.syncs or self.fills or self.places_max:
            return None
        write = self.operations[0]
        assert isinstance(write, Write)
        file = write.file
        if self.names or self.unsynced or file.handle is None or file.is_nameless:
            return None
        descriptor = self.disk.descriptor(file.handle)
        if descriptor is None:
            return None
        return descriptor, write.buffer, write.start, write.stop

    def wrote(self, write_errno: int, sync_errno: int) -> list[tuple[Owner, StoreError]]:
        """Take note of what became of `only_write`; return what failed, as `run` does.

        After a failure this waits for the disk as well.

        Args:
            write_errno: why it could not be written, and was not synced; 0 if it was.
            sync_errno: why it could not be synced, likewise.
        """
        (write,) = self.operations
        assert isinstance(write, Write)
        self.touched[write.owner] = None
        if write_errno:
            self._fail(write, OSError(write_errno, os.strerror(write_errno)))
        elif sync_errno:
            error = OSError(sync_errno, os.strerror(sync_errno))
            self._not_synced(write.file, write.owner, error)
        if self.failures:
            self._use_reserve()
        return self.failures

    def run(self) -> list[tuple[Owner, StoreError]]:
        """Carry everything out; return what failed, empty when all is durable."""
        for folder in self.names:
            self._folders[folder] = dict.fromkeys(
                operation.owner for operation in self.operations if folder in operation.path.parents
            )
        for operation in self.operations:
            self.touched[operation.owner] = None
            if type(operation) is Replace and operation.in_journal and self.journal is not None:
                if self._replacements:
                    self._replace()
                self._notes.append(operation)
                continue
            if self._notes:
                self._note()
            if type(operation) is Replace:
                if operation.path in self._replacements:
                    self._replace()
                self._replacements[operation.path] = operation
                if len(self._replacements) == _TOGETHER_MAX:
                    self._replace()
                continue
            if self._replacements:
                self._replace()
            if self._full or self._broken or self._removed_from:
                self._attempt(operation)
                continue
            try:  # as nearly always
                self._carry_out(operation)
            except OSError as error:
                self._fail(operation, error)
        if self._notes:
            self._note()
        if self._replacements:
            self._replace()
        if self._folders:
            self._sync_folders()
        if self.syncs:
            for file, owner in list(self.unsynced.items()):
                self._sync(file, owner)
        if self._set_aside:
            self._clear()
        if self.places_max:
            self._place_noted()
        if self._broken and self._full:
            self._drop_broken()
        self._use_reserve()
        return self.failures

    def _use_reserve(self) -> None:
        """Make room for what was refused, or save some for another time."""
        if self.reserve is None:
            return
        if self.stalled and self._lacks_room:
            self.gave = self.reserve.give(sum(map(_bytes_of, self.stalled)))
        elif self.fills and not self.stalled:
            self.shortage = self.reserve.fill()

    def _let_through(self, operation: DiskOperation) -> bool:
        """Tell whether an operation is to be carried out after what happened to its owner. If that
        did not get the room it needed, an operation that needs room is stalled."""
        owner = operation.owner
        if owner in self._broken and not isinstance(operation, RemoveTree | Clear):
            return False
        if owner in self._full and not _frees_space(operation):
            self.stalled.append(operation)
            return False
        return True

    def _attempt(self, operation: DiskOperation) -> None:
        if not self._let_through(operation):
            return
        try:
            if self._removed_from and not isinstance(operation, RemoveTree | Clear):
                self._sync_removals()
            self._carry_out(operation)
        except OSError as error:
            self._fail(operation, error)

    def _note(self) -> None:
        """Note the contents of small files, with one sync for all of them."""
        operations, self._notes = self._notes, []
        operations = [operation for operation in operations if self._let_through(operation)]
        if not operations:
            return
        assert self.journal is not None, "else nothing is to be noted"
        notes: list[Note] = []
        noted: list[Replace] = []
        try:
            if self._removed_from:
                self._sync_removals()
            for operation in operations:
                try:
                    raw = self.disk.as_stored(operation.path, operation.parts)
                except OSError as error:  # it has no key
                    self._fail(operation, error)
                else:
                    notes.append(Note(operation.owner, operation.path, raw))
                    noted.append(operation)
            if notes:
                self.journal.note(notes)
        except OSError as error:
            for operation in noted or operations:
                self._fail(operation, error)

    def _place_noted(self) -> None:
        """Put some of what is noted in its place, when all else is well."""
        if self.journal is None or self._full or self._broken:
            return
        if not (self._lost or self._unsettled):
            for note, error in self.journal.place(self.places_max):
                self._break(note.owner, note.path, error, "replace")
            # Whoever stores something next finds these folders there, and relies on them.
            self.names.update(dict.fromkeys(self.journal.take_unsynced()))

    def _replace(self) -> None:
        """Replace small files, with one wait for the device for the contents of all of them."""
        operations, self._replacements = [*self._replacements.values()], {}
        if len(operations) <= 1:
            for operation in operations:
                self._attempt(operation)
            return
        prepared: list[tuple[Replace, Replacement | OSError]] = []
        for operation in operations:
            prepared.append((operation, self._prepare(operation)))
        ready = [each for _, each in prepared if not isinstance(each, OSError)]
        failures = dict(zip(ready, self.disk.together([each.sync for each in ready]), strict=True))
        for operation, replacement in prepared:
            if isinstance(replacement, OSError):
                self._try_again(operation, replacement)
            else:
                self._place(operation, replacement, failures[replacement])

    def _prepare(self, operation: Replace) -> Replacement | OSError:
        try:
            if self._removed_from:
                self._sync_removals()
            self._make_folder(operation.path.parent, operation.owner)
            return self.disk.prepare(operation.path, operation.parts)
        except OSError as error:
            return error.with_traceback(None)

    def _try_again(self, operation: Replace, failure: OSError) -> None:
        """Repeat with fewer descriptors what could not be done all at once."""
        if failure.errno in DESCRIPTOR_ERRNOS:
            self._attempt(operation)
        elif self._let_through(operation):
            self._fail(operation, failure)

    def _place(self, operation: Replace, replacement: Replacement, failure: OSError | None) -> None:
        """Put a new content in place, unless it or one before it of the same owner failed."""
        is_let_through = self._let_through(operation)
        if failure is None and is_let_through:
            try:
                replacement.place()
            except OSError as error:
                failure = error
            else:
                self._note_folder(operation.path.parent, operation.owner)
        else:
            replacement.drop()
        if failure is not None and is_let_through:
            self._fail(operation, failure)

    def _drop_broken(self) -> None:
        """Have no owner wait for room if it has failed as well: what followed the failure was
        skipped, so if the rest were tried again, the middle would be missing."""
        broken, full = self._broken, self._full
        self.stalled = [each for each in self.stalled if each.owner not in broken]
        self.failures = [
            (owner, error)
            for owner, error in self.failures
            if owner not in broken or error not in full.get(owner, ())
        ]

    def _carry_out(self, operation: DiskOperation) -> None:
        disk, path = self.disk, operation.path
        match operation:
            case Write():
                self._write(operation)
            case Seal(file=file) if file.handle is not None:
                if self._sync(file, operation.owner):
                    disk.close(file.handle)
                    file.handle = None
                    self.files.pop(file, None)
                elif operation.owner in self._full:
                    self.stalled.append(operation)
            case Replace():
                self._make_folder(path.parent, operation.owner)
                disk.replace(path, operation.parts)
                self._note_folder(path.parent, operation.owner)
            case Remove():
                self._remove(operation)
            case Overwrite():
                self._overwrite(operation)
            case Append():
                self._append(operation)
            case Clear():
                self._files_max = max(self._files_max, operation.files_max)
                self._set_aside.append((path, operation.owner))
            case RemoveTree():
                with self._noted_removal(path, is_folder=True):
                    aside = disk.set_aside(path)
                if aside is not None:
                    self._set_aside.append((aside, operation.owner))
                self._note_folder(path.parent, operation.owner)
                self._removed_from[path.parent] = None
            case SyncNames():
                self._note_folder(path, operation.owner)
                self._sync_pending(path / "names")

    def _clear(self) -> None:
        """Remove some files of folders that are durably out of the way.

        A folder whose removal is not durable would come back without them.
        """
        for path, owner in self._set_aside:
            if path.parent in self._lost:
                continue  # the next process finds it
            is_gone = False
            if self._files_max and path.parent not in self._unsettled:
                try:
                    self._files_max = self.disk.clear(path, self._files_max)
                except OSError as error:
                    if error.errno not in FULL_ERRNOS | DESCRIPTOR_ERRNOS:
                        self._break(owner, path, error, "clear")
                        continue
                else:
                    is_gone = self._files_max > 0
            if not is_gone:
                self.aside[path] = owner

    def _remove(self, operation: Remove) -> None:
        """Remove a file once everything the owner wrote is durable, or at once on a full disk.

        When nothing durable makes up for the file (`waits`, or a full disk), removals become
        durable one by one, so that a tombstone is never removed before the record it is about.
        """
        owner = operation.owner
        if owner not in self._full:
            mine = [file for file, other in self.unsynced.items() if other is owner]
            if not all(self._sync(file, owner) for file in mine):
                if owner in self._full:
                    self.stalled.append(operation)
                return
        else:
            self._void(operation)
        if operation.waits:  # the file that replaces it may have a name that is not durable
            self._sync_pending(operation.path)
        with self._noted_removal(operation.path, is_folder=False):
            self.disk.remove(operation.path)
        if operation.waits or owner in self._full:
            self.disk.sync_folder(operation.path.parent)
        else:
            self._note_folder(operation.path.parent, owner)

    @contextlib.contextmanager
    def _noted_removal(self, path: Path, *, is_folder: bool) -> Iterator[None]:
        """Note a removal in the journal before it is carried out. What cannot be removed stays, and
        with it what the journal alone had of it."""
        journal = self.journal
        dropped = journal.remove(path, is_folder=is_folder) if journal is not None else []
        try:
            yield
        except OSError:
            if dropped and journal is not None:
                journal.keep(dropped)
            raise

    def _void(self, removal: Remove) -> None:
        if (log := removal.voids) is None:
            return
        names = self.disk.names(log.parent)
        for name in [name for name in names if name.startswith(f"{log.name}.")]:
            self.disk.remove(log.with_name(name))
            self.disk.sync_folder(log.parent)
        # What could not be added to it is just as wrong, and would create it again.
        self.stalled = [each for each in self.stalled if not _is_of(each, log)]

    def _overwrite(self, operation: Overwrite) -> None:
        """Overwrite once what makes up for it is durable; the file is opened again afterwards."""
        owner, file = operation.owner, operation.file
        mine = [other for other, its in self.unsynced.items() if its is owner]
        if not all(self._sync(other, owner) for other in mine):
            if owner in self._full:
                self.stalled.append(operation)
            return
        if file is not None and file.handle is not None:
            self.disk.close(file.handle)
            file.handle = None
            self.files.pop(file, None)
        with contextlib.suppress(FileNotFoundError):  # removed ahead of it, on a full disk
            self.disk.overwrite(operation.path, operation.offset, operation.head, operation.stop)

    def _append(self, operation: Append) -> None:
        disk, path = self.disk, operation.path
        if not operation.offset:
            self._sync_pending(path)
        try:
            handle, made = disk.open(path)
        except FileNotFoundError:
            self._make_folder(path.parent, operation.owner)
            self._sync_pending(path)
            handle, made = disk.open(path)
        try:
            offset = operation.offset
            for piece in _pieces(operation.parts):
                with memoryview(piece) as view:
                    disk.write(handle, view, offset)
                offset += len(piece)
            if operation.syncs:
                disk.sync(handle)
        finally:
            disk.close(handle)
        if made or not operation.offset:  # made, but not named, when the first try found no room
            disk.sync_folder(path.parent)

    def _write(self, operation: Write) -> None:
        file = operation.file
        if file.handle is None:
            self._make_folder(file.path.parent, operation.owner)
            self._sync_pending(file.path)  # messages must not survive without a config
            file.handle, made = self.disk.open(file.path)
            self.files[file] = operation.owner
            file.is_nameless |= made
        if file.is_nameless:
            # The name first: a later file must not survive without this one.
            self.disk.sync_folder(file.path.parent)
            file.is_nameless = False
        with memoryview(operation.buffer)[operation.start : operation.stop] as view:
            self.unsynced[file] = operation.owner
            self.disk.write(file.handle, view, operation.start)

    def _sync(self, file: BlockFile, owner: Owner) -> bool:
        try:
            self.disk.sync(file.handle)
        except OSError as error:
            self._not_synced(file, owner, error)
            return False
        finally:
            self.unsynced.pop(file, None)
        return True

    def _not_synced(self, file: BlockFile, owner: Owner, error: OSError) -> None:
        if error.errno in FULL_ERRNOS and file not in self.carried:
            # With late allocation it is unknown which bytes were lost, so all are written again.
            writes = [o for o in self.operations if isinstance(o, Write) and o.file is file]
            self.stalled[:0] = [o for o in writes if o not in self.stalled]
            self._refuse(owner, file.path, error)
        else:
            self._break(owner, file.path, error, "sync")

    def _make_folder(self, path: Path, owner: Owner) -> None:
        for folder in self.disk.add_folder(path):
            self._note_folder(folder, owner)

    def _note_folder(self, path: Path, owner: Owner) -> None:
        """Have a folder synced at the end, or before anything that must not survive without its
        names."""
        self._folders.setdefault(path, {})[owner] = None

    def _sync_pending(self, path: Path) -> None:
        """Sync the folders above a file now that are to be synced at the end."""
        if self._folders:
            for folder in reversed(path.parents):
                if folder in self._folders:
                    self._sync_folder(folder)

    def _sync_removals(self) -> None:
        """Sync the folders that others were removed from: what was queued later may rely on
        that."""
        for folder in [*self._removed_from]:
            if folder in self._folders:
                self._sync_folder(folder)
            self._removed_from.pop(folder, None)

    def _sync_folder(self, folder: Path) -> None:
        """Sync a folder now.

        Raises:
            OSError: it failed; all owners it matters to are told, whoever asked for it now.
        """
        try:
            self.disk.sync_folder(folder)
        except FileNotFoundError:
            del self._folders[folder]
            self.names.pop(folder, None)
        except OSError as error:
            self._lose_names(folder, error)
            raise
        else:
            del self._folders[folder]
            self.names.pop(folder, None)

    def _sync_folders(self) -> None:
        folders = [*self._folders]
        syncs = [partial(self.disk.sync_folder, folder) for folder in folders]
        for folder, error in zip(folders, self.disk.together(syncs), strict=True):
            if error is None or isinstance(error, FileNotFoundError):
                # It has been removed since, by an operation that synced the folder above.
                self._folders.pop(folder, None)
                self.names.pop(folder, None)
            else:
                self._lose_names(folder, error)

    def _lose_names(self, folder: Path, error: OSError) -> None:
        """Tell everybody with names in a folder that they are not durable, or not yet."""
        passes = error.errno in FULL_ERRNOS | DESCRIPTOR_ERRNOS
        (self._unsettled if passes else self._lost).add(folder)
        if not passes:
            # Whoever made names in it goes offline, but others find them there and rely on them.
            self.names[folder] = None
        for owner in self._folders.pop(folder):
            if passes:
                self.stalled.insert(0, SyncNames(owner, folder))
                self._refuse(owner, folder, error)
            else:
                self._break(owner, folder, error, "sync")

    def _fail(self, operation: DiskOperation, error: OSError) -> None:
        if error.errno in FULL_ERRNOS | DESCRIPTOR_ERRNOS:
            if isinstance(operation, Replace) and operation.is_spare:
                return
            self.stalled.append(operation)
            self._refuse(operation.owner, operation.path, error)
        else:
            verb = type(operation).__name__.lower()
            self._break(operation.owner, operation.path, error, verb)

    def _refuse(self, owner: Owner, path: Path, error: OSError) -> None:
        is_full = error.errno in FULL_ERRNOS
        self._lacks_room |= is_full
        what = "the disk is full" if is_full else "no file can be opened"
        refusal = StoreError(f"{what}: {error.strerror}", str(path))
        self._full.setdefault(owner, []).append(refusal)
        self.failures.append((owner, refusal))

    def _break(self, owner: Owner, path: Path, error: OSError, verb: str) -> None:
        self._broken[owner] = None
        reason = f"{verb} failed: {error.strerror or error}"
        self.failures.append((owner, StoreError(reason, str(path))))


def _frees_space(operation: DiskOperation) -> bool:
    if isinstance(operation, Remove):
        return not (operation.waits or operation.follows)
    return isinstance(operation, RemoveTree | Clear)


def _is_of(operation: DiskOperation, log: Path) -> bool:
    """Tell whether an operation adds to a `StateLog`."""
    return isinstance(operation, Append) and operation.path.with_suffix("") == log


def _pieces(parts: Iterable[Buffer]) -> Iterator[bytes]:
    """Iterate over what is in the parts, `_PIECE_BYTES` at a time at most."""
    gathered: list[memoryview] = []
    size = 0
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), _PIECE_BYTES):
            some = view[start : start + _PIECE_BYTES]
            if size + len(some) > _PIECE_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
            gathered.append(some)
            size += len(some)
    yield b"".join(gathered)


def _bytes_of(operation: DiskOperation) -> int:
    """Return about how much room an operation needs."""
    size = _OVERHEAD_BYTES
    if isinstance(operation, Write):
        size += operation.stop - operation.start
    elif isinstance(operation, Replace | Append):
        size += sum(map(len, operation.parts))
    return size
