"""Consumers as they are, on both servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from jetstream_console.asking.consumers import (
    consumer_detail,
    consumers_of,
    delete_consumer,
    pause_consumer,
    reset_consumer,
)
from jetstream_console.asking.errors import RefusedError
from nats.js.api import AckPolicy, ConsumerConfig


def test_a_consumer_says_how_far_it_is(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"1", b"2", b"3"])
            config = ConsumerConfig(filter_subject=f"{name}.*", ack_wait=30)
            pull = await world.js.pull_subscribe(f"{name}.*", "PULL", name, config=config)
            # The client may return with fewer than it was asked for, but not with none.
            [first], [_] = await pull.fetch(1, timeout=60), await pull.fetch(1, timeout=60)
            await first.ack_sync()
            push = ConsumerConfig(durable_name="PUSH", deliver_subject="to.nobody")
            push.ack_policy, push.filter_subjects = AckPolicy.NONE, [f"{name}.a", f"{name}.b"]
            await world.js.add_consumer(name, push)
            found = await consumers_of(world.api, name)
            pull_row, push_row = found.rows
            assert (found.total, pull_row.name, push_row.name) == (2, "PULL", "PUSH")
            assert (pull_row.pending, pull_row.unacknowledged, pull_row.redelivered) == (1, 1, 0)
            assert (pull_row.delivered_sequence, pull_row.floor_sequence) == (2, 1)
            assert (pull_row.is_pull, pull_row.is_durable, pull_row.filters) == (
                True,
                True,
                (f"{name}.*",),
            )
            assert pull_row.last_active is not None and pull_row.paused_until is None
            assert (push_row.is_pull, push_row.is_bound, push_row.ack_policy) == (
                False,
                False,
                "none",
            )
            assert push_row.filters == (f"{name}.a", f"{name}.b")
            assert push_row.last_active is None and push_row.config["name"] == "PUSH"

    run(work())


def test_a_stream_that_is_not_there(run, connected):
    async def work():
        async with connected() as world:
            with pytest.raises(RefusedError, match=r"^stream not found$"):
                await consumers_of(world.api, "NONE")

    run(work())


def test_a_consumer_is_paused_resumed_reset_and_deleted(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"1", b"2", b"3"])
            config = ConsumerConfig(durable_name="C", ack_policy=AckPolicy.ALL)
            pull = await world.js.pull_subscribe(f"{name}.a", "C", name, config=config)
            for message in await pull.fetch(3, timeout=60):
                await message.ack_sync()
            until = datetime.now(UTC) + timedelta(hours=1)
            await pause_consumer(world.api, name, "C", until)
            paused = await consumer_detail(world.api, name, "C")
            assert abs(paused.paused_until - until) < timedelta(milliseconds=1)
            await pause_consumer(world.api, name, "C", until - timedelta(hours=2))
            assert (await consumer_detail(world.api, name, "C")).paused_until is None
            assert (await consumer_detail(world.api, name, "C")).floor_sequence == 3
            await reset_consumer(world.api, name, "C", 2)
            again = await consumer_detail(world.api, name, "C")
            assert (again.floor_sequence, again.pending) == (1, 2)
            await delete_consumer(world.api, name, "C")
            with pytest.raises(RefusedError, match=r"^consumer not found$"):
                await consumer_detail(world.api, name, "C")

    run(work())
