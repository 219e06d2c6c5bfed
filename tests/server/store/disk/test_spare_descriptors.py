"""What goes on when the process has no file descriptor left."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.flush import Flush
from jetstream_server.store.disk.reserve import Reserve
from jetstream_server.store.disk.spare_descriptors import SPARES, SpareDescriptors
from jetstream_server.store.file import FileStore


@pytest.fixture
def spares() -> Iterator[SpareDescriptors]:
    found = SpareDescriptors()
    yield found
    found.release()


@pytest.fixture
def take_all() -> Iterator[Callable[[], Callable[[], None]]]:
    """Take all descriptors; what it returns gives them back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def give_back() -> None:
        while taken:
            os.close(taken.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def take() -> Callable[[], None]:
        null = os.open(os.devnull, os.O_RDONLY)
        taken.append(null)
        resource.setrlimit(resource.RLIMIT_NOFILE, (null + 1, hard))
        while True:
            try:
                taken.append(os.dup(null))
            except OSError as error:
                assert error.errno == errno.EMFILE
                return give_back

    yield take
    give_back()


def test_files_are_opened_for_a_moment_as_often_as_one_likes(tmp_path, spares, take_all):
    disk = OsDisk(spares)
    path = tmp_path / "a"
    give_back = take_all()
    with pytest.raises(OSError, match="Too many open files"):
        os.open(tmp_path, os.O_RDONLY)
    for _ in range(2 * SPARES):
        disk.replace(path, [b"content"])
        disk.sync_folder(tmp_path)
        assert disk.names(tmp_path) == ["a"]
        assert disk.read(path) == bytes(disk.map(path)) == b"content"
        disk.overwrite(path, 0, b"x", 3)
        disk.truncate(path, 2)
        with pytest.raises(FileNotFoundError):
            disk.truncate(tmp_path / "b", 2)
    assert disk.read(path) == b"x\0"
    give_back()


def test_what_stays_open_waits_for_one(tmp_path, spares, take_all):
    disk = OsDisk(spares)
    commit = GroupCommit(disk, reserve=Reserve(tmp_path, disk, bytes_max=100_000, bytes_min=100))
    store = FileStore(tmp_path / "s" / "msgs", commit)
    store.append(b"a", b"", b"x", 1)
    give_back = take_all()
    now = 0

    def carry() -> Flush:
        """Carry out what is due next."""
        nonlocal now
        flush = None
        while flush is None:
            now += 10**9
            flush = commit.take(now)
        flush.run()
        commit.complete(flush)
        return flush

    for _ in range(3):
        assert not carry().gave, "room is not what is missing"
        assert commit.is_stalled
        assert store.offline == ""
        with pytest.raises(StoreError, match="no file can be opened: Too many open files"):
            store.append(b"a", b"", b"x", 1)
    give_back()
    carry()
    assert not commit.is_stalled
    while commit.full is not None:
        carry()
    store.append(b"a", b"", b"y", 1)
    store.close()
    assert commit.drain() == []
    assert FileStore(tmp_path / "s" / "msgs", GroupCommit(disk)).last_seq == 2


def test_without_spares_nothing_is_borrowed(tmp_path, take_all):
    spares = SpareDescriptors(0)
    give_back = take_all()
    with pytest.raises(OSError, match="Too many open files"):
        OsDisk(spares).read(tmp_path)
    give_back()
    spares.release()
