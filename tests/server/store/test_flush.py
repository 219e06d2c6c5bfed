"""Flushes: which of them are worth a thread. What they carry out is tested with the queue."""

from __future__ import annotations

from pathlib import Path

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.disk import OsDisk
from jetstream_server.store.flush import BlockFile


class Owner:
    """Hears of no trouble."""

    def flushed(self) -> None: ...

    def stalled(self, error: StoreError) -> None:
        raise error

    def failed(self, error: StoreError) -> None:
        raise error


def flushed(commit: GroupCommit, now: int) -> bool:
    """Run one flush; return whether it was quick."""
    flush = commit.take(now)
    assert flush is not None
    is_quick = flush.is_quick
    assert not flush.run()
    commit.settle(flush)
    return is_quick


@pytest.mark.parametrize("lazily_ns", [0, 10**12])
def test_small_writes_without_a_sync_are_quick(tmp_path: Path, lazily_ns: int) -> None:
    commit, file = GroupCommit(OsDisk(), lazily_ns=lazily_ns), BlockFile(tmp_path / "1")
    buffer = bytearray(100_000)
    commit.write(Owner(), file, buffer, 0, 100)
    assert not flushed(commit, 1)  # makes the file
    commit.write(Owner(), file, buffer, 100, 200)
    assert flushed(commit, 2) == (lazily_ns > 0)
    commit.write(Owner(), file, buffer, 200, 100_000)
    assert not flushed(commit, 3)
    commit.replace(Owner(), tmp_path / "config", [b"x"])
    assert not flushed(commit, 4)
    assert (tmp_path / "1").stat().st_size == 100_000
    commit.drain()
