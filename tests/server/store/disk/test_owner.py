"""Who owns operations: whoever has the three methods, and can be told from others."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner


def test_each_owner_is_told_of_its_own_operations(sim_disk_module: Any) -> None:
    told: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self._name = name

        def flushed(self) -> None:
            told.append(f"{self._name} flushed")

        def stalled(self, error: StoreError) -> None:
            told.append(f"{self._name} stalled")

        def failed(self, error: StoreError) -> None:
            told.append(f"{self._name} failed")

    commit, owners = GroupCommit(sim_disk_module.SimDisk(Random(1))), [Named("a"), Named("b")]
    first: Owner = owners[0]
    commit.replace(first, Path("/a"), [b"1"])
    assert commit.drain() == []
    commit.replace(owners[1], Path("/b"), [b"1"])
    assert commit.drain() == []
    assert told == ["a flushed", "b flushed"]
