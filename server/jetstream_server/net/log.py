"""Log lines in the genuine server's form; tools and test suites read them.

[4711] 2026/01/02 15:04:05.000000 [INF] Server is ready
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from jetstream_server.base.clock import SystemClock
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import ServerOptions
from jetstream_server.net.log_file import LogFile


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and where.

    Attributes:
        debug, trace: whether DBG and TRC lines are written.
        logtime: whether lines carry the time.
        utc: whether that time is UTC.
        path: a file to append to, stderr when empty.
        size_max, files_max: limits of that file; see `LogFile`.
    """

    debug: bool = False
    trace: bool = False
    logtime: bool = True
    utc: bool = False
    path: str = ""
    size_max: int = 0
    files_max: int = 0

    @classmethod
    def of(cls, options: ServerOptions) -> LogSettings:
        """Return what the operator has chosen."""
        return cls(
            debug=options.is_debugging,
            trace=options.is_tracing,
            logtime=options.is_logging_time,
            utc=options.is_logging_utc,
            path=options.log_file,
            size_max=options.log_size_limit,
            files_max=options.log_files_max,
        )

    @property
    def file(self) -> tuple[str, int, int]:
        """Return the settings that concern the file: its path, and the most bytes and files."""
        return self.path, self.size_max, self.files_max


class ServerLog:
    """Writes log lines.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, settings: LogSettings | None = None) -> None:
        self._settings = settings or LogSettings()
        self._file = _open(self._settings)

    def follow(self, settings: LogSettings) -> None:
        """Apply other settings.

        Raises:
            ConfigError: the file cannot be written; nothing has changed then.
        """
        if settings.file != self._settings.file:
            file = _open(settings)
            if self._file is not None:
                self._file.close()
            self._file = file
        self._settings = settings

    def reopen(self) -> None:
        """Go on in a new file of the same name: the old one was moved away. If that cannot be
        opened, the log says so in the old one, and goes on there."""
        if self._file is None:
            return
        try:
            file = _open(self._settings)
        except ConfigError as error:
            self.write("ERR", str(error))
            return
        self._file.close()
        self._file = file
        self.write("INF", "File log re-opened")

    def write(self, level: str, text: str) -> None:
        """Write one line; levels are INF, WRN, ERR, FTL, DBG and TRC."""
        settings = self._settings
        if (level == "DBG" and not settings.debug) or (level == "TRC" and not settings.trace):
            return
        line = self._line(level, text)
        # A reader of our log that goes away, or a full disk, must not take the server with it.
        with contextlib.suppress(OSError):
            if self._file is None:
                # One write a line, so that lines of two processes in one file stay whole.
                sys.stderr.write(line)
                sys.stderr.flush()
            elif backup := self._file.write(line):
                self._file.write(self._line("INF", f'Rotated log, backup saved as "{backup}"'))

    def _line(self, level: str, text: str) -> str:
        settings, time = self._settings, ""
        if settings.logtime:
            now = datetime.now(UTC) if settings.utc else datetime.now(UTC).astimezone()
            time = now.strftime("%Y/%m/%d %H:%M:%S.%f ")
        return f"[{os.getpid()}] {time}[{level}] {text}\n"


def _open(settings: LogSettings) -> LogFile | None:
    if not settings.path:
        return None
    return LogFile(*settings.file, SystemClock().now)
