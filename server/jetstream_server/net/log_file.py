"""A log file that starts again at a given size, keeping the latest old ones beside it.

An old file is named after the time at which it was put aside, as in the genuine server:
`nats.log.2026.01.02.15.04.05.678901234`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError


class LogFile:
    """One log file and its backups.

    Args:
        path: appended to.
        size_max: put aside once it is larger; 0 for never.
        files_max: how many there may be, this one included; 0 for any number.
        now: reads the clock, in nanoseconds.

    Raises:
        ConfigError: it cannot be written.
    """

    def __init__(self, path: str, size_max: int, files_max: int, now: Callable[[], int]) -> None:
        self._path = Path(path)
        self._size_max = size_max
        self._rotate_at = size_max
        self._files_max = files_max
        self._now = now
        try:
            self._file = self._open()
        except OSError as error:
            text = f"log file {path} cannot be written: {error.strerror}"
            raise ConfigError(text) from error

    def _open(self) -> TextIO:
        return self._path.open("a", encoding="utf-8", errors="backslashreplace")

    def write(self, line: str) -> str:
        """Append a line in one write; return the name of the backup if one was made, else "".

        Raises:
            OSError: it could not be written.
        """
        # One write a line, so that lines of two processes in one file stay whole.
        self._file.write(line)
        self._file.flush()
        if 0 < self._rotate_at < self._file.tell():
            return self._rotate()
        return ""

    def _rotate(self) -> str:
        seconds, rest = divmod(self._now(), SECOND)
        time = datetime.fromtimestamp(seconds, UTC).astimezone()
        backup = f"{self._path}.{time.strftime('%Y.%m.%d.%H.%M.%S')}.{rest:09d}"
        try:
            self._path.rename(backup)
            file = self._open()
        except OSError:
            # Better a file that is too large than none: it goes on, and tries again after as much
            # more.
            self._rotate_at = self._file.tell() + self._size_max
            return ""
        self._file.close()
        self._file, self._rotate_at = file, self._size_max
        if self._files_max > 0:
            for old in self._backups()[: -(self._files_max - 1) or None]:
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
        return backup

    def _backups(self) -> list[Path]:
        """Return the old files, the oldest first."""
        beginning = f"{self._path.name}."
        found = [
            path
            for path in self._path.parent.iterdir()
            if path.name.startswith(beginning)
            and path.name[len(beginning) :].replace(".", "").isdigit()
        ]
        return sorted(found)

    def close(self) -> None:
        """Stop writing."""
        self._file.close()
