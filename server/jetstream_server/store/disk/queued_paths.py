"""What is on its way to the disk, found by path.

To make, read or remove a small file one has to know what is queued for it and for the folders above
it. A stream with hundreds of consumers asks hundreds of times while thousands of operations are
queued, so each answer takes a few look-ups, one for each folder above the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jetstream_server.store.disk.flush import Append, DiskOperation, Remove, RemoveTree

_NEVER = -1


class QueuedPaths:
    """Operations in the order in which they are carried out.

    Args:
        operations: the first ones.
    """

    def __init__(self, operations: Iterable[DiskOperation] = ()) -> None:
        self.count = 0
        self._operations: dict[str, DiskOperation] = {}  # the last one on each path
        self._placed: dict[str, int] = {}  # and where it stands
        self._below: dict[str, int] = {}  # where the last one in or below a folder stands
        self._trees: dict[str, int] = {}  # the last removal of each folder
        self._numbered: dict[str, set[str]] = {}  # logs by their path without the number
        self._last_removal = _NEVER
        for operation in operations:
            self.add(operation)

    def add(self, operation: DiskOperation) -> None:
        """Note an operation that is carried out after all others."""
        place = self.count
        self.count += 1
        path = str(operation.path)
        self._operations[path] = operation
        self._placed[path] = place
        if isinstance(operation, RemoveTree):
            self._trees[path] = place
        elif isinstance(operation, Append):
            self._numbered.setdefault(path.rpartition(".")[0], set()).add(path)
        if isinstance(operation, RemoveTree | Remove):
            self._last_removal = place
        while path:
            self._below[path] = place
            path = path.rpartition("/")[0]

    def exchange(self, operation: DiskOperation) -> None:
        """Note that an operation takes the place of the last one on its path."""
        self._operations[str(operation.path)] = operation

    def at(self, path: Path) -> tuple[DiskOperation, int] | None:
        """Return the last operation on a file, and how many come before it; None without one, or
        when a folder that it is in is removed later."""
        name = str(path)
        operation = self._operations.get(name)
        if operation is None or self._placed[name] < self._removed(name):
            return None
        return operation, self._placed[name]

    def is_removed(self, path: Path) -> bool:
        """Tell whether the last thing that happens to a file or folder is its removal."""
        name = str(path)
        removed = self._removed(name)
        if isinstance(self._operations.get(name), Remove):
            removed = max(removed, self._placed[name])
        return removed != _NEVER and removed >= self._below.get(name, _NEVER)

    def last_append(self, path: Path) -> Append | None:
        """Return the last addition to one of the files `path`.<number> that is not removed."""
        found = [
            (self._placed[name], operation)
            for name in self._numbered.get(str(path), ())
            if isinstance(operation := self._operations[name], Append)
        ]
        if not found:
            return None
        place, append = max(found, key=lambda each: each[0])
        return append if place > self._removed(str(path)) else None

    def appended(self, path: Path) -> list[str]:
        """Return the names of the files `path`.<number> to which something is added, also of those
        that are removed later."""
        return [name.rpartition("/")[2] for name in self._numbered.get(str(path), ())]

    @property
    def last_removal(self) -> int:
        """Return how many operations come before the last removal; -1 without one."""
        return self._last_removal

    def _removed(self, name: str) -> int:
        """Return where the last removal of this path, or of a folder that it is in, stands."""
        removed = _NEVER
        while name:
            removed = max(removed, self._trees.get(name, _NEVER))
            name = name.rpartition("/")[0]
        return removed
