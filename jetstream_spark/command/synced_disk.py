"""Files that are on the disk as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class SyncedDisk:
    """This machine's files; everything is on the disk when a method returns."""

    def copy(self, source: Path, target: Path) -> None:
        """Copy a file into a folder that is made if it is missing."""
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        with target.open("rb") as file:
            os.fsync(file.fileno())
        _sync_folder(target.parent)

    def create(self, path: Path, content: str) -> bool:
        """Make a file; return False if there is one of that name already."""
        temporary = self._written(path, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _sync_folder(path.parent)
        return True

    def replace(self, path: Path, content: str) -> None:
        """Put a file in the place of another one."""
        self._written(path, content).replace(path)
        _sync_folder(path.parent)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def put(self, written: Path, path: Path) -> None:
        """Sync a file that was written, and give it its name, in place of any file that had it."""
        with written.open("rb") as file:
            os.fsync(file.fileno())
        written.replace(path)
        _sync_folder(path.parent)

    @staticmethod
    def _written(path: Path, content: str) -> Path:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.reset")
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
