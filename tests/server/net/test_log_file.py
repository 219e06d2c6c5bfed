"""Log files that start anew."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.net.log_file import LogFile


def make(folder: Path, size_max: int = 0, files_max: int = 0) -> LogFile:
    seconds = count(1_700_000_000)
    path = str(folder / "n.log")
    return LogFile(path, size_max, files_max, lambda: next(seconds) * SECOND + 5)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_grows(tmp_path: Path) -> None:
    file = make(tmp_path)
    assert [file.write("line\n") for _ in range(100)] == [""] * 100
    file.close()
    assert (tmp_path / "n.log").read_text() == "line\n" * 100


def test_it_is_put_aside_at_its_size(tmp_path: Path) -> None:
    file = make(tmp_path, size_max=9)
    assert file.write("four\n") == ""
    backup = file.write("five\n")
    assert Path(backup).read_text() == "four\nfive\n"
    assert backup.endswith(".000000005")
    file.write("six\n")
    assert (tmp_path / "n.log").read_text() == "six\n"


def test_only_the_latest_stay(tmp_path: Path) -> None:
    (tmp_path / "n.log.notes").write_text("somebody else's")
    for files_max in (3, 1):
        file = make(tmp_path, size_max=1, files_max=files_max)
        backups = [Path(file.write("line\n")).name for _ in range(4)]
        kept = backups[len(backups) - (files_max - 1) :]
        assert names(tmp_path) == sorted(["n.log", "n.log.notes", *kept])
        file.close()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        make(tmp_path / "no")


def test_what_cannot_be_put_aside_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make(tmp_path, size_max=10)
    attempts = []

    def refuse(path: Path, target: str) -> None:
        attempts.append(target)
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        assert [file.write("line\n") for _ in range(4)] == [""] * 4
    assert len(attempts) == 1
    assert (tmp_path / "n.log").read_text() == "line\n" * 4
    assert [bool(file.write("line\n")) for _ in range(3)] == [False, True, False]
    file.close()
