"""What a checkpoint's folder says, and what is no checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetstream_spark.command.checkpoint import Checkpoint, CheckpointError, find_checkpoints
from tests.connector.command.conftest import CREATED, line


def test_batches_and_commits_are_numbers_in_order(checkpoint):
    for number in (8, 9, 10):
        checkpoint.add(number, line(A=number), is_committed=number < 10)
    (checkpoint.folder / "offsets" / ".11.f00.tmp").write_text("half")
    (checkpoint.folder / "offsets" / ("9" * 5000)[:200]).write_text("no number of Spark's")
    found = Checkpoint(str(checkpoint.folder))
    assert (found.planned(), found.committed()) == ([8, 9, 10], [8, 9])
    assert found.query_id == "3baeea2d-6e28-43be-84ad-7746d4d4b18a"


def test_only_lines_of_ours_are_positions(checkpoint):
    kafka = '{"topic":{"0":17}}'
    checkpoint.add(0, kafka, line(A=3, B=9), "-", "7")
    batch = Checkpoint(checkpoint.folder.as_uri()).batch(0)
    assert list(batch.offsets) == [1]
    assert batch.offsets[1].streams["B"].next == 9
    assert batch.session["batchTimestampMs"] == 1795392108000


def test_a_line_from_before_tasks_and_subjects_were_noted_is_a_position(checkpoint):
    checkpoint.add(0, json.dumps({"v": 1, "streams": {"A": {"created": CREATED, "next": 3}}}))
    assert Checkpoint(str(checkpoint.folder)).batch(0).offsets[0].streams["A"].next == 3


def test_a_batch_is_written_as_it_was_read(checkpoint):
    checkpoint.add(0, line(A=3), "-")
    batch = Checkpoint(str(checkpoint.folder)).batch(0)
    assert batch.text() == (checkpoint.folder / "offsets/0").read_text()
    moved = batch.ending_at(1, {0: batch.offsets[0]})
    assert moved.text() == batch.text()


@contextlib.contextmanager
def closed(folder: Path) -> Iterator[None]:
    """A folder that this user may not look into; root becomes another one for the while."""
    folder.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def test_what_one_may_not_look_into_is_not_said_to_be_no_checkpoint(checkpoint):
    for look in (Checkpoint, find_checkpoints):
        with (
            closed(checkpoint.folder),
            pytest.raises(CheckpointError, match="cannot be looked at") as told,
        ):
            look(str(checkpoint.folder))
        assert "as a user who may read" in told.value.remedy


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no folder '.*/none'"):
        Checkpoint(str(tmp_path / "none"))
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(CheckpointError, match="there is no folder"):
            find_checkpoints(str(tmp_path / name))


@pytest.mark.parametrize("content", ["v2\n{}\n{}", "", "v1\n{}", "v1"])
def test_another_form_is_not_guessed_at(checkpoint, content):
    checkpoint.add(0, line(A=3))
    (checkpoint.folder / "offsets/0").write_text(content)
    with pytest.raises(CheckpointError, match="only the form v1 is known"):
        Checkpoint(str(checkpoint.folder)).batch(0)


def test_a_damaged_head_or_id_says_nothing(checkpoint):
    checkpoint.add(0, line(A=3))
    (checkpoint.folder / "metadata").write_text("[" * 100_000)
    (checkpoint.folder / "offsets/0").write_text("v1\n[" + "[" * 100_000 + "\n" + line(A=3))
    found = Checkpoint(str(checkpoint.folder))
    assert (found.query_id, found.batch(0).session) == ("", {})


def test_elsewhere_or_nowhere(tmp_path):
    with pytest.raises(CheckpointError, match="not on this machine"):
        Checkpoint("s3a://bucket/checkpoint")
    with pytest.raises(CheckpointError, match="no folder 'offsets'"):
        Checkpoint(str(tmp_path))
    (tmp_path / "offsets").mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        Checkpoint(str(tmp_path)).batch(7)


def test_state_is_files_and_not_folders(checkpoint):
    found = Checkpoint(str(checkpoint.folder))
    assert not found.has_state()
    (checkpoint.folder / "state/0/0").mkdir(parents=True)
    assert not found.has_state()
    (checkpoint.folder / "state/0/0/1.delta").touch()
    assert found.has_state()


def test_checkpoints_below_a_folder_are_found(checkpoint, tmp_path):
    checkpoint.add(0, line(A=3))
    [found] = find_checkpoints(str(tmp_path))
    assert found.folder == checkpoint.folder
    [same] = find_checkpoints(str(checkpoint.folder))
    assert same.folder == checkpoint.folder
    with pytest.raises(CheckpointError, match="no checkpoint"):
        find_checkpoints(str(checkpoint.folder / "commits"))


def test_the_newest_file_of_both_logs_tells_the_age(checkpoint):
    assert Checkpoint(str(checkpoint.folder)).changed_ns() == 0
    checkpoint.add(0, line(A=3), age_s=500)
    checkpoint.add(1, line(A=4), is_committed=False, age_s=100)
    newest = (checkpoint.folder / "offsets/1").stat().st_mtime_ns
    assert Checkpoint(str(checkpoint.folder)).changed_ns() == newest
