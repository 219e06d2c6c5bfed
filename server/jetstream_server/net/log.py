"""Log lines in the genuine server's form; tools and test suites read them.

[4711] 2026/01/02 15:04:05.000000 [INF] Server is ready
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TextIO


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
        self._file: TextIO = open(path, "a", encoding="utf-8") if path else sys.stderr

    def write(self, level: str, text: str) -> None:
        """Write one line; levels are INF, WRN, ERR, FTL, DBG and TRC."""
        if level in self._hidden:
            return
        time = datetime.now(UTC).astimezone().strftime("%Y/%m/%d %H:%M:%S.%f ")
        # One write a line, so that lines of two processes in one file stay whole.
        self._file.write(f"[{os.getpid()}] {time if self._logtime else ''}[{level}] {text}\n")
        self._file.flush()
