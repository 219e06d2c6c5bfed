"""Giving a query other positions, in such a way that the reset may be killed at any point.

A checkpoint has no lock, and its logs are two folders, so nothing changes both at once. Only a
single rename is atomic. So a reset is a batch of its own, without any rows:

1. `offsets/<n+1>` is made, unless it is there, as a copy of `offsets/<n>`. From now on batch n+1
   begins and ends where batch n ended. If the query runs after all, it can no longer plan its
   batch n+1: Spark finds the file and ends it ("multiple streaming jobs detected").
2. `commits/<n+1>` is made as a copy of `commits/<n>`: that empty batch is done.
3. `offsets/<n+1>` is replaced by one with the new positions, in one rename.

Before step 3 the query stands where it stood, after it where it was told to. A reset that was cut
off after 1 or 2 is finished by the next one, or by the query, which runs an empty batch. No number
is used twice, so nothing that a sink remembers of its batches is mistaken for something else.

The files get no checksum files beside them, and Spark does not ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jetstream_spark.command.checkpoint import Checkpoint, CheckpointError, PlannedBatch
from jetstream_spark.options.offsets import Offsets

BACKUPS = "before-reset"


class CheckpointDisk(Protocol):
    """Makes files that are there as a whole or not at all."""

    def copy(self, source: Path, target: Path) -> None:
        """Copy a file into a folder that is made if it is missing; on the disk when it returns."""

    def create(self, path: Path, content: str) -> bool:
        """Make a file; return False if there is one of that name already."""

    def replace(self, path: Path, content: str) -> None:
        """Put a file in the place of another one."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""


def check_resettable(checkpoint: Checkpoint) -> PlannedBatch:
    """Return the last batch, if a reset may follow it.

    Raises:
        CheckpointError: a batch is not finished, the query has state, or it has no position of
        ours.
    """
    planned, committed = checkpoint.planned(), checkpoint.committed()
    if not planned or not committed:
        raise CheckpointError(
            f"the query of '{checkpoint.folder}' has not finished a batch, so there is no "
            "position to change.",
            "Give the query startingOffsets instead; they apply to a checkpoint without batches.",
        )
    last = checkpoint.batch(planned[-1])
    if planned[-1] != committed[-1] and not _is_begun_reset(checkpoint, planned, committed):
        raise CheckpointError(
            f"batch {planned[-1]} of '{checkpoint.folder}' was begun and is not finished (the last "
            f"one that is: {committed[-1]}): the query runs, or was stopped in the middle of it, "
            "and part of its rows may be written.",
            "If it runs, stop it. Then run it once with trigger(availableNow=True), which "
            "finishes the batch, and reset it then.",
        )
    if checkpoint.has_state():
        raise CheckpointError(
            f"the query of '{checkpoint.folder}' keeps state (aggregates, joins or deduplication), "
            "which belongs to its positions: with others it would count rows twice or miss them.",
            "Start it with a new checkpointLocation and with startingOffsets.",
        )
    if not last.offsets:
        raise CheckpointError(
            f"the query of '{checkpoint.folder}' reads no JetStream stream.",
            "Give the checkpoint of a query that does.",
        )
    return last


def _is_begun_reset(checkpoint: Checkpoint, planned: list[int], committed: list[int]) -> bool:
    """Whether the unfinished batch is the first step of a reset that was cut off."""
    if planned[-1] != committed[-1] + 1 or committed[-1] not in planned:
        return False
    # Spark would have noted another time.
    return checkpoint.batch(planned[-1]).text() == checkpoint.batch(committed[-1]).text()


def back_up(checkpoint: Checkpoint, name: str, disk: CheckpointDisk) -> Path:
    """Copy both logs and the query's id into a folder of the checkpoint; return the folder."""
    folder = checkpoint.folder / BACKUPS / name
    for log, numbers in (("offsets", checkpoint.planned()), ("commits", checkpoint.committed())):
        for number in numbers:
            disk.copy(checkpoint.folder / log / str(number), folder / log / str(number))
    if (checkpoint.folder / "metadata").is_file():
        disk.copy(checkpoint.folder / "metadata", folder / "metadata")
    return folder


def reset(checkpoint: Checkpoint, ends: Mapping[int, Offsets], disk: CheckpointDisk) -> int:
    """Move sources of a query to other positions; return the number of the batch that says so.

    Args:
        ends: the new positions of sources, by the number of the source.

    Raises:
        CheckpointError: as `check_resettable`; or the query planned a batch meanwhile, and nothing
            was changed.
    """
    last = check_resettable(checkpoint)
    committed = checkpoint.committed()[-1]
    number = committed + 1
    offsets, commits = checkpoint.folder / "offsets", checkpoint.folder / "commits"
    if last.number == committed:
        disk.remove(offsets / f".{number}.crc")  # of a file that is gone
        if not disk.create(offsets / str(number), last.text()):
            raise _runs(checkpoint, number)
    disk.remove(commits / f".{number}.crc")
    if not disk.create(commits / str(number), checkpoint.commit(committed)):
        raise _runs(checkpoint, number)
    if (planned := checkpoint.planned()[-1]) != number:
        raise _runs(checkpoint, planned)
    disk.replace(offsets / str(number), last.ending_at(number, dict(ends)).text())
    return number


def _runs(checkpoint: Checkpoint, number: int) -> CheckpointError:
    return CheckpointError(
        f"the query of '{checkpoint.folder}' runs: it has just worked on batch {number}. Its "
        "positions are as they were.",
        "Stop it, and try again.",
    )
