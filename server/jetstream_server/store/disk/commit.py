"""Group commit: everything that must reach the disk, in order, carried there in one go.

Stores queue; the pump takes a `Flush` once a turn, runs it in a worker thread, and completes it
back on the loop. Only then may what waited for it leave the server
(ARCHITECTURE.md#the-durability-rule):

    flush = commit.take(now)        # loop
    failures = flush.run()          # worker thread: the only place that waits for the disk
    commit.complete(flush)          # loop: owners learn how it went
    if not commit.is_stalled: release what was held back for this flush

Invariants:

- Operations run in the order in which they were queued; a file is synced before the next file of
  the same owner is begun (`seal`), so what survives a crash is always a prefix of what was queued.
- A flush never repeats a failed write or sync: its owner is told (`failed`) and goes offline. After
  a failed fsync the page cache no longer tells what is on the disk.
- A full disk is not such a failure. The operations of the owner concerned stay queued,
  unacknowledged and in order, and are tried again every `RETRY_NS`. Nothing is rolled back, because
  what the state machines above concluded from these messages (duplicates, counts, positions) cannot
  be undone.
  Writing again is safe: bytes come from memory, not from the page cache. Removals that somebody
  asked for do not wait, or a purge could not end the shortage; removals that make room for what is
  queued do (`follows`).
- With a `Reserve` (`store/disk/reserve.py`) refused operations get room at once. `full` says that
  there is a shortage, and stores then take no messages; it ends when the reserve is as it was. Only
  when the reserve is used up as well does anything stay queued.

The lazy policy (`lazily_ns` > 0) writes at every flush, and syncs blocks at most once in that time
and at the end. Metadata replacements are always synced; they are rare.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from jetstream_server.base.clock import MILLISECOND, NEVER, SECOND, earliest
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.disk.disk import Disk
from jetstream_server.store.disk.flush import (
    CLEARED_FILES,
    Append,
    BlockFile,
    Clear,
    DiskOperation,
    Flush,
    Overwrite,
    Remove,
    RemoveTree,
    Replace,
    Seal,
    Write,
)
from jetstream_server.store.disk.journal import Journal
from jetstream_server.store.disk.owner import Owner
from jetstream_server.store.disk.queued_paths import QueuedPaths
from jetstream_server.store.disk.reserve import Reserve

__all__ = ["BlockFile", "Flush", "GroupCommit", "Owner"]

LAZY_REPLACE_NS = 100 * MILLISECOND
RUBBISH_NS = 20 * MILLISECOND
RUBBISH_FILES = 2  # of a block
RETRY_NS = 250 * MILLISECOND
PLACE_NS = 2 * SECOND  # since the last note: whoever makes something may soon remove it
PLACE_PAUSE_NS = 20 * MILLISECOND
PLACED_FILES = 8  # all together take two waits for the device
CROWD_OPERATIONS = 32  # each a file or a folder that is waited for, or a stretch of a block
FILL_NS = SECOND  # how often the end of a shortage is looked for


class GroupCommit:
    """The queue in front of the disk.

    Args:
        disk: where operations are carried out.
        lazily_ns: 0 syncs every flush; otherwise the longest time between two syncs of a block.
        reserve: room for what is queued when the disk is full.
        journal: where configs are noted, loaded.

    Attributes:
        full: why stores take no messages for the time being.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        lazily_ns: int = 0,
        reserve: Reserve | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.disk = disk
        self.lazily_ns = lazily_ns
        self.taken = 0  # flushes so far; what is queued now goes with flush number `taken + 1`
        self._queue: list[DiskOperation] = []
        self._lazy: dict[Path, Replace] = {}  # the last content of each file, until `_lazy_at`
        # Removals that can wait, each with how many folders had been removed before it.
        self._rubbish: dict[Path, tuple[int, Remove]] = {}
        self._aside: dict[Path, Owner] = {}  # removed folders with files in them
        self._appends: dict[Path, Append] = {}  # those in the queue that can take more
        self._unsynced: dict[BlockFile, Owner] = {}  # written under the lazy policy
        self._lost_names: dict[Path, None] = {}  # folders whose sync failed
        self._files: dict[BlockFile, Owner] = {}  # open ones; the worker's while a flush runs
        self._in_flight: Flush | None = None  # the one that was taken and is not completed
        self._removals = 0  # of folders
        # Folders below which operations are to be forgotten, with the number of their removal.
        self._roots: dict[str, int] = {}
        self._paths: QueuedPaths | None = None  # of the queue and the flush, as far as looked at
        self._stalled = 0  # how many of the first operations in the queue were refused
        # Deadlines in nanoseconds, None for never: of what was refused, of `_lazy`, of `_rubbish`
        # and `_aside`, and of `_unsynced`.
        self._retry_at: int | None = None
        self._lazy_at: int | None = None
        self._rubbish_at: int | None = None
        self._sync_at: int | None = None
        self.full: StoreError | None = None
        self._reserve = reserve
        self._journal = journal
        self._place_at: int | None = None  # likewise, of what the journal has noted
        self._noted_by_then = 0  # how many contents the journal had noted when that was set
        # When the reserve is filled: with the first flush, and then while the disk is full.
        self._fill_at: int | None = None if reserve is None else 0
        # Until then nothing is to be looked after but the queue, as has been found out; 0 where
        # that is not known, because something has come or a flush has carried more than a write.
        self._queue_only_until = 0
        self._queued_bytes = 0  # of writes in the queue
        self._flying_bytes = 0  # of those in the flush under way

    # -- queueing --------------------------------------------------------------------------

    def write(self, owner: Owner, file: BlockFile, buffer: Buffer, start: int, stop: int) -> None:
        """Queue `buffer[start:stop]` for the same place in the file.

        The buffer must neither move nor change in that range until the flush is complete.
        """
        self._queued_bytes += stop - start
        if len(self._queue) > self._stalled:
            last = self._queue[-1]
            if isinstance(last, Write) and last.buffer is buffer and last.stop == start:
                last.stop = stop
                return
        self._queue.append(Write(owner, file.path, file, buffer, start, stop))

    def seal(self, owner: Owner, file: BlockFile) -> None:
        """Queue a sync of a file that is complete, and close it; later writes find it durable."""
        self._queue.append(Seal(owner, file.path, file))

    def replace(
        self,
        owner: Owner,
        path: Path,
        parts: Sequence[Buffer],
        *,
        lazily: bool = False,
        is_spare: bool = False,
        in_journal: bool = False,
    ) -> None:
        """Queue a new content for a small file; the last one queued wins.

        A file that `is_spare` can be rebuilt from others and is left out on a full disk. One that
        is `in_journal` is durable sooner; a path must always be queued with it, or never.
        """
        operation = Replace(owner, path, parts, is_spare, in_journal)
        self._lazy.pop(path, None)
        if lazily:
            self._lazy[path] = operation
            self._queue_only_until = 0
            return
        paths = self._known()
        queued = paths.at(path)
        if queued is not None and isinstance(queued[0], Replace):
            index = queued[1] - self._flying_operations
            if index >= self._stalled and queued[1] > paths.last_removal:
                self._queue[index] = operation
                paths.exchange(operation)
                return
        self._queue.append(operation)

    def append(
        self,
        owner: Owner,
        path: Path,
        entry: Sequence[Buffer],
        offset: int,
        *,
        syncs: bool = True,
        joins: bool = True,
    ) -> None:
        """Queue an entry for the end of a small file, which is open only for that moment.

        Args:
            entry: in parts, which must not change from now on.
            offset: where the file ends by then.
            syncs: whether the flush makes it durable; if the flush syncs the file anyway, that
                costs nothing.
            joins: whether it may be merged with what is already queued for the file.
        """
        queued = self._appends.get(path)
        if queued is not None and joins:
            queued.last = len(queued.parts)
            queued.parts += entry
            queued.syncs |= syncs
            return
        operation = self._appends[path] = Append(owner, path, list(entry), offset, syncs)
        self._queue.append(operation)

    def write_at_once(self, owner: Owner, file: BlockFile, data: Buffer, offset: int) -> bool:
        """Hand a few bytes to the system here and now, past the queue; tell whether it took them.

        For what is to outlive this process, and need not outlive a power cut, such as what a flush
        that has just been completed made durable.
        """
        assert self._in_flight is None, "the file may be in the worker's hands"
        if self._stalled or self.full is not None:
            return False
        try:
            if file.handle is None:
                file.handle, _ = self.disk.open(file.path)
                self._files[file] = owner
            self.disk.write(file.handle, memoryview(data), offset)
        except OSError:
            self.close(file)
            return False
        return True

    def close(self, file: BlockFile) -> None:
        """Give up the handle of a file for which nothing is queued."""
        self._close([file])

    def remove(
        self,
        owner: Owner,
        path: Path,
        *,
        waits: bool = False,
        lazily: bool = False,
        voids: Path | None = None,
        follows: bool = False,
    ) -> None:
        """Queue the removal of a file, for when all the owner wrote is durable.

        Unless it `waits` or `follows`, it goes ahead of writes that a full disk holds up; then the
        log that it `voids` goes before it. What gives way to something newly written has to follow
        that (`follows`), as a crash would otherwise take both. `lazily` is for large files that no
        longer mean anything: a few go with each flush, as each takes milliseconds.
        """
        removal = Remove(owner, path, waits, voids, follows)
        if lazily:
            self._rubbish[path] = (self._removals, removal)
            self._queue_only_until = 0
            return
        self._lazy.pop(path, None)
        self._appends.pop(path, None)
        self._queue.append(removal)

    def overwrite(
        self, owner: Owner, path: Path, file: BlockFile | None, offset: int, head: bytes, stop: int
    ) -> None:
        """Queue the erasure of [offset, stop) of a file, for when all the owner wrote is durable.

        `file` is given when it is still being written; see `Disk.overwrite` for `head`.
        """
        self._queue.append(Overwrite(owner, path, file, offset, head, stop))

    def remove_tree(self, owner: Owner, path: Path) -> None:
        """Queue the removal of a folder; what was queued for files in it is forgotten.

        It is gone at once; its files follow when there is time (`clear`).
        """
        self._appends.clear()
        self._lazy = {
            each: replacement
            for each, replacement in self._lazy.items()
            if not each.is_relative_to(path)
        }
        self._queue.append(RemoveTree(owner, path))
        self._removals += 1
        self._roots[str(path)] = self._removals
        if self._stalled:
            self._forget_removed()  # nothing else may be waiting for room on the disk

    def clear(self, owner: Owner, path: Path) -> None:
        """Have the files of a folder that was set aside removed, a few at a time."""
        self._aside[path] = owner
        self._queue_only_until = 0

    def _forget_removed(self) -> None:
        """Drop operations under a folder whose removal is queued behind them.

        Once for all removals of a turn: the queue may be long, and so may be their list.
        """
        kept: list[DiskOperation] = []
        roots: dict[str, int] = {}
        stalled = 0
        for index in range(len(self._queue) - 1, -1, -1):
            operation = self._queue[index]
            if _is_within(operation.path, roots):
                continue
            if isinstance(operation, RemoveTree):
                roots[str(operation.path)] = 0
            stalled += index < self._stalled
            kept.append(operation)
        self._queue = kept[::-1]
        self._stalled = stalled
        self._paths = None
        if self._rubbish:
            self._rubbish = {
                path: rubbish
                for path, rubbish in self._rubbish.items()
                if not _is_within(path, self._roots, rubbish[0])
            }
        if self._in_flight is None:  # else the worker may have them
            self._close([file for file in self._files if _is_within(file.path, roots)])
            self._roots.clear()
        self._recount()

    def _close(self, files: list[BlockFile]) -> None:
        for file in files:
            self._unsynced.pop(file, None)
            self._files.pop(file, None)
            if file.handle is not None:
                self.disk.close(file.handle)
                file.handle = None

    # -- looking ---------------------------------------------------------------------------

    @property
    def is_stalled(self) -> bool:
        """Return whether operations wait for space on the disk."""
        return self._stalled > 0

    @property
    def is_crowded(self) -> bool:
        """Tell whether so much is queued that whoever adds to it should wait."""
        return not self._stalled and len(self._queue) > CROWD_OPERATIONS

    @property
    def has_fresh(self) -> bool:
        """Return whether something was queued since the last flush."""
        return len(self._queue) > self._stalled

    @property
    def awaited_bytes(self) -> int:
        """Return how many bytes of writes are queued or on their way; none while the disk is full,
        and what it holds up cannot grow, because publishes are refused."""
        return 0 if self._stalled > 0 else self._queued_bytes + self._flying_bytes

    def _recount(self) -> None:
        """Count again what is queued, after operations were taken out or put back."""
        self._queued_bytes = sum(
            operation.stop - operation.start
            for operation in self._queue
            if isinstance(operation, Write)
        )

    def next_deadline(self) -> int | None:
        """Return when `take` will have something even if nothing more is queued."""
        if until := self._queue_only_until:
            return None if until == NEVER else until
        fill_at = self._fill_at if self.full is not None else None
        return earliest(
            self._retry_at, self._lazy_at, self._rubbish_at, self._place_at, self._sync_at, fill_at
        )

    def queued(self, path: Path) -> Buffer | None:
        """Return the content queued for a small file, which is what a reader must see."""
        replacement = self._lazy.get(path)
        if replacement is None:
            queued = self._known().at(path)
            if queued is None:
                return self._noted(path)
            if not isinstance(queued[0], Replace):
                return None
            replacement = queued[0]
        return b"".join(replacement.parts)

    def _noted(self, path: Path) -> Buffer | None:
        if self._journal is None or self.is_removed(path):
            return None
        raw = self._journal.content(path)
        return None if raw is None else self.disk.content_of(path, raw)

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, including those that are noted and not in place yet.

        Raises:
            OSError: the folder cannot be read.
        """
        noted = [] if self._journal is None else self._journal.names(folder)
        # Read after the journal: what is put in place meanwhile is in one or the other.
        names = self.disk.names(folder)
        return sorted({*names, *noted}) if noted else names

    def last_append(self, path: Path) -> bytes | None:
        """Return the entry queued last for the files `path`.<number>, None when there is none."""
        append = self._known().last_append(path)
        return None if append is None else b"".join(append.parts[append.last :])

    def appended(self, path: Path) -> list[str]:
        """Return the names of the files `path`.<number> that queued operations make or add to, also
        of those that they remove later."""
        return self._known().appended(path)

    def is_removed(self, path: Path) -> bool:
        """Tell whether a queued operation removes this file or folder."""
        return self._known().is_removed(path)

    def _known(self) -> QueuedPaths:
        """Return what is on its way, by path."""
        if self._paths is None:
            self._paths = QueuedPaths(self._in_flight.operations if self._in_flight else ())
        paths = self._paths
        for operation in islice(self._queue, paths.count - self._flying_operations, None):
            paths.add(operation)
        return paths

    @property
    def _flying_operations(self) -> int:
        return len(self._in_flight.operations) if self._in_flight is not None else 0

    def holds(self, folder: Path) -> bool:
        """Tell whether anything is queued or on its way for a folder or what is in it."""
        flying = self._in_flight.operations if self._in_flight is not None else []
        waiting = (*(each.path for each in (*flying, *self._queue)), *self._lazy, *self._rubbish)
        return any(path.is_relative_to(folder) for path in waiting)

    # -- flushing --------------------------------------------------------------------------

    def take(self, now: int | None = None) -> Flush | None:
        """Return what is to be carried out, None when there is nothing (yet).

        Args:
            now: without it, lazy work is due as well: everything is carried out and synced.
        """
        assert self._in_flight is None, "one flush at a time: complete the last one first"
        if now is not None and now < self._queue_only_until and not self._queue:
            return None  # at the end of most turns
        if self._roots:
            self._forget_removed()
        if now is not None:
            is_known = now < self._queue_only_until and (self._fill_at is None or not self._queue)
            if is_known or self._has_only_queue_at(now):  # at the end of nearly every turn
                if not is_known:
                    self._remember_only_queue()
                return self._fly(self._queue, syncs=not self.lazily_ns) if self._queue else None
        self._queue_only_until = 0
        fills = self._fills(now)
        is_noted = self._journal is not None and self._journal.is_dirty
        self._arm(now)
        is_refused = self._stalled and len(self._queue) == self._stalled
        if is_refused and not _is_due(self._retry_at, now):
            return None
        sync_due = _is_due(self._sync_at, now)
        rubbish_due = self.full is not None or _is_due(self._rubbish_at, now)
        places = is_noted and self.full is None and _is_due(self._place_at, now)
        if not (
            self._queue
            or (self._lazy and _is_due(self._lazy_at, now))
            or ((self._rubbish or self._aside) and rubbish_due)
            or (self._unsynced and sync_due)
            or (fills and self.full)
            or places
        ):
            return None
        operations: list[DiskOperation] = [*self._queue, *self._lazy.values()]
        self._lazy = {}
        if rubbish_due:
            operations += self._take_rubbish(now)
        if fills:
            self._fill_at = None
        places_max = self._take_places(now) if places else 0
        syncs = not self.lazily_ns or sync_due
        return self._fly(operations, syncs=syncs, fills=fills, places_max=places_max)

    def _fly(
        self,
        operations: list[DiskOperation],
        *,
        syncs: bool,
        fills: bool = False,
        places_max: int = 0,
    ) -> Flush:
        """Return a flush of operations, among which are all that were queued."""
        self._queue = []
        self._paths = None
        self._appends.clear()
        self._lazy_at = self._retry_at = None
        unsynced, self._unsynced = self._unsynced, {}
        if syncs:
            self._sync_at = None
        self._stalled = 0
        self._flying_bytes, self._queued_bytes = self._queued_bytes, 0
        self.taken += 1
        self._in_flight = Flush(
            self.disk,
            operations,
            unsynced,
            self._files,
            self._lost_names,
            self._reserve,
            self._journal,
            syncs=syncs,
            fills=fills,
            places_max=places_max,
        )
        return self._in_flight

    def _has_only_queue_at(self, now: int) -> bool:
        """Tell whether nothing is there but what is queued: nothing that was refused, or waits for
        its time and is due, or has yet to be given one."""
        if self._lazy or self._rubbish or self._aside or self._stalled or self.full:
            return False
        if self._rubbish_at is not None or self._retry_at is not None:
            return False
        if self._queue and self._fill_at is not None:
            return False
        is_lazy = self.lazily_ns and (self._queue or self._unsynced or self._sync_at is not None)
        if is_lazy and (self._sync_at is None or now >= self._sync_at):
            return False
        journal = self._journal
        if journal is None or not journal.is_dirty:
            return self._place_at is None
        is_armed = self._place_at is not None and now < self._place_at
        return is_armed and journal.noted == self._noted_by_then and not journal.is_worn

    def _remember_only_queue(self) -> None:
        """Remember until when there will be nothing but the queue; only the reserve, as long as it
        has yet to be filled, depends on what comes to that."""
        until = NEVER if self._place_at is None else self._place_at
        if self.lazily_ns:
            until = min(until, self._sync_at or 0)
        self._queue_only_until = until

    def write_through(self, now: int) -> bool:
        """Hand a single small write to the page cache here and now, if that is all there is to do.

        It saves a single publish the cost of a `Flush`, which under the lazy policy is more than
        that of the write. Anything out of the ordinary, above all a failure, is left to a flush:
        writing the same bytes again is safe.
        """
        if not self.lazily_ns or len(self._queue) != 1 or self._stalled or self.full is not None:
            return False
        operation, sync_at = self._queue[0], self._sync_at
        if sync_at is None or now >= sync_at or self._lazy or self._rubbish or self._aside:
            return False
        if _is_due(self._place_at, now):
            return False
        if type(operation) is not Write or not operation.is_quick:
            return False
        handle, start = operation.file.handle, operation.start
        try:
            with memoryview(operation.buffer)[start : operation.stop] as view:
                self.disk.write(handle, view, start)
        except OSError:
            return False
        self._queue.clear()
        self._paths = None
        self._queued_bytes = 0
        self._unsynced[operation.file] = operation.owner
        self.taken += 1
        operation.owner.flushed()
        return True

    def _take_rubbish(self, now: int | None) -> list[DiskOperation]:
        """Return the removals whose turn it is: all at the end, or when room is needed."""
        self._rubbish_at = None
        if now is None or self.full is not None:
            files = sys.maxsize
            taken = [removal for _, removal in self._rubbish.values()]
            aside = [*self._aside]
        else:
            files = CLEARED_FILES
            taken = [removal for _, removal in islice(self._rubbish.values(), RUBBISH_FILES)]
            aside = [*islice(self._aside, CLEARED_FILES)]
        for removal in taken:
            del self._rubbish[removal.path]
        return [*taken, *(Clear(self._aside.pop(path), path, files) for path in aside)]

    def _take_places(self, now: int | None) -> int:
        """Have the next flush put noted contents in place; return how many at the most."""
        self._place_at = None
        return sys.maxsize if now is None else PLACED_FILES

    def _fills(self, now: int | None) -> bool:
        """Tell whether the next flush is to fill up the reserve."""
        if self._reserve is None or now is None or self._stalled:
            return False
        return self._fill_at is not None and now >= self._fill_at

    def _arm(self, now: int | None) -> None:
        """Have a deadline for what waits, and none for what has been forgotten since."""
        if now is None:
            return
        if not self._lazy:
            self._lazy_at = None
        elif self._lazy_at is None:
            self._lazy_at = now + LAZY_REPLACE_NS
        if not (self._rubbish or self._aside):
            self._rubbish_at = None
        elif self._rubbish_at is None:
            self._rubbish_at = now + RUBBISH_NS
        if self._journal is None or not self._journal.is_dirty:
            self._place_at = None
        else:
            if self._journal.is_worn:
                soon = now + PLACE_PAUSE_NS
                self._place_at = soon if self._place_at is None else min(self._place_at, soon)
            elif self._place_at is None or self._journal.noted != self._noted_by_then:
                self._noted_by_then = self._journal.noted
                self._place_at = now + PLACE_NS
        if not self._stalled:
            self._retry_at = None
        elif self._retry_at is None:
            self._retry_at = now + RETRY_NS
        if self.full is not None and self._reserve is not None and self._fill_at is None:
            self._fill_at = now + FILL_NS
        if self.lazily_ns:
            if not (self._unsynced or any(isinstance(o, Write) for o in self._queue)):
                self._sync_at = None
            elif self._sync_at is None:
                self._sync_at = now + self.lazily_ns

    def complete(self, flush: Flush) -> None:
        """Take a flush back: keep what was refused, tell owners how it went."""
        assert flush is self._in_flight, "a flush is settled once, by the commit that gave it"
        self._in_flight = None
        self._paths = None
        self._flying_bytes = 0
        self._unsynced = flush.unsynced
        if not flush.is_single_write:
            self._queue_only_until = 0
        if flush.aside:
            self._aside |= flush.aside
        self._note_shortage(flush)
        if not flush.stalled and not flush.failures:
            for owner in flush.touched:
                owner.flushed()
            return
        self._queue_only_until = 0
        self._queue[:0] = flush.stalled
        self._stalled = len(flush.stalled)
        if flush.stalled:
            self._forget_removed()
        refused = {operation.owner for operation in flush.stalled}
        told: dict[Owner, None] = {}
        for owner, error in flush.failures:
            told[owner] = None
            if owner in refused:
                owner.stalled(error)
            else:
                self._forget_owner(owner)
                owner.failed(error)
        self._recount()
        for owner in flush.touched:
            if owner not in told and owner not in refused:
                owner.flushed()

    def _note_shortage(self, flush: Flush) -> None:
        """Learn from a flush whether there is room."""
        if flush.stalled:
            refused = {operation.owner for operation in flush.stalled}
            errors = (error for owner, error in flush.failures if owner in refused)
            self.full = self.full or next(errors, None)
            if flush.gave:
                self._retry_at = 0
        elif self._reserve is None or not self._reserve.is_usable or flush.fills:
            self.full = flush.shortage

    def _forget_owner(self, owner: Owner) -> None:
        """Drop what a failed owner queued meanwhile; removing its folder stays possible."""
        self._appends.clear()
        self._paths = None
        self._queue[self._stalled :] = [
            operation
            for operation in self._queue[self._stalled :]
            if operation.owner is not owner or isinstance(operation, RemoveTree)
        ]
        self._rubbish = {
            path: rubbish
            for path, rubbish in self._rubbish.items()
            if rubbish[1].owner is not owner
        }
        self._close([file for file, other in self._files.items() if other is owner])

    def drain(self) -> list[tuple[Owner, StoreError]]:
        """Carry everything out here and now, syncs included; for shutdown and tests."""
        failures: list[tuple[Owner, StoreError]] = []
        while (flush := self.take()) is not None:
            failures += flush.run()
            self.complete(flush)
            if (flush.stalled and not flush.gave) or (flush.places_max and not flush.operations):
                break
        if self._journal is not None:
            self._journal.close()
        return failures


def _is_due(deadline: int | None, now: int | None) -> bool:
    return now is None or (deadline is not None and now >= deadline)


def _is_within(path: Path, roots: Mapping[str, int], at_least: int = -1) -> bool:
    """Tell whether a path is, or is in, one of these folders whose number is above `at_least`."""
    name = str(path) if roots else ""
    while name:
        if roots.get(name, -1) > at_least:
            return True
        name = name.rpartition("/")[0]
    return False
