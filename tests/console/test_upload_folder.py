"""The folder of uploads: it goes with its console, or when the next one starts."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from jetstream_console.upload_folder import upload_folder


def left_behind(parent: Path, name: str) -> Path:
    """Make a folder as a killed console leaves it."""
    folder = parent / f"jetstream-console-{name}"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "file").write_bytes(b"half of it")
    return folder


def test_it_is_there_while_it_is_used(tmp_path):
    with upload_folder(tmp_path) as folder:
        assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_bytes(b"x")
    assert not folder.exists()
    with pytest.raises(ZeroDivisionError), upload_folder(tmp_path) as folder:
        raise ZeroDivisionError
    assert not folder.exists()


def test_what_a_killed_one_left_goes_and_what_another_uses_stays(tmp_path):
    left, other = left_behind(tmp_path, "left"), tmp_path / "other"
    (tmp_path / "jetstream-console-file").touch()
    other.mkdir()
    elsewhere = left_behind(other, "elsewhere")
    (tmp_path / "jetstream-console-link").symlink_to(elsewhere)
    (tmp_path / "jetstream-console-begun").mkdir()
    with upload_folder(tmp_path) as one, upload_folder(tmp_path) as two:
        assert one.exists() and two.exists() and one != two
        with (one / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not left.exists() and (elsewhere / "file").exists()
    assert {each.name for each in tmp_path.iterdir()} == {
        "other",
        "jetstream-console-file",
        "jetstream-console-link",
        "jetstream-console-begun",
    }
