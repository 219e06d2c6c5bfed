"""Streams in rows and in detail, on both servers."""

from __future__ import annotations

import pytest
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.streams import (
    all_streams,
    read_stream,
    stream_detail,
    subjects_of,
)
from nats.js.api import RetentionPolicy, StorageType, StreamSource


def test_a_stream_is_a_row(run, connected, name):
    async def work():
        async with connected() as world:
            given = {"storage": StorageType.MEMORY, "retention": RetentionPolicy.INTEREST}
            await world.stream(name, **given, description="<b>what</b>")
            await world.js.add_consumer(name, durable_name="C")
            for subject in "abb":
                await world.js.publish(f"{name}.{subject}", b"12345")
            streams = await all_streams(world.api)
            [row] = [each for each in streams.rows if each.name == name]
            assert (row.storage, row.retention, row.replicas) == ("memory", "interest", 1)
            assert (row.subjects, row.description) == ((f"{name}.>",), "<b>what</b>")
            assert (row.messages, row.first_sequence, row.last_sequence) == (3, 1, 3)
            assert (row.subject_count, row.consumer_count, row.deleted) == (2, 1, 0)
            assert row.bytes > 15 and row.created < row.last_time
            assert streams.total == len(streams.rows) and streams.missing == ()
            assert streams.messages >= 3 and streams.bytes >= row.bytes
            assert streams.consumer_count >= 1
            assert list(streams.rows) == sorted(streams.rows, key=lambda each: each.name)

    run(work())


def test_a_mirror_and_sources_tell_of_what_they_copy(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"1", b"2"])
            mirror = StreamSource(name=name)
            await world.js.add_stream(name=f"{name}M", mirror=mirror)
            await world.js.add_stream(name=f"{name}T", subjects=[], sources=[mirror])
            mirrored = copied = None
            while not (mirrored and mirrored.stream.messages == 2 and mirrored.mirror.lag == 0):
                mirrored = await stream_detail(world.api, f"{name}M")
            while not (copied and copied.stream.messages == 2):
                copied = await stream_detail(world.api, f"{name}T")
            assert (mirrored.mirror.name, mirrored.mirror.words) == (name, "")
            assert mirrored.stream.origin == name and mirrored.sources == ()
            assert copied.mirror is None and copied.stream.source_count == 1
            assert [each.name for each in copied.sources] == [name]
            assert copied.config["name"] == f"{name}T"

    run(work())


def test_subjects_are_counted_under_a_pattern(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name)
            for subject in ("a.x", "a.y", "a.y", "b"):
                await world.js.publish(f"{name}.{subject}", b"")
            found = await subjects_of(world.api, name)
            assert found.counts == {f"{name}.a.x": 1, f"{name}.a.y": 2, f"{name}.b": 1}
            assert found.total == 3
            found = await subjects_of(world.api, name, f"{name}.a.*")
            assert set(found.counts) == {f"{name}.a.x", f"{name}.a.y"}
            assert (await subjects_of(world.api, name, "nothing")).counts == {}
            await world.js.purge_stream(name)
            empty = await stream_detail(world.api, name)
            assert empty.first_time is None

    run(work())


def test_a_stream_that_is_not_there(run, connected):
    async def work():
        async with connected() as world:
            with pytest.raises(RefusedError, match=r"^stream not found$"):
                await stream_detail(world.api, "NONE")
            with pytest.raises(RefusedError, match=r"^stream not found$"):
                await subjects_of(world.api, "NONE")

    run(work())


def test_a_stream_of_which_nothing_is_said_is_a_row_as_well():
    assert read_stream({}).name == "" and read_stream({"state": 3}).messages == 0


def test_replicas_begin_with_the_leader(run):
    cluster = {
        "leader": "A",
        "replicas": [
            {"name": "B", "current": True, "lag": 3},
            {"name": "C", "current": False, "offline": True},
        ],
    }

    class Played:
        async def ask(self, what):
            return {"cluster": cluster}

    async def work():
        replicas = (await stream_detail(Played(), "S")).replicas
        assert [(each.name, each.is_leader) for each in replicas] == [
            ("A", True),
            ("B", False),
            ("C", False),
        ]
        assert [(each.is_current, each.is_offline, each.lag) for each in replicas] == [
            (True, False, 0),
            (True, False, 3),
            (False, True, 0),
        ]

    run(work())
