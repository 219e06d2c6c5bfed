"""Flushes: which of them are worth a thread, and what many operations share.

What they carry out is tested with the queue.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk import flush as flush_module
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.flush import BlockFile


class Owner:
    """Hears of no trouble."""

    def flushed(self) -> None: ...

    def stalled(self, error: StoreError) -> None:
        raise error

    def failed(self, error: StoreError) -> None:
        raise error


class Patient:
    """Notes what it hears."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def flushed(self) -> None:
        self._heard.append("flushed")

    def stalled(self, error: StoreError) -> None:
        self._heard.append("stalled")

    def failed(self, error: StoreError) -> None:
        self._heard.append("failed")


def flushed(commit: GroupCommit, now: int) -> bool:
    """Run one flush; return whether it was quick."""
    flush = commit.take(now)
    assert flush is not None
    is_quick = flush.is_quick
    assert not flush.run()
    commit.complete(flush)
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


@pytest.mark.parametrize("parts", [1, 2, 50])
def test_long_additions_without_a_sync_are_not_quick(tmp_path: Path, parts: int) -> None:
    commit, path = GroupCommit(OsDisk(), lazily_ns=10**12), tmp_path / "log.1"
    commit.append(Owner(), path, [b"begun"], 0)
    assert not flushed(commit, 1)
    commit.append(Owner(), path, [b"x"] * parts, 5, syncs=False)
    assert flushed(commit, 2)
    commit.append(Owner(), path, [bytes(100_000 // parts)] * parts, 5 + parts, syncs=False)
    assert not flushed(commit, 3)
    assert path.read_bytes() == b"begun" + b"x" * parts + bytes(100_000)


class NotingDisk(OsDisk):
    """Notes where it wrote how much."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int, int]] = []

    def write(self, handle: int, data: memoryview, offset: int) -> None:
        self.written.append((offset, len(data)))
        super().write(handle, data, offset)


@pytest.mark.parametrize("seed", range(10))
def test_no_more_than_a_piece_is_put_together_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(flush_module, "_PIECE_BYTES", 1000)
    random, disk, path = Random(seed), NotingDisk(), tmp_path / "log.1"
    commit, content = GroupCommit(disk), b""
    for _ in range(5):
        for _ in range(random.randint(1, 3)):
            sizes = random.choices([0, 1, 99, 500, 999, 1000, 1001, 2500], k=random.randint(1, 6))
            entry = [b"e", *map(random.randbytes, sizes)]
            commit.append(Owner(), path, list(map(memoryview, entry)), len(content))
            content += b"".join(entry)
        commit.drain()
    assert path.read_bytes() == content
    ends = [0, *(offset + size for offset, size in disk.written)]
    assert ends[:-1] == [offset for offset, _ in disk.written] and ends[-1] == len(content)
    assert max(size for _, size in disk.written) <= 1000
    assert len(disk.written) <= 2 * len(content) // 1000 + 5, "short ones are written together"


class CountingDisk(OsDisk):
    """Notes what waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: list[Path] = []

    def sync_folder(self, path: Path) -> None:
        self.folders.append(path)
        super().sync_folder(path)


def test_many_folders_are_made_and_removed_with_one_sync_of_the_one_above(tmp_path: Path) -> None:
    disk = CountingDisk()
    commit = GroupCommit(disk)
    folders = [tmp_path / "consumers" / str(n) for n in range(200)]
    for folder in folders:
        commit.replace(Owner(), folder / "meta.json", [folder.name.encode()])
    assert not commit.drain()
    assert disk.folders.count(tmp_path / "consumers") == 1
    assert sorted(disk.folders) == sorted([tmp_path, tmp_path / "consumers", *folders])
    assert all((folder / "meta.json").read_bytes() == folder.name.encode() for folder in folders)
    disk.folders.clear()
    for folder in folders:
        commit.remove_tree(Owner(), folder)
    assert not commit.drain()
    assert disk.folders == [tmp_path / "consumers"]
    assert disk.names(tmp_path / "consumers") == []


@pytest.mark.parametrize("dark_in", range(20))
def test_what_is_made_after_a_removal_never_survives_beside_what_was_removed(
    sim_disk_module: Any, dark_in: int
) -> None:
    for seed in range(20):
        disk = sim_disk_module.SimDisk(Random(seed))
        for name in "abc":
            disk.put(Path("/s") / name / "meta.json", b"old")
            disk.put(Path("/s") / name / "msgs", b"old")
        commit = GroupCommit(disk)
        owner = Owner()
        commit.remove_tree(owner, Path("/s/a"))
        commit.remove_tree(owner, Path("/s/b"))
        commit.replace(owner, Path("/s/a/meta.json"), [b"new"])
        commit.replace(owner, Path("/s/d/meta.json"), [b"new"])
        commit.remove_tree(owner, Path("/s/c"))
        disk.dark_in = dark_in
        is_dark = False
        try:
            assert not commit.drain()
        except sim_disk_module.PowerLostError:
            is_dark = True
        disk.restart()
        found = {
            name: (
                disk.read(Path("/s") / name / "meta.json"),
                disk.read(Path("/s") / name / "msgs"),
            )
            for name in "abcd"
        }
        # A folder that is removed is there whole or not at all, and so is one that takes its name.
        assert found["a"] in ((b"old", b"old"), (b"new", None), (None, None))
        assert found["b"] in ((b"old", b"old"), (None, None))
        assert found["c"] in ((b"old", b"old"), (None, None))
        if (b"new", None) in (found["a"], found["d"]):
            assert found["b"] == (None, None)
            assert found["a"] != (b"old", b"old")
        if found["c"] == (None, None) or not is_dark:
            assert found["b"] == (None, None)
        if not is_dark:
            assert found["a"] == found["d"] == (b"new", None)


def test_the_names_of_new_folders_that_find_no_room_are_synced_by_the_next_try(
    sim_disk_module: Any,
) -> None:
    for fail_in in range(12):
        disk = sim_disk_module.SimDisk(Random(fail_in))
        commit = GroupCommit(disk)
        heard: list[str] = []
        owners = [Patient(heard), Patient(heard)]
        for number, owner in enumerate(owners):
            commit.replace(owner, Path(f"/s/{number}/meta.json"), [b"x"])
        disk.fail_in, disk.fail_errno = fail_in, errno.ENOSPC
        is_stalled = commit.drain() != []
        assert is_stalled == bool(heard) == (disk.fail_in is None)
        assert commit.drain() == []
        disk.restart()
        assert [disk.read(Path(f"/s/{number}/meta.json")) for number in (0, 1)] == [b"x", b"x"]


def test_names_that_cannot_be_made_durable_are_everybodys_failure(sim_disk_module: Any) -> None:
    disk = sim_disk_module.SimDisk(Random(1))
    disk.make_folder(Path("/s"))
    commit = GroupCommit(disk)
    heard: list[str] = []
    owners = [Patient(heard), Patient(heard), Patient(heard)]
    for number, owner in enumerate(owners):
        commit.remove_tree(owner, Path(f"/s/{number}"))
        disk.put(Path(f"/s/{number}/meta.json"), b"x")
    disk.fail_in = 3  # behind the renames: the sync of what they were in
    assert len(commit.drain()) == 3
    assert heard == ["failed"] * 3
    assert len([path for path in disk.paths() if path.name == "meta.json"]) == 3  # none is cleared


def test_a_file_without_a_descriptor_of_its_own_is_replaced_by_itself(tmp_path: Path) -> None:
    class NarrowDisk(OsDisk):
        """Has descriptors for one file at a time."""

        def prepare(self, path: Path, parts: Any) -> Any:
            raise OSError(errno.EMFILE, "Too many open files", str(path))

    commit = GroupCommit(NarrowDisk())
    for number in range(3):
        commit.replace(Owner(), tmp_path / str(number), [b"x"])
    assert not commit.drain()
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"x"] * 3


class Open(OsDisk):
    """Knows which handles it has given out."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: set[int] = set()

    def open(self, path: Path) -> tuple[int, bool]:
        handle, made = super().open(path)
        self.handles.add(handle)
        return handle, made

    def close(self, handle: int) -> None:
        self.handles.remove(handle)
        super().close(handle)


def test_a_file_that_was_erased_in_or_sealed_is_closed_and_can_be_written_again(
    tmp_path: Path,
) -> None:
    disk, owner, file = Open(), Owner(), BlockFile(tmp_path / "1")
    commit, buffer = GroupCommit(disk), bytearray(b"x" * 300)
    commit.write(owner, file, buffer, 0, 100)
    commit.overwrite(owner, file.path, file, 10, b"head", 60)
    commit.seal(owner, file)  # of which nothing was written since
    assert not commit.drain() and not disk.handles
    commit.write(owner, file, buffer, 100, 200)
    commit.seal(owner, file)
    assert not commit.drain() and not disk.handles
    commit.write(owner, file, buffer, 200, 300)
    assert not commit.drain() and len(disk.handles) == 1
    assert file.path.read_bytes() == b"x" * 10 + b"head" + bytes(46) + b"x" * 240
    commit.close(file)


class Asked:
    """A reserve that has nothing to give."""

    is_usable = True

    def __init__(self) -> None:
        self.wanted: list[int] = []

    def fill(self) -> None:
        """Have as much as there should be."""

    def give(self, wanted: int) -> bool:
        self.wanted.append(wanted)
        return False


def test_the_reserve_is_asked_for_what_is_written_and_for_what_files_take_besides(
    tmp_path: Path,
) -> None:
    class FullDisk(OsDisk):
        """Has no room for a file more."""

        def open(self, path: Path) -> tuple[int, bool]:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    reserve, size, heard = Asked(), 1 << 20, list[str]()
    buffer = bytearray(4 * size)
    commit = GroupCommit(FullDisk(), reserve=reserve)
    owner = Patient(heard)
    for number in range(10):
        file = BlockFile(tmp_path / str(number))
        commit.write(owner, file, buffer, 2 * size, 3 * size)
        commit.remove(owner, file.path, waits=True)
    flush = commit.take(1)
    assert flush is not None and flush.run()
    commit.complete(flush)
    assert heard == ["stalled"]
    (wanted,) = reserve.wanted
    assert 20 * 4096 <= wanted - 10 * size < size


def test_a_removal_that_waits_has_gone_from_the_disk_before_what_follows_it(
    sim_disk_module: Any,
) -> None:
    """Else a power cut might bring it back beside what was written in its place."""
    calls: list[str] = []

    class Noting(sim_disk_module.SimDisk):
        def remove(self, path: Path) -> None:
            calls.append(f"remove {path}")
            super().remove(path)

        def sync_folder(self, path: Path) -> None:
            calls.append(f"sync {path}")
            super().sync_folder(path)

    for waits in (True, False):
        calls.clear()
        disk = Noting(Random(1))
        disk.put(Path("/s/a/old"), b"old")
        disk.put(Path("/s/b/old"), b"old")
        commit, owner = GroupCommit(disk), Owner()
        commit.remove(owner, Path("/s/a/old"), waits=waits)
        commit.remove(owner, Path("/s/b/old"))
        assert not commit.drain()
        between = calls[calls.index("remove /s/a/old") + 1 : calls.index("remove /s/b/old")]
        assert ("sync /s/a" in between) is waits
        assert "sync /s/a" in calls


def _begun(disk: Any, path: Path, **terms: Any) -> tuple[GroupCommit, BlockFile]:
    """Return a queue to a file with a byte in it."""
    commit, file = GroupCommit(disk, **terms), BlockFile(path)
    commit.write(Owner(), file, b"0", 0, 1)
    flush = commit.take(1)
    assert flush is not None and flush.only_write() is None, "the file is to be made first"
    assert not flush.run()
    commit.complete(flush)
    return commit, file


def test_a_single_write_to_an_open_file_is_all_there_is_to_do(tmp_path: Path) -> None:
    commit, file = _begun(OsDisk(), tmp_path / "1")
    buffer = b"0123"
    commit.write(Owner(), file, buffer, 1, 3)
    flush = commit.take(2)
    assert flush is not None
    assert flush.only_write() == (file.handle, buffer, 1, 3)
    assert flush.wrote(0, 0) == []
    commit.complete(flush)
    commit.write(Owner(), file, buffer, 3, 4)
    commit.append(Owner(), tmp_path / "log", [b"x"], 0)
    flush = commit.take(3)
    assert flush is not None and flush.only_write() is None, "there is more"
    flush.run()
    commit.complete(flush)
    commit.drain()


MORE_TO_DO: dict[str, dict[str, Any]] = {
    "nothing is synced now": {"syncs": False},
    "the reserve is filled up": {"fills": True},
    "what is noted is put in place": {"places_max": 1},
    "a name of before is not durable": {"names": {Path("/s"): None}},
    "something of before is not synced": {"unsynced": {BlockFile(Path("/s/2")): Owner()}},
}


@pytest.mark.parametrize("more", MORE_TO_DO)
def test_a_write_is_not_all_when_there_is_more_to_do(tmp_path: Path, more: str) -> None:
    commit, file = _begun(OsDisk(), tmp_path / "1")
    commit.write(Owner(), file, b"0123", 1, 3)
    flush = commit.take(2)
    assert flush is not None and flush.only_write() is not None
    for name, value in MORE_TO_DO[more].items():
        setattr(flush, name, value)
    assert flush.only_write() is None
    commit.close(file)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_without_a_name_or_not_open_is_for_a_flush(tmp_path: Path, is_open: bool) -> None:
    commit, file = _begun(OsDisk(), tmp_path / "1")
    commit.write(Owner(), file, b"0123", 1, 3)
    flush = commit.take(2)
    assert flush is not None and flush.only_write() is not None
    if is_open:
        file.is_nameless = True
    else:
        commit.close(file)
    assert flush.only_write() is None
    commit.close(file)


def test_a_disk_that_encrypts_does_it_itself(tmp_path: Path) -> None:
    class Opaque(OsDisk):
        def descriptor(self, handle: int) -> int | None:
            return None

    commit, file = _begun(Opaque(), tmp_path / "1")
    commit.write(Owner(), file, b"0123", 1, 3)
    flush = commit.take(2)
    assert flush is not None and flush.only_write() is None
    flush.run()
    commit.complete(flush)


def test_whoever_wrote_is_told_when_that_is_durable(tmp_path: Path) -> None:
    commit, file = _begun(OsDisk(), tmp_path / "1")
    told = list[str]()
    commit.write(Patient(told), file, b"0123", 1, 3)
    flush = commit.take(2)
    assert flush is not None and not flush.wrote(0, 0) and not told
    commit.complete(flush)
    assert told == ["flushed"]
    commit.close(file)


@pytest.mark.parametrize(
    ("errnos", "heard", "said"),
    [
        ((errno.ENOSPC, 0), "stalled", "the disk is full"),
        ((errno.EIO, 0), "failed", "write failed"),
        ((0, errno.EDQUOT), "stalled", "the disk is full"),
        ((0, errno.EIO), "failed", "sync failed"),
    ],
)
def test_a_single_write_that_failed(
    tmp_path: Path, errnos: tuple[int, int], heard: str, said: str
) -> None:
    reserve, told = Asked(), list[str]()
    commit, file = _begun(OsDisk(), tmp_path / "1", reserve=reserve)
    owner, buffer = Patient(told), bytes(100_000)
    commit.write(owner, file, buffer, 1, 100_000)
    flush = commit.take(2)
    assert flush is not None and flush.only_write() is not None
    (failure,) = flush.wrote(*errnos)
    assert failure[0] is owner and said in str(failure[1]) and str(file.path) in str(failure[1])
    commit.complete(flush)
    assert told == [heard]
    assert commit.is_stalled == (heard == "stalled")
    assert bool(reserve.wanted) == (heard == "stalled")
    if heard == "stalled":
        assert not commit.drain()
        assert file.path.stat().st_size == 100_000
