"""Operations found by path, beside the obvious way: looking through them from the end."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.store.disk.flush import Append, DiskOperation, Remove, RemoveTree, Replace
from jetstream_server.store.disk.queued_paths import QueuedPaths

FILES = [
    Path("/s") / folder / name
    for folder in ("", "a", "a/b", "c")
    for name in ("meta.json", "state.1", "state.2")
]
FOLDERS = [Path("/s/a"), Path("/s/a/b"), Path("/s/c")]


class Owner:
    """Hears nothing."""

    def flushed(self):
        pass

    stalled = failed = flushed


def an_operation(random: Random) -> DiskOperation:
    owner, file = Owner(), random.choice(FILES)
    kind = random.randrange(4)
    if kind == 0:
        return RemoveTree(owner, random.choice(FOLDERS))
    if kind == 1:
        return Remove(owner, file, waits=False)
    if file.name == "meta.json":
        return Replace(owner, file, [b"x"])
    return Append(owner, file, [b"x"], 0, True)


def removes(operation: DiskOperation, path: Path) -> bool:
    if isinstance(operation, RemoveTree):
        return path.is_relative_to(operation.path)
    return isinstance(operation, Remove) and operation.path == path


def is_removed(operations: list[DiskOperation], path: Path) -> bool:
    for operation in reversed(operations):
        if removes(operation, path):
            return True
        if operation.path.is_relative_to(path):
            return False
    return False


def last_at(operations: list[DiskOperation], path: Path) -> tuple[DiskOperation, int] | None:
    for place in reversed(range(len(operations))):
        operation = operations[place]
        if operation.path == path and not isinstance(operation, RemoveTree):
            return operation, place
        if removes(operation, path):
            return None
    return None


def last_append(operations: list[DiskOperation], path: Path) -> DiskOperation | None:
    gone = set()
    for operation in reversed(operations):
        if isinstance(operation, Append) and operation.path.with_suffix("") == path:
            if operation.path not in gone:
                return operation
        elif isinstance(operation, Remove):
            gone.add(operation.path)
        elif removes(operation, path):
            return None
    return None


@pytest.mark.parametrize("seed", range(60))
def test_every_answer_is_that_of_looking_through_all(seed):
    random = Random(seed)
    operations = [an_operation(random) for _ in range(random.randrange(4))]
    paths = QueuedPaths(operations)
    for _ in range(25):
        operations.append(an_operation(random))
        paths.add(operations[-1])
        for path in FILES + FOLDERS:
            assert paths.is_removed(path) is is_removed(operations, path)
        for path in FILES:
            assert paths.at(path) == last_at(operations, path)
        for path in {file.parent / "state" for file in FILES}:
            assert paths.last_append(path) is last_append(operations, path)
        removals = [
            place
            for place, operation in enumerate(operations)
            if isinstance(operation, Remove | RemoveTree)
        ]
        assert paths.last_removal == (removals[-1] if removals else -1)
        assert paths.count == len(operations)
