"""A Spark checkpoint as it is in its folder: which batches were planned, and which committed.

    offsets/<n>     written before batch n runs: a version, a line of JSON about the session, then
                    one line for each source: where batch n ends, or `-`
    commits/<n>     written when batch n is done
    metadata        the id of the query
    state/          what stateful operators remember, by batch

Names that are not numbers (`.<n>.crc`, half-written files) mean nothing to Spark, nor here.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from jetstream_spark.errors import ConnectorError, OffsetsError
from jetstream_spark.options.offsets import Offsets, are_offsets

# Of a log's file; one of ours has some hundred bytes per stream.
FILE_BYTES_MAX = 64 << 20
_DIGITS_MAX = 18


class CheckpointError(ConnectorError, ValueError):
    """A folder is not a checkpoint, or one that cannot be read or changed."""

    condition = "CHECKPOINT"


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One file of the log of offsets.

    Attributes:
        head: the version, and what Spark notes of its session; two lines.
        sources: a line for each source of the query.
    """

    number: int
    head: tuple[str, str]
    sources: tuple[str, ...]

    @property
    def offsets(self) -> dict[int, Offsets]:
        """Where the batch ends in sources of ours, by the number of the source."""
        found = {n: offsets_of(line) for n, line in enumerate(self.sources)}
        return {number: offsets for number, offsets in found.items() if offsets is not None}

    @property
    def session(self) -> dict[str, object]:
        """What Spark notes: `batchTimestampMs`, `batchWatermarkMs`, `conf`."""
        try:
            noted = json.loads(self.head[1])
        except (ValueError, RecursionError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def text(self) -> str:
        """Return the file's content."""
        return "\n".join((*self.head, *self.sources))

    def ending_at(self, number: int, ends: dict[int, Offsets]) -> PlannedBatch:
        """The same batch under another number, with other ends in some sources."""
        sources = list(self.sources)
        for source, offsets in ends.items():
            sources[source] = json.dumps(offsets.to_json())
        return PlannedBatch(number, self.head, tuple(sources))


class Checkpoint:
    """The folder that a query has as `checkpointLocation`.

    Args:
        location: a path, or a `file:` address.

    Raises:
        CheckpointError: it is not on this machine, or not a checkpoint.
    """

    def __init__(self, location: str) -> None:
        self.folder = _local(location)
        if not _is_folder(self.folder):
            raise CheckpointError(
                f"there is no folder '{self.folder}'.",
                "Give the folder that the query has as checkpointLocation, as it is called on this "
                "machine.",
            )
        if not _is_folder(self.folder / "offsets"):
            raise CheckpointError(
                f"'{self.folder}' is no checkpoint of a streaming query: it has no folder "
                "'offsets'.",
                "Give the folder that the query has as checkpointLocation.",
            )

    @property
    def query_id(self) -> str:
        """The id that the query keeps across restarts; "" when the checkpoint does not say."""
        try:
            return str(json.loads(_read(self.folder / "metadata"))["id"])
        except (CheckpointError, ValueError, TypeError, KeyError, RecursionError):
            return ""

    def planned(self) -> list[int]:
        """The numbers of the batches that were planned and are still remembered."""
        return self._numbers("offsets")

    def committed(self) -> list[int]:
        """The numbers of the batches that are done and still remembered."""
        return self._numbers("commits")

    def _numbers(self, log: str) -> list[int]:
        try:
            names = [path.name for path in (self.folder / log).iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(
                f"'{self.folder / log}' cannot be read: {error}.",
                "Run the command as a user who may read the checkpoint.",
            ) from None
        numbers = [name for name in names if name.isascii() and name.isdigit()]
        return sorted(int(name) for name in numbers if len(name) <= _DIGITS_MAX)

    def batch(self, number: int) -> PlannedBatch:
        """Read a planned batch.

        Raises:
            CheckpointError: it does not exist, or has an unknown form.
        """
        path = self.folder / "offsets" / str(number)
        lines = _read(path).split("\n")
        if lines[0] != "v1" or len(lines) < 3:
            raise CheckpointError(
                f"'{path}' begins with '{lines[0][:40]}', and only the form v1 is known.",
                "It is of another version of Spark, or half written; compare with a file beside "
                "it. Nothing was changed.",
            )
        return PlannedBatch(number, (lines[0], lines[1]), tuple(lines[2:]))

    def commit(self, number: int) -> str:
        """Read what Spark wrote when a batch was done."""
        return _read(self.folder / "commits" / str(number))

    def has_state(self) -> bool:
        """Whether the query remembers anything besides positions."""
        state = self.folder / "state"
        return state.is_dir() and any(path.is_file() for path in state.rglob("*"))

    def changed_ns(self) -> int:
        """When a file of the two logs was last written, in nanoseconds since 1970; 0 if none is."""
        times = [0]
        for log in ("offsets", "commits"):
            for number in self._numbers(log)[-1:]:
                times.append((self.folder / log / str(number)).stat().st_mtime_ns)
        return max(times)


def offsets_of(line: str) -> Offsets | None:
    """Read a source's line; None if it belongs to another kind of source, or to none."""
    try:
        value = json.loads(line)
        return Offsets.from_json(value) if are_offsets(value) else None
    except (ValueError, TypeError, RecursionError, OffsetsError):
        return None


def find_checkpoints(location: str, depth: int = 4) -> list[Checkpoint]:
    """The checkpoint of a location, or all that lie below it.

    Raises:
        CheckpointError: there is none.
    """
    folder = _local(location)
    found: list[Path] = []
    level = [folder]
    for _ in range(depth):
        below: list[Path] = []
        for each in level:
            if _is_folder(each / "offsets") and _is_folder(each / "commits"):
                found.append(each)
            elif _is_folder(each):
                below += sorted(path for path in each.iterdir() if path.is_dir())
        level = below
    if not found:
        return [Checkpoint(location)]
    return [Checkpoint(str(each)) for each in found]


def _local(location: str) -> Path:
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in location:
        raise CheckpointError(
            f"'{location}' is not on this machine, and only local folders can be looked into.",
            "Copy the folder here, or mount it; a reset needs renames that cannot be seen half "
            "done, which object stores do not have.",
        )
    return Path(location)


def _is_folder(path: Path) -> bool:
    """Whether it is one, and not only whether this user sees one."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise CheckpointError(
            f"'{path}' cannot be looked at: {error.strerror}.",
            "Run the command as a user who may read the checkpoint.",
        ) from None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CheckpointError(f"'{path}' is longer than any log of Spark.", "Look into it.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"'{path}' cannot be read: {error}.",
            "Give a batch that is there (`jetstream-spark offsets show`), and run the command as "
            "a user who may read the checkpoint.",
        ) from None
