"""Positions of queries from their checkpoints, beside streams that are as they were, or are not."""

from __future__ import annotations

import pytest
from jetstream_console.asking.checkpoints import checkpoints_in, read_positions
from jetstream_console.asking.errors import RefusedError

from jetstream_spark.command.checkpoint import Checkpoint
from tests.connector.command.conftest import MadeCheckpoint, line


def test_lag_rate_and_what_is_not_done(run, connected, name, tmp_path):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"x"] * 100)
            created = (await world.api.ask(f"STREAM.INFO.{name}"))["created"]
            made = MadeCheckpoint(tmp_path / "queries" / "one")
            made.add(3, line(created, **{name: 21}), age_s=70)
            made.add(4, line(created, **{name: 61}), age_s=60)
            [row] = await checkpoints_in(world.api, str(tmp_path))
            assert (row.stream, row.batch, row.next, row.lag, row.begun) == (name, 4, 61, 40, None)
            assert row.rate == pytest.approx(4, rel=0.2) and row.words == ""
            assert row.query == "3baeea2d-6e28-43be-84ad-7746d4d4b18a" and row.changed is not None
            made.add(5, line(created, **{name: 90}), is_committed=False)
            await world.js.purge_stream(name, seq=81)
            [row] = await checkpoints_in(world.api, str(tmp_path))
            assert (row.batch, row.begun, row.next, row.lag) == (4, 5, 61, 20)
            assert row.words == ("batch 5 was begun and is not done; 20 sequences are gone unread")
            made.add(5, line(created, **{name: 300}))
            [row] = await checkpoints_in(world.api, str(tmp_path))
            assert (row.lag, row.words) == (None, "the stream ends before, at 101")
            await world.js.delete_stream(name)
            [row] = await checkpoints_in(world.api, str(tmp_path))
            assert (row.lag, row.words) == (None, "the stream does not exist any more")
            await world.stream(name)
            [row] = await checkpoints_in(world.api, str(tmp_path))
            assert (row.lag, row.words) == (None, "the stream was made anew")

    run(work())


def test_what_is_damaged_hides_nothing_else(run, tmp_path):
    class Nobody:
        async def ask(self, what):
            raise RefusedError("no", 503)

    async def work():
        good, bad = MadeCheckpoint(tmp_path / "good"), MadeCheckpoint(tmp_path / "bad")
        good.add(0, line(A=3), '{"topic":{"0":17}}')
        bad.add(0, line(A=3))
        (bad.folder / "offsets/0").write_text("<script>")
        rows = await checkpoints_in(Nobody(), str(tmp_path))
        assert [each.stream for each in rows] == ["", "A"]
        assert "only the form v1 is known" in rows[0].words
        assert (rows[1].words, rows[1].lag) == ("no", None)
        for folder in ("/none", "s3a://bucket/x"):
            with pytest.raises(RefusedError):
                await checkpoints_in(Nobody(), folder)

    run(work())


def test_a_query_that_has_done_nothing_yet(checkpoint_folder):
    made = MadeCheckpoint(checkpoint_folder)
    [row] = read_positions(Checkpoint(str(checkpoint_folder)))
    assert (row.batch, row.begun, row.next, row.changed) == (None, None, None, None)
    made.add(0, line(A=3), is_committed=False)
    [row] = read_positions(Checkpoint(str(checkpoint_folder)))
    assert (row.batch, row.begun, row.stream) == (None, 0, "")
    made.add(0, line("other", A=3))
    made.add(1, line(A=9))
    [row] = read_positions(Checkpoint(str(checkpoint_folder)))
    assert (row.batch, row.next, row.rate) == (1, 9, None)


@pytest.fixture
def checkpoint_folder(tmp_path):
    return tmp_path / "checkpoint"
