"""How Spark's queries ended, from the event logs of Spark's applications.

    <folder>/<application>                              one file, or with `spark.eventLog.rolling`
    <folder>/eventlog_v2_<application>/events_<n>_...   some of them

Each line is an event. With zstd every flush ends a frame, so what was read once is not read again.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from jetstream_console.asking.answers import moment, text
from jetstream_console.asking.errors import RefusedError

RUNS_MAX = 1_000
FILES_MAX = 200
# Of a log that was not seen before, only its end is read; a line is an event, with a stack trace.
END_BYTES = 8 << 20
LOOK_BYTES = 32 << 20
LINE_BYTES_MAX = 4 << 20
_WRITTEN_BYTES_MAX = 512 << 20
_PIECE = 1 << 20
_ERROR_LENGTH_MAX = 32 << 10
_EVENT = b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$Query'
_STARTED, _PROGRESS, _ENDED = _EVENT + b"Started", _EVENT + b"Progress", _EVENT + b"Terminated"
_RUN = re.compile(rb'"runId":"([^"]{1,64})"')
_TIME = re.compile(rb'"timestamp":"([^"]{1,40})"')
_FRAME = bytes.fromhex("28b52ffd")
_FOREIGN = {".lz4", ".lzf", ".snappy"}


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of a query, from its start to its end.

    Attributes:
        query: its id, which its checkpoint has as well.
        last_batch: when the newest batch that is known to be done began.
        has_ended: whether it was stopped, or failed.
        error: why it failed, with the stack trace; empty if it did not.
    """

    query: str
    run: str
    name: str
    began: datetime | None
    last_batch: datetime | None = None
    has_ended: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class QueryRuns:
    """The newest run of each query, and the newest that failed, if that is another.

    Attributes:
        words: what could not be read, and why.
    """

    rows: tuple[QueryRun, ...]
    words: tuple[str, ...]

    def named(self, query: str) -> str:
        """Return a query's id, behind the name that its newest run has if that is known."""
        names = [each.name for each in self.rows if each.query == query and each.name]
        return f"{names[0]} ({query})" if names else query

    def last_error(self, query: str) -> str:
        """Return the first line of why a query failed last; empty if it is not known to have."""
        errors = [each.error for each in self.rows if each.query == query and each.error]
        return errors[0].partition("\n")[0] if errors else ""


