"""Checkpoints as Spark leaves them, and the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jetstream_spark.command.main import main
from jetstream_spark.options.offsets import Offsets, StreamOffset, Tasks

CREATED = "2026-11-21T10:00:00.5Z"


def line(created: str = CREATED, **streams: int) -> str:
    """A source's line that ends at these sequences, with all else that a batch's end says."""
    ends = {name: StreamOffset(created, at) for name, at in streams.items()}
    return json.dumps(Offsets(ends, Tasks(1000, 1, 8), ("a.>",), is_purged=True).to_json())


class MadeCheckpoint:
    """A checkpoint in a folder, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for log in ("offsets", "commits"):
            (folder / log).mkdir(parents=True)
        (folder / "metadata").write_text('{"id":"3baeea2d-6e28-43be-84ad-7746d4d4b18a"}')

    def add(self, number: int, *sources: str, is_committed: bool = True, age_s: float = 60) -> None:
        head = (
            f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{1795392108000 + number},"conf":{{}}}}'
        )
        self._write("offsets", number, "\n".join((head, *sources)), age_s)
        if is_committed:
            self._write("commits", number, 'v1\n{"nextBatchWatermarkMs":0}', age_s)

    def _write(self, log: str, number: int, text: str, age_s: float) -> None:
        path = self.folder / log / str(number)
        path.write_text(text)
        path.with_name(f".{number}.crc").write_bytes(b"crc\0")
        changed = path.stat().st_mtime - age_s
        os.utime(path, (changed, changed))


@pytest.fixture
def checkpoint(tmp_path: Path) -> MadeCheckpoint:
    """An empty one."""
    return MadeCheckpoint(tmp_path / "checkpoint")


@pytest.fixture
def command() -> Callable[..., Result]:
    """Run the command line; what it prints and ends with."""

    def run(*words: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), input=input, prog_name="jetstream-spark")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
