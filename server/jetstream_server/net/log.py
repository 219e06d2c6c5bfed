"""Log lines in the genuine server's form; tools and test suites read them.

[4711] 2026/01/02 15:04:05.000000 [INF] Server is ready
"""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from jetstream_server.base.errors import ConfigError


class ServerLog:
    """Writes log lines.

    Args:
        debug: whether DBG lines are written.
        trace: whether TRC lines are written.
        logtime: whether lines carry the time.
        path: a file to append to, stderr when empty.
    """

    def __init__(
        self, *, debug: bool = False, trace: bool = False, logtime: bool = True, path: str = ""
    ) -> None:
        self._hidden = {level for level, shown in (("DBG", debug), ("TRC", trace)) if not shown}
        self._logtime = logtime
        self._path = path
        self._file: TextIO = _append_to(path) if path else sys.stderr

    def follow(self, *, debug: bool, trace: bool, logtime: bool, path: str) -> None:
        """Take other settings, as those that it was made with.

        Raises:
            ConfigError: the file cannot be written; nothing has changed then.
        """
        if path != self._path:
            file = _append_to(path) if path else sys.stderr
            if self._file is not sys.stderr:
                self._file.close()
            self._path, self._file = path, file
        self._hidden = {level for level, shown in (("DBG", debug), ("TRC", trace)) if not shown}
        self._logtime = logtime

    def write(self, level: str, text: str) -> None:
        """Write one line; levels are INF, WRN, ERR, FTL, DBG and TRC."""
        if level in self._hidden:
            return
        time = datetime.now(UTC).astimezone().strftime("%Y/%m/%d %H:%M:%S.%f ")
        line = f"[{os.getpid()}] {time if self._logtime else ''}[{level}] {text}\n"
        # A reader of our log that goes away must not take the server with it.
        with contextlib.suppress(OSError):
            # One write a line, so that lines of two processes in one file stay whole.
            self._file.write(line)
            self._file.flush()


def _append_to(path: str) -> TextIO:
    try:
        return Path(path).open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"log file {path} cannot be written: {error.strerror}") from error
