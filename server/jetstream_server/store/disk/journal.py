"""Small files that are noted in one place, made durable with one sync, and put in place later.

To make a file durable, its contents, its name and the names of new folders above it have to be
synced: three syncs, two of which wait for each other. A client that makes a hundred consumers would
wait for that a hundred times. So the contents of configs are appended to a journal, those of a
whole flush with one write and one sync. When no more are being made, the files are put in place, a
few at a time, while nobody waits.

    <root>/journal-0, journal-1     used in turn; overwritten from the start, no larger than needed
    <root>/journal-reached          how much of both was durable (`journal_entries.Reached`)
    <root>/journal-0.damaged        a copy of one that was damaged, until somebody removes it

What stands in them is in `journal_entries.py`. Serials rise through both files and are never used
twice, so anything left after the last entry by an earlier use is recognised by its lower serial.
Notes go to one file until it holds many or some time has passed; then they go to the other file,
and the contents noted in the first one are put in place. Only when all of them are durable there is
the first file wiped and used again.

Invariants:

- Reading a path gives what was noted last, in place or not (`content`, `names`); after a crash
  `load` finds it. A journal whose contents are in place already is harmless: it holds the same.
- A folder or file that the journal mentions is removed only after the removal is noted, or a crash
  would bring it back. A removal is carried out again at a start unless something below it was noted
  later; the flush makes sure that the removal is durable by then.
- What was to be removed and could not be is noted again.
- No path is both noted and written in any other way.
- A note that was durable and cannot be read is damage, not a torn tail. If only its content is
  damaged, the file it is about counts as damaged; if even the path is gone, `damage` says so for as
  long as the copy of the journal is there.
- What a start finds is made durable before it is believed, as the removals that it carries out are.
- How much was durable is noted in a file of its own before anybody is told, without a sync: it
  outlives the process, and whatever is left of it after a power cut is true as well. So a file is
  removed only when the note of it is durably gone.

While a flush runs the notes belong to the worker thread; the loop may only look.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk import journal_entries
from jetstream_server.store.disk.disk import FULL_ERRNOS, Disk, Replacement
from jetstream_server.store.disk.journal_entries import (
    CONTENT,
    ENTRIES_AT,
    FILE_GONE,
    FOLDER_GONE,
    JournalEntry,
    Reached,
    Reading,
)
from jetstream_server.store.disk.owner import Owner
from jetstream_server.store.disk.spare_descriptors import DESCRIPTOR_ERRNOS

JOURNAL_NAME = "journal-"  # and 0 or 1
ROOM_BYTES = 64 * 1024  # of a new file: overwriting takes one commit less than growing
WORN_BYTES = 1024 * 1024  # then its contents are put in place soon
KEPT_BYTES = 8 * WORN_BYTES  # a larger file is not kept
REACHED_NAME = f"{JOURNAL_NAME}reached"
DAMAGED_SUFFIX = ".damaged"


class _Nobody:
    """Owner of what an earlier process noted, and of what has failed and was reported."""

    def flushed(self) -> None: ...

    def stalled(self, error: StoreError) -> None: ...

    def failed(self, error: StoreError) -> None: ...


_NOBODY = _Nobody()


@dataclass(slots=True, eq=False)
class Note:
    """What a file is to hold.

    Attributes:
        owner: who wants it.
        path: of the file.
        raw: as it stands on the disk.
    """

    owner: Owner
    path: Path
    raw: bytes


@dataclass(slots=True, eq=False)
class _Half:
    """One of the two files.

    Attributes:
        path: of the file.
        handle: once it is open.
        begun: serial of its beginning, behind which entries may stand; 0 for none.
        used: where its last entry ends; 0 when it is wiped.
        left: what of it is not in place yet, by path.
        told: the paths that it mentions, and the folders above them.
    """

    path: Path
    handle: Any = None
    begun: int = 0
    used: int = 0
    left: dict[str, Note] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


class Journal:
    """The journal of one store directory.

    Args:
        root: the folder that holds all paths.
        disk: the plain disk, not one that encrypts.
        room_bytes: how large a new file is made.

    Attributes:
        noted: how many contents were noted so far.
        damage: what `load` found to be damaged, empty when nothing is.
    """

    def __init__(self, root: Path, disk: Disk, *, room_bytes: int = ROOM_BYTES) -> None:
        self._root = root
        self._disk = disk
        self._room_bytes = room_bytes
        self._halves = [_Half(root / f"{JOURNAL_NAME}{number}") for number in (0, 1)]
        self._active, self._other = self._halves  # what is noted goes to the active one
        self._serial = 1  # of the next entry
        self._reached: Any = None  # handle of the file that says how much was durable
        self.noted = 0
        self.damage = ""
        self._unsynced: dict[Path, None] = {}  # folders with names that are not durable
        # How many of the noted contents are in a folder, by folder and name in it.
        self._inside: dict[str, dict[str, int]] = {}

    # -- looking ---------------------------------------------------------------------------

    def content(self, path: Path) -> bytes | None:
        """Return what a file holds according to its note; None when it is in place, or does not
        exist."""
        name = str(path)
        for half in self._halves:
            if (note := half.left.get(name)) is not None:
                return note.raw
        return None

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder that are noted and not in place yet."""
        return list(self._inside.get(str(folder), ()))

    @property
    def is_dirty(self) -> bool:
        """Tell whether something is to be put in place, or wiped."""
        return self._active.used > 0 or self._other.used > 0

    @property
    def is_worn(self) -> bool:
        """Tell whether putting contents in place should not wait."""
        return self._other.used > 0 or self._active.used > WORN_BYTES

    # -- noting ----------------------------------------------------------------------------

    def note(self, notes: Sequence[Note]) -> None:
        """Note contents, durably.

        Raises:
            OSError: none of them is durable; the same may be tried again.
        """
        self._append([(CONTENT, str(note.path), note.raw) for note in notes])
        self.noted += len(notes)
        for note in notes:
            name = str(note.path)
            self._forget(name)
            self._active.left[name] = note
            self._enter(name)

    def remove(self, path: Path, *, is_folder: bool) -> list[Note]:
        """Note that a file, or a folder with all in it, is about to be removed, if a note mentions
        it.

        Returns:
            What was noted of it and is not in place; if it cannot be removed, see `keep`.

        Raises:
            OSError: it could not be noted, and has to stay.
        """
        name = str(path)
        if not any(name in half.told for half in self._halves):
            return []
        self._append([(FOLDER_GONE if is_folder else FILE_GONE, name, b"")])
        return self._drop(name, is_folder=is_folder)

    def keep(self, notes: Sequence[Note]) -> None:
        """Note once more what stays, as it could not be removed. If that fails as well it is lost
        with this process, unless it can be put in place before."""
        try:
            self.note(notes)
        except OSError:
            for note in notes:
                self._active.left[str(note.path)] = note
                self._enter(str(note.path))

    def _drop(self, name: str, *, is_folder: bool) -> list[Note]:
        """Forget what was noted of something that is gone; return it."""
        dropped = self._forget(name)
        if is_folder and name in self._inside:
            head = f"{name}/"
            for half in self._halves:
                for each in [each for each in half.left if each.startswith(head)]:
                    dropped += self._forget(each)
        return dropped

    def _forget(self, name: str) -> list[Note]:
        forgotten = []
        for half in self._halves:
            if (note := half.left.pop(name, None)) is not None:
                self._leave(name)
                forgotten.append(note)
        return forgotten

    def _enter(self, name: str) -> None:
        """Count a name in the folders above it, up to the root."""
        while len(name) > len(str(self._root)):
            folder, _, last = name.rpartition("/")
            inside = self._inside.setdefault(folder, {})
            inside[last] = inside.get(last, 0) + 1
            name = folder

    def _leave(self, name: str) -> None:
        while len(name) > len(str(self._root)):
            folder, _, last = name.rpartition("/")
            inside = self._inside[folder]
            inside[last] -= 1
            if not inside[last]:
                del inside[last]
                if not inside:
                    del self._inside[folder]
            name = folder

    def _append(self, entries: Sequence[tuple[int, str, bytes]]) -> None:
        half = self._active
        self._open(half)
        start = half.used or ENTRIES_AT
        data = b"".join([self._encode(start, *entry) for entry in entries])
        for _, name, _ in entries:  # what fails may still be found by the next process
            while len(name) > len(str(self._root)) and name not in half.told:
                half.told.add(name)
                name = name.rpartition("/")[0]
        with memoryview(data) as view:
            self._disk.write(half.handle, view, start)
        self._disk.sync(half.handle)
        half.used = start + len(data)
        self._note_reached()

    def _note_reached(self, *, syncs: bool = False) -> None:
        """Note how much of both files is durable."""
        noted = Reached(*[(each.begun, each.used) for each in self._halves])
        try:
            if self._reached is None:
                self._reached, _ = self._disk.open(self._root / REACHED_NAME)
            with memoryview(noted.encode()) as view:
                self._disk.write(self._reached, view, 0)
            if syncs:
                self._disk.sync(self._reached)
        except OSError:
            if syncs:
                raise  # else what it said before is true as well

    def _encode(self, durable: int, kind: int, name: str, raw: bytes) -> bytes:
        """Return an entry. What a failed entry leaves on the disk has a lower serial than the entry
        that takes its place."""
        path = name[len(str(self._root)) + 1 :].encode("utf-8", "surrogateescape")
        return journal_entries.encode(self._take_serial(), durable, kind, path, raw)

    def _take_serial(self) -> int:
        self._serial += 1
        return self._serial - 1

    def _open(self, half: _Half) -> None:
        """Open a file, with a beginning, some room behind it, and a name that is durable."""
        if half.handle is not None:
            return
        handle, _ = self._disk.open(half.path)
        try:
            if not half.begun:
                self._begin(half, handle)
            # Also of an existing one: the process that made it may have ended before that.
            self._disk.sync_folder(self._root)
        except BaseException:
            self._disk.close(handle)
            raise
        half.handle = handle

    def _begin(self, half: _Half, handle: Any) -> None:
        serial = self._take_serial()
        beginning = journal_entries.beginning(serial)
        data = beginning.ljust(self._room_bytes, b"\0")
        try:
            self._write(handle, data)
        except OSError as error:
            if error.errno not in FULL_ERRNOS or len(data) == len(beginning):
                raise
            self._write(handle, beginning)  # what is to be noted may still find some room
        half.begun = serial

    def _write(self, handle: Any, data: bytes) -> None:
        """Write a file from its start, durably."""
        with memoryview(data) as view:
            self._disk.write(handle, view, 0)
        self._disk.sync(handle)

    # -- putting in place ------------------------------------------------------------------

    def place(self, count_max: int) -> list[tuple[Note, OSError]]:
        """Put up to `count_max` contents in their places; wipe a file that is done with.

        Returns:
            What failed; it stays noted. A lack of room or of descriptors is not a failure: it is
            tried again later.
        """
        failures: list[tuple[Note, OSError]] = []
        while count_max > 0 and self.is_dirty and not failures:
            if not self._other.used:
                self._active, self._other = self._other, self._active
            half = self._other
            due = list(islice(half.left.values(), count_max))
            count_max -= max(len(due), 1)
            try:
                failures = self._place(due)
            except OSError as error:
                if error.errno not in FULL_ERRNOS | DESCRIPTOR_ERRNOS and due:
                    failures = [(due[0], error)]
                break
            if any(str(note.path) in half.left for note in due):
                break
            if not half.left:
                try:
                    self._wipe(half)
                except OSError:  # then it is wiped later
                    break
        for note, _ in failures:  # of which owners are told only once
            self._other.left[str(note.path)] = Note(_NOBODY, note.path, note.raw)
        return failures

    def _place(self, due: list[Note]) -> list[tuple[Note, OSError]]:
        disk, failures = self._disk, []
        prepared: list[tuple[Note, Replacement]] = []
        try:
            for note in due:
                self._add_folder(note)
                prepared.append((note, disk.prepare(note.path, [note.raw])))
        except OSError:
            for _, replacement in prepared:
                replacement.drop()
            raise
        outcomes = disk.together([each.sync for _, each in prepared])
        placed: list[Note] = []
        for (note, replacement), error in zip(prepared, outcomes, strict=True):
            try:
                if error is not None:
                    replacement.drop()
                    raise error
                replacement.place()
                placed.append(note)
            except OSError as trouble:
                if trouble.errno not in FULL_ERRNOS | DESCRIPTOR_ERRNOS:
                    failures.append((note, trouble))
        self._sync_folders()
        for note in placed:
            name = str(note.path)
            del self._other.left[name]
            self._leave(name)
        return failures

    def _add_folder(self, note: Note) -> None:
        folder, unsynced = note.path.parent, self._unsynced
        unsynced.update(dict.fromkeys(self._disk.add_folder(folder)))
        unsynced[folder] = None
        if note.owner is _NOBODY:  # whose maker may have ended before syncing them
            while folder != self._root:
                folder = folder.parent
                unsynced[folder] = None

    def _sync_folders(self) -> None:
        folders = [*self._unsynced]
        outcomes = self._disk.together([partial(self._disk.sync_folder, each) for each in folders])
        for folder, error in zip(folders, outcomes, strict=True):
            if error is not None and not isinstance(error, FileNotFoundError):
                raise error
            del self._unsynced[folder]  # or it is gone

    def take_unsynced(self) -> list[Path]:
        """Return the folders whose names could not be made durable; the caller has them synced
        before anybody relies on them, and before anything else is put in place."""
        folders = [*self._unsynced]
        self._unsynced.clear()
        return folders

    def _wipe(self, half: _Half) -> None:
        """Make a file say nothing, so that it is not believed when it is long outdated."""
        self._open(half)
        serial, is_removed = self._take_serial(), half.used > KEPT_BYTES
        self._write(half.handle, journal_entries.beginning(serial))
        half.begun, half.used = serial, 0
        half.told.clear()
        self._note_reached(syncs=is_removed)
        if is_removed:
            self._disk.remove(half.path)
            self._disk.sync_folder(self._root)
            self._disk.close(half.handle)
            half.handle, half.begun = None, 0

    def close(self) -> None:
        """Remove the files, if nothing is left in them, and give the handles back."""
        if self._reached is not None:
            self._disk.close(self._reached)
            self._reached = None
        opened = [half for half in self._halves if half.handle is not None]
        if not opened:
            return
        is_told = False
        with contextlib.suppress(OSError):
            self._disk.remove(self._root / REACHED_NAME)
            self._disk.sync_folder(self._root)  # else it may outlive what it tells of
            is_told = True
        for half in opened:
            self._disk.close(half.handle)
            half.handle = None
            if not half.used and is_told:
                with contextlib.suppress(OSError):
                    self._disk.remove(half.path)
                    half.begun = 0

    # -- after a restart -------------------------------------------------------------------

    def load(self) -> None:
        """Find what an earlier process noted, and carry out its removals again.

        Raises:
            StoreError: it cannot be read, or not carried out.
        """
        path = self._root / REACHED_NAME
        try:
            reached = Reached.decode(self._disk.read(path) or b"")
            found: list[tuple[Reading, _Half]] = []
            for half, noted in zip(self._halves, reached.halves, strict=True):
                path = half.path
                if stored := self._disk.read(path) or b"":
                    self._make_durable(path)
                reading = journal_entries.read(stored, noted)
                self._serial = max(self._serial, reading.highest + 1, noted[0] + 1)
                if reading.damage:
                    self._set_aside(half.path, stored, reading)
                half.begun = reading.begun
                if not half.begun and stored.strip(b"\0"):
                    self._disk.truncate(path, 0)
                if reading.entries:
                    found.append((reading, half))
            found.sort(key=lambda each: each[0].entries[0].serial)
            gone: dict[str, bool] = {}
            for reading, half in found:
                half.used = reading.stop
                self._active = half
                self._other = self._halves[half is self._halves[0]]
                for entry in reading.entries:
                    self._take_in(half, entry, gone)
            for name, is_folder in gone.items():
                path = Path(name)
                self._remove_again(path, is_folder=is_folder)
            if self.damage:
                with contextlib.suppress(OSError):
                    self._note_reached(syncs=True)  # what is told is not told again
            self.damage = self.damage or self._known_damage()
        except OSError as error:
            raise StoreError(f"the journal cannot be used: {error.strerror}", str(path)) from error

    def _make_durable(self, path: Path) -> None:
        """See to it that what is about to be believed outlives a power cut.

        The process that wrote it may have been killed before its sync, or the sync have failed.
        """
        handle, _ = self._disk.open(path)
        try:
            self._disk.sync(handle)
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
        finally:
            self._disk.close(handle)
        self._disk.sync_folder(self._root)

    def _set_aside(self, path: Path, stored: bytes, reading: Reading) -> None:
        """Keep a copy of a file that is damaged, and say so."""
        copy = path.with_name(path.name + DAMAGED_SUFFIX)
        places = ", ".join(map(str, reading.damage))
        self.damage = (
            f"the journal {path} is damaged at byte {places}: configs of streams and consumers"
            " that were made, changed or removed last may be missing or outdated;"
            f" {copy} is a copy of it, remove that when you have seen to them"
        )
        with contextlib.suppress(OSError):
            self._disk.replace(copy, [stored])
            self._disk.sync_folder(self._root)

    def _known_damage(self) -> str:
        """Return what a copy that an earlier start has made says is wrong."""
        copies = [
            self._root / name
            for name in self._disk.names(self._root)
            if name.startswith(JOURNAL_NAME) and name.endswith(DAMAGED_SUFFIX)
        ]
        if not copies:
            return ""
        return (
            f"the journal was damaged at an earlier start: configs of streams and consumers may be"
            f" missing or outdated; remove {copies[0]} when you have seen to them"
        )

    def _take_in(self, half: _Half, entry: JournalEntry, gone: dict[str, bool]) -> None:
        name = f"{self._root}/{entry.path.decode('utf-8', 'surrogateescape')}"
        above = name
        while len(above) > len(str(self._root)):
            half.told.add(above)
            if entry.kind == CONTENT:
                gone.pop(above, None)
            above = above.rpartition("/")[0]
        if entry.kind == CONTENT:
            self._forget(name)
            # Even if it is damaged: whoever reads it is told so.
            half.left[name] = Note(_NOBODY, Path(name), entry.raw)
            self._enter(name)
        else:
            self._drop(name, is_folder=entry.kind == FOLDER_GONE)
            gone[name] = entry.kind == FOLDER_GONE

    def _remove_again(self, path: Path, *, is_folder: bool) -> None:
        if is_folder:
            self._disk.set_aside(path)
        else:
            self._disk.remove(path)
        try:
            self._disk.sync_folder(path.parent)
        except FileNotFoundError:
            return
