"""A reset is there as a whole or not at all, wherever it is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetstream_spark.command.checkpoint import Checkpoint, CheckpointError
from jetstream_spark.command.offset_reset import back_up, check_resettable, reset
from jetstream_spark.command.synced_disk import SyncedDisk
from jetstream_spark.options.offsets import Offsets
from tests.connector.command.conftest import line

ENDS = {1: Offsets.from_json(json.loads(line(A=2, B=9)))}


class KilledError(Exception):
    """The process is no more."""


class DyingDisk:
    """A disk whose user is killed before its n-th change, or in the middle of it."""

    def __init__(self, changes: int) -> None:
        self._left = changes
        self._disk = SyncedDisk()

    def _spend(self) -> None:
        if self._left == 0:
            raise KilledError
        self._left -= 1

    def copy(self, source: Path, target: Path) -> None:
        self._spend()
        self._disk.copy(source, target)

    def create(self, path: Path, content: str) -> bool:
        path.with_name(f".{path.name}.1.reset").write_text(content[:20])  # what it leaves behind
        self._spend()
        return self._disk.create(path, content)

    def replace(self, path: Path, content: str) -> None:
        path.with_name(f".{path.name}.1.reset").write_text(content[:20])
        self._spend()
        self._disk.replace(path, content)

    def remove(self, path: Path) -> None:
        self._spend()
        self._disk.remove(path)


@pytest.fixture
def found(checkpoint) -> Checkpoint:
    checkpoint.add(6, "-", line(A=4, B=9))
    checkpoint.add(7, '{"t":{"0":1}}', line(A=5, B=9))
    return Checkpoint(str(checkpoint.folder))


def standing(found: Checkpoint) -> tuple[int, tuple[str, ...]]:
    """Where Spark goes on: behind the newest batch, which it runs first if it is not committed."""
    planned, committed = found.planned()[-1], found.committed()[-1]
    assert planned - committed in (0, 1)
    if planned > committed:  # what it runs again has no rows
        assert found.batch(planned).sources == found.batch(committed).sources
    return planned, found.batch(planned).sources


def test_it_is_a_batch_of_its_own(found):
    before = {path: path.read_bytes() for path in found.folder.rglob("*") if path.is_file()}
    assert reset(found, ENDS, SyncedDisk()) == 8
    assert (found.planned()[-1], found.committed()[-1]) == (8, 8)
    assert found.batch(8).sources == ('{"t":{"0":1}}', line(A=2, B=9))
    assert found.batch(8).head == found.batch(7).head
    assert found.commit(8) == found.commit(7)
    assert {path: path.read_bytes() for path in before} == before
    assert sorted({*found.folder.rglob("*")} - {*before}) == [
        found.folder / "commits", found.folder / "commits/8",
        found.folder / "offsets", found.folder / "offsets/8",
    ]  # fmt: skip


def test_it_may_be_killed_anywhere_and_done_again(found):
    old, new = found.batch(7).sources, ('{"t":{"0":1}}', line(A=2, B=9))
    for changes in range(20):  # each goes on where the one before was killed
        try:
            reset(found, ENDS, DyingDisk(changes))
        except KilledError:
            assert standing(found)[1] == old
            continue
        break
    assert changes == 3
    assert standing(found) == (8, new)


def test_each_kill_alone_leaves_old_or_new_and_the_next_reset_finishes(checkpoint, found):
    for changes in range(5):
        with pytest.raises(KilledError):
            reset(found, ENDS, DyingDisk(changes))
        standing(found)
        number = reset(found, ENDS, SyncedDisk())
        assert standing(found) == (number, ('{"t":{"0":1}}', line(A=2, B=9)))
        checkpoint.add(number + 1, '{"t":{"0":1}}', line(A=5, B=9))  # the query went on


def test_a_query_that_runs_after_all_is_noticed(checkpoint, found):
    class Racing(DyingDisk):
        def remove(self, path: Path) -> None:
            if path.parent.name == "offsets":
                checkpoint.add(8, "-", line(A=6, B=9), is_committed=False)

    with pytest.raises(CheckpointError, match="just worked on batch 8"):
        reset(found, ENDS, Racing(9))
    assert found.batch(8).sources == ("-", line(A=6, B=9))
    assert found.committed()[-1] == 7


def test_a_query_that_was_started_in_between_is_noticed(checkpoint, found):
    class Racing(DyingDisk):
        def create(self, path: Path, content: str) -> bool:
            made = super().create(path, content)
            if path.parent.name == "commits":
                checkpoint.add(9, "-", line(A=6, B=9), is_committed=False)
            return made

    with pytest.raises(CheckpointError, match="just worked on batch 9"):
        reset(found, ENDS, Racing(9))
    assert found.batch(8).sources == found.batch(7).sources


def test_the_commit_of_a_query_that_ran_the_empty_batch_is_noticed(checkpoint, found):
    with pytest.raises(KilledError):
        reset(found, ENDS, DyingDisk(3))

    class Racing(DyingDisk):
        def remove(self, path: Path) -> None:
            (found.folder / "commits/8").write_text("v1\n{}")

    with pytest.raises(CheckpointError, match="just worked on batch 8"):
        reset(found, ENDS, Racing(9))
    assert found.batch(8).sources == found.batch(7).sources


def test_a_checksum_of_a_file_that_is_gone_does_not_speak_of_ours(found):
    for log in ("offsets", "commits"):
        (found.folder / log / ".8.crc").write_bytes(b"old")
    reset(found, ENDS, SyncedDisk())
    assert not list(found.folder.rglob(".8.crc"))


def test_what_is_refused(checkpoint, found):
    checkpoint.add(8, "-", line(A=6, B=9), is_committed=False)
    with pytest.raises(CheckpointError, match=r"batch 8 of .* is not finished") as told:
        check_resettable(found)
    assert "trigger(availableNow=True)" in told.value.remedy
    checkpoint.add(8, '{"t":{"0":1}}')
    with pytest.raises(CheckpointError, match="reads no JetStream stream"):
        check_resettable(found)
    checkpoint.add(9, line(A=1))
    (found.folder / "state").mkdir()
    (found.folder / "state/0").touch()
    with pytest.raises(CheckpointError, match="keeps state"):
        reset(found, ENDS, SyncedDisk())
    assert found.planned()[-1] == 9


def test_a_query_without_a_batch_has_no_position(checkpoint):
    checkpoint.add(0, line(A=1), is_committed=False)
    with pytest.raises(CheckpointError, match="not finished a batch"):
        check_resettable(Checkpoint(str(checkpoint.folder)))


def test_the_backup_is_a_checkpoint_of_its_own(found):
    kept = Checkpoint(str(back_up(found, "now", SyncedDisk())))
    assert (kept.planned(), kept.committed(), kept.query_id) == ([6, 7], [6, 7], found.query_id)
    assert kept.batch(7).text() == found.batch(7).text()
