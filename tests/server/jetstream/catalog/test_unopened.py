"""What is remembered of a stream that trips whoever opens it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server import __version__
from jetstream_server.jetstream.catalog import unopened as module
from jetstream_server.jetstream.catalog.unopened import forget_unopened, note_unopened, unopened
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.vault import UNOPENED_NAME, FileVault, MemoryVault

ROOT = Path("/store")


class Kept:
    """A stream's folder on a disk, or nowhere."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk
        self.restart()
        self.folder.config().save(b"{}")  # without it, it is no stream
        self.commit.drain()

    def restart(self) -> None:
        self.commit = GroupCommit(self.disk)
        self.vault = FileVault(ROOT, "A", self.commit, self.disk)
        self.folder = self.vault.folder("S", memory=False)

    def names(self) -> list[str]:
        self.commit.drain()
        return list(self.disk.names(ROOT / "A" / "streams" / "S"))


@pytest.fixture
def kept(sim_disk_module: Any) -> Kept:
    return Kept(sim_disk_module.SimDisk(Random(1)))


def test_it_holds_for_this_version_and_after_a_restart(kept: Kept, monkeypatch: Any) -> None:
    assert unopened(kept.folder) == ""
    note_unopened(kept.folder, "why it is so")
    kept.commit.drain()
    kept.restart()
    reason = unopened(kept.folder)
    assert reason.startswith(f"why it is so; version {__version__} has tripped over it before")
    assert reason.endswith("start another one, or remove the stream's file 'unopened.json' first")
    with monkeypatch.context() as later:
        later.setattr(module, "VERSION", "99.0.0")
        assert unopened(kept.folder) == ""
        note_unopened(kept.folder, "again")
        assert unopened(kept.folder).startswith("again; version 99.0.0")
    assert unopened(kept.folder) == ""


def test_it_is_forgotten_once_the_stream_is_open(kept: Kept) -> None:
    forget_unopened(kept.folder)
    assert UNOPENED_NAME not in kept.names()
    note_unopened(kept.folder, "x")
    assert UNOPENED_NAME in kept.names()
    forget_unopened(kept.folder)
    assert UNOPENED_NAME not in kept.names()
    kept.restart()
    assert unopened(kept.folder) == ""


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b'{"version":7}', b"\xff"])
def test_a_note_that_says_nothing_keeps_nobody_from_trying(kept: Kept, data: bytes) -> None:
    kept.folder.unopened().save(data)
    assert unopened(kept.folder) == ""


def test_a_damaged_note_keeps_nobody_from_trying_and_goes(kept: Kept) -> None:
    note_unopened(kept.folder, "x")
    kept.commit.drain()
    path = ROOT / "A" / "streams" / "S" / UNOPENED_NAME
    kept.disk.put(path, kept.disk.read(path)[:-1])
    kept.restart()
    assert unopened(kept.folder) == ""
    forget_unopened(kept.folder)
    assert UNOPENED_NAME not in kept.names()


def test_in_memory() -> None:
    folder = MemoryVault().folder("S", memory=True)
    note_unopened(folder, "x")
    assert unopened(folder).startswith("x; version")
    forget_unopened(folder)
    assert unopened(folder) == ""
