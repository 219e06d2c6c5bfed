"""A folder of Parquet files as the source or the target of a copy.

Each file is a chunk: it is written under another name, synced, and renamed, so a file with its
final name is whole. The plan is `_copy.json` in the folder; readers of Parquet skip such names.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jetstream_spark.command.copy_plan import CopyError
from jetstream_spark.command.synced_disk import SyncedDisk

_PLAN = "_copy.json"
_NEEDED = ("subject", "data")
_EMPTY = pa.schema({"subject": pa.string(), "data": pa.binary()})


class ParquetOrigin:
    """Reads the files of a folder, in the order of their names; a row group is a chunk.

    Args:
        folder: has files `*.parquet` with the columns `subject` and `data`, and optionally
            `headers`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def plan(self) -> dict[str, Any]:
        """See `CopySource`."""
        files = []
        for path in sorted(self._folder.glob("*.parquet")):
            footer = _footer(path)
            missing = [
                name for name in _NEEDED if name not in footer.schema.to_arrow_schema().names
            ]
            if missing:
                raise CopyError(
                    f"'{path}' has no column {' and '.join(missing)}.",
                    "Rows need `subject` and `data`, and may have `headers`.",
                )
            files.append([path.name, footer.num_row_groups, footer.num_rows])
        if not files:
            raise CopyError(
                f"'{self._folder}' has no Parquet files.",
                f"Name a folder that has; a stream is named stream:{self._folder.name}.",
            )
        groups, rows = (sum(int(one[at]) for one in files) for at in (1, 2))
        return {"files": files, "chunks": groups, "rows": rows}

    def read(self, plan: Mapping[str, Any], chunk: int) -> Iterator[pa.RecordBatch]:
        """See `CopySource`."""
        for name, groups, rows in plan["files"]:
            if chunk >= groups:
                chunk -= groups
                continue
            path = self._folder / str(name)
            footer = _footer(path)
            if (footer.num_row_groups, footer.num_rows) != (groups, rows):
                raise CopyError(
                    f"'{path}' was changed since the copy was begun.",
                    "Bring the file back, or begin another copy under another --name.",
                )
            with pq.ParquetFile(path) as file:
                names = [one for one in (*_NEEDED, "headers") if one in file.schema_arrow.names]
                yield from file.iter_batches(row_groups=[chunk], columns=names)
            return


def _footer(path: Path) -> pq.FileMetaData:
    try:
        with pq.ParquetFile(path) as file:
            return file.metadata
    except (OSError, pa.ArrowException) as error:
        raise CopyError(
            f"'{path}' cannot be read as Parquet: {str(error)[:200]}.", "Look into the file."
        ) from None


class ParquetDestination:
    """Writes files into a folder, which is created."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = SyncedDisk()

    def kept_plan(self) -> str | None:
        """See `CopyTarget`."""
        path = self._folder / _PLAN
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def check(self, begun: Mapping[str, Any]) -> None:
        """See `CopyTarget`; each file speaks for itself."""

    def begin(self) -> dict[str, Any]:
        """See `CopyTarget`."""
        if self._folder.is_dir() and any(self._folder.iterdir()):
            raise CopyError(
                f"'{self._folder}' is not empty, and no copy was begun there.",
                "Name a folder that is empty, or that is not there.",
            )
        return {}

    def keep_plan(self, text: str) -> None:
        """See `CopyTarget`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._disk.create(self._folder / _PLAN, text)

    def done(self) -> int:
        """See `CopyTarget`."""
        chunk = 0
        while self._path(chunk).is_file():
            chunk += 1
        return chunk

    def write(self, chunk: int, batches: Iterable[pa.RecordBatch]) -> int:
        """See `CopyTarget`."""
        temporary = self._folder / f".part-{chunk:08d}.{os.getpid()}.tmp"
        writer: pq.ParquetWriter | None = None
        rows = 0
        try:
            for batch in batches:
                if writer is None:
                    writer = pq.ParquetWriter(temporary, batch.schema, compression="zstd")
                writer.write_batch(batch)
                rows += batch.num_rows
            if writer is None:  # all of it is gone; an empty file says that it is done
                writer = pq.ParquetWriter(temporary, _EMPTY)
            writer.close()
            self._disk.put(temporary, self._path(chunk))
        except BaseException:
            if writer is not None:
                with contextlib.suppress(OSError):  # such as a full disk
                    writer.close()
            temporary.unlink(missing_ok=True)
            raise
        for left in self._folder.glob(f".part-{chunk:08d}.*.tmp"):  # of a copier that was killed
            left.unlink(missing_ok=True)
        return rows

    def _path(self, chunk: int) -> Path:
        return self._folder / f"part-{chunk:08d}.parquet"

    def count(self, begun: Mapping[str, Any]) -> int | None:
        """See `CopyTarget`."""
        return sum(int(_footer(self._path(chunk)).num_rows) for chunk in range(self.done()))