class EventLogs:
    """Looks into a folder of event logs again and again.

    Args:
        folder: as in `spark.eventLog.dir`, on this machine.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._looking = asyncio.Lock()
        self._positions: dict[Path, int] = {}
        self._runs: dict[str, QueryRun] = {}

    async def look(self) -> QueryRuns:
        """Return what the logs say; the first look reads their ends, others what came since.

        Raises:
            AskingError: the folder cannot be read.
        """
        async with self._looking:
            try:
                words = await asyncio.to_thread(self._read)
            except OSError as error:
                raise RefusedError(f"The event logs cannot be read: {error}.") from None
            return QueryRuns(tuple(_shown(self._runs.values())), tuple(words))

    def _read(self) -> list[str]:
        budget, words = LOOK_BYTES, []
        found = sorted(_logs(_local(self._folder)), key=lambda log: log.changed_s)
        kept = found[-FILES_MAX:]
        if len(found) > len(kept):
            words.append(f"Only the newest {FILES_MAX} of {len(found)} event logs are looked at.")
        known = {log.path for log in kept}
        for path in [path for path in self._positions if path not in known]:
            del self._positions[path]
        # The newest first: whoever looks now wants to know what happened now.
        for log in reversed(kept):
            if _FOREIGN & set(log.path.suffixes):
                words.append(f"'{log.path.name}' is compressed in a way that is not read here.")
                continue
            position = self._positions.get(log.path, max(0, log.size - END_BYTES))
            # A log that became shorter is another one.
            position = position if position <= log.size else 0
            if position == log.size:
                continue
            if budget <= 0:
                words.append("There is more than one look reads; it goes on at the next.")
                break
            budget -= log.size - position
            try:
                self._positions[log.path] = self._read_log(log, position)
            except OSError as error:
                words.append(f"An event log cannot be read: {error}.")
        return words

    def _read_log(self, log: _Log, position: int) -> int:
        """Take what a log says from a position on; return where to go on."""
        with log.path.open("rb") as file:
            file.seek(position)
            content = file.read(LOOK_BYTES)
        if ".zstd" in log.path.suffixes:
            start = max(0, content.find(_FRAME))
            end = _frames_end(content, start)
            pieces = _unpacked(content[start:end])
        else:
            start, end = 0, content.rfind(b"\n") + 1
            pieces = iter([content[:end]])
        if end == start and len(content) == LOOK_BYTES:
            return position + len(content)
        self._take(_lines(pieces))
        return position + end

    def _take(self, lines: Iterator[bytes]) -> None:
        for line in lines:
            if not line.startswith(_EVENT):
                continue
            if line.startswith(_PROGRESS):
                self._take_progress(line)
                continue
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if line.startswith(_STARTED):
                self._keep(_started(said))
            elif line.startswith(_ENDED):
                self._take_end(said)

    def _take_progress(self, line: bytes) -> None:
        run, time = _RUN.search(line, 0, 1_000), _TIME.search(line, 0, 1_000)
        known = self._runs.get(run[1].decode("utf-8", "replace")) if run else None
        if known is not None and time is not None:
            at = moment({"at": time[1].decode("utf-8", "replace")}, "at")
            self._keep(replace(known, last_batch=at))

    def _take_end(self, said: dict[str, Any]) -> None:
        # Of a start that lies before what is read nothing is known but the ids.
        known = self._runs.get(text(said, "runId")) or _started(said)
        error = text(said, "exception")[:_ERROR_LENGTH_MAX]
        self._keep(replace(known, has_ended=True, error=error))

    def _keep(self, run: QueryRun) -> None:
        self._runs.pop(run.run, None)
        self._runs[run.run] = run
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]


@dataclass(frozen=True, slots=True)
class _Log:
    path: Path
    size: int
    changed_s: float


def _local(folder: str) -> Path:
    if folder.startswith("file:"):
        return Path(unquote(urlsplit(folder).path))
    if "://" in folder:
        raise RefusedError(f"'{folder}' is not on this machine.")
    return Path(folder)


def _logs(folder: Path) -> Iterator[_Log]:
    for path in folder.iterdir():
        below = path.glob("events_*") if path.is_dir() else [path]
        for each in below:
            if each.name.startswith(".") or not each.is_file():
                continue
            try:
                found = each.stat()
            except FileNotFoundError:  # Spark has put several into one
                continue
            yield _Log(each, found.st_size, found.st_mtime)


def _frames_end(content: bytes, start: int) -> int:
    """Return where the last whole frame ends; the beginning of another may follow it."""
    last = content.rfind(_FRAME, start)
    if last < 0:
        return max(0, len(content) - len(_FRAME) + 1)
    try:
        for _ in _unpacked(content[last:]):
            pass
    except OSError:
        return last
    return len(content)


def _unpacked(content: bytes) -> Iterator[bytes]:
    left = _WRITTEN_BYTES_MAX
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        while left > 0 and (piece := stream.read(_PIECE)):
            left -= len(piece)
            yield piece


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield whole lines, and what stands before the first line's end.

    Lines that are too long are passed over, and so is everything after what cannot be read.
    """
    kept = io.BytesIO()
    skips = False
    try:
        for piece in pieces:
            *whole, rest = piece.split(b"\n")
            for number, line in enumerate(whole):
                if number == 0:
                    kept.write(line)
                    line = kept.getvalue()
                    kept = io.BytesIO()
                if not skips:
                    yield line
                skips = False
            if kept.tell() + len(rest) > LINE_BYTES_MAX:
                kept, skips = io.BytesIO(), True
            else:
                kept.write(rest)
    except OSError:
        return


def _started(said: dict[str, Any]) -> QueryRun:
    return QueryRun(
        text(said, "id"), text(said, "runId"), text(said, "name"), moment(said, "timestamp")
    )


def _shown(runs: Iterable[QueryRun]) -> list[QueryRun]:
    """Return what counts of each query: its newest run, and the newest that failed."""
    newest: dict[str, QueryRun] = {}
    failed: dict[str, QueryRun] = {}
    for each in sorted(runs, key=_age):
        newest[each.query] = each
        if each.error:
            failed[each.query] = each
    both = {each.run: each for each in (*newest.values(), *failed.values())}
    return sorted(both.values(), key=_age, reverse=True)


def _age(run: QueryRun) -> float:
    return run.began.timestamp() if run.began is not None else 0.0
