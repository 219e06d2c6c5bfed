"""OsDisk on a temporary folder."""

from __future__ import annotations

from jetstream_server.store.disk.disk import OsDisk


def test_files_are_made_written_and_read(tmp_path):
    disk = OsDisk()
    path = tmp_path / "a"
    handle, made = disk.open(path)
    assert made
    disk.write(handle, memoryview(b"hello"), 3)
    disk.sync(handle)
    disk.close(handle)
    assert disk.read(path) == b"\0\0\0hello"
    assert bytes(disk.map(path)) == b"\0\0\0hello"
    assert disk.size(path) == 8
    disk.truncate(path, 4)
    assert disk.read(path) == b"\0\0\0h"
    assert disk.open(path)[1] is False


def test_what_is_stored_is_nobody_elses_business(tmp_path):
    disk = OsDisk()
    folder = tmp_path / "new" / "folder"
    disk.make_folder(folder)
    disk.close(disk.open(folder / "opened")[0])
    disk.replace(folder / "replaced", [b"x"])
    disk.allocate(folder / "allocated", 10)
    disk.unlock(disk.lock(folder / "lock", b""))
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes.pop("new") == modes.pop("folder") == 0o700
    assert {*modes.values()} == {0o600}
    assert len(modes) == 4


def test_replace_leaves_no_temporary_file(tmp_path):
    disk = OsDisk()
    disk.replace(tmp_path / "a", [b"one", memoryview(b"two")])
    mapped = disk.map(tmp_path / "a")
    disk.replace(tmp_path / "a", [b"three"])
    assert bytes(mapped) == b"onetwo"
    assert disk.names(tmp_path) == ["a"]
    assert disk.read(tmp_path / "a") == b"three"


def test_what_is_not_there(tmp_path):
    disk = OsDisk()
    assert disk.read(tmp_path / "none") is None
    assert disk.names(tmp_path / "none") == []
    disk.remove(tmp_path / "none")
    assert disk.set_aside(tmp_path / "none") is None
    assert disk.clear(tmp_path / "none", 1)
    (tmp_path / "empty").touch()
    assert disk.map(tmp_path / "empty") == b""


def test_folders_are_made_and_removed_whole(tmp_path):
    disk = OsDisk()
    disk.make_folder(tmp_path / "a" / "b" / "c")
    disk.replace(tmp_path / "a" / "b" / "file", [b""])
    disk.sync_folder(tmp_path / "a")
    aside = disk.set_aside(tmp_path / "a")
    assert disk.names(tmp_path) == [aside.name]
    assert disk.clear(aside, 9)
    assert disk.names(tmp_path) == []


def test_folders_of_the_same_name_are_set_aside_one_beside_the_other(tmp_path):
    disk = OsDisk()
    for _ in range(3):
        disk.make_folder(tmp_path / "a")
        disk.replace(tmp_path / "a" / "file", [b"x"])
        disk.set_aside(tmp_path / "a")
    assert len(disk.names(tmp_path)) == 3
    assert all(name.startswith(".removed-") for name in disk.names(tmp_path))


def test_a_folder_is_cleared_piece_by_piece(tmp_path):
    disk, folder = OsDisk(), tmp_path / "a"
    for name in ("a", "b/c", "b/d/e", "b/d/f", "g/h"):
        disk.make_folder((folder / name).parent)
        disk.replace(folder / name, [b"x"])
    (folder / "link").symlink_to(tmp_path)
    disk.make_folder(folder / "empty" / "empty")
    counts = []
    while not disk.clear(folder, 2):
        counts.append(sum(path.is_symlink() or path.is_file() for path in folder.rglob("*")))
    assert counts in ([4, 2], [4, 2, 0])
    assert disk.names(tmp_path) == []


def test_lock_is_exclusive(tmp_path):
    disk = OsDisk()
    lock = disk.lock(tmp_path / "lock", b"pid 1")
    assert disk.read(tmp_path / "lock") == b"pid 1"
    assert OsDisk().lock(tmp_path / "lock", b"pid 2") is None
    disk.unlock(lock)
    again = disk.lock(tmp_path / "lock", b"")
    assert again is not None
    disk.unlock(again)
