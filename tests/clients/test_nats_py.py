"""nats-py, unchanged, as a client of the server: what it offers works as on the genuine one."""

from __future__ import annotations

import asyncio

import nats.errors
import nats.js.errors
import pytest
from nats.js import api


def test_core_publish_subscribe_request(run):
    async def session(client):
        got = await client.subscribe("greet.*")
        await client.publish("greet.ann", b"hello", headers={"A": "b"})
        message = await got.next_msg(20)
        assert (message.subject, message.data, message.headers) == (
            "greet.ann",
            b"hello",
            {"A": "b"},
        )

        async def answer(request):
            await request.respond(b"re:" + request.data)

        await client.subscribe("service", queue="q", cb=answer)
        assert (await client.request("service", b"1", timeout=20)).data == b"re:1"
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("nobody", b"", timeout=20)
        await got.unsubscribe(limit=2)
        await client.publish("greet.bob", b"2")
        await client.publish("greet.eve", b"3")
        assert (await got.next_msg(20)).data == b"2"
        await client.flush()

    run(session)


def test_publish_and_fetch(run):
    async def session(client):
        js = client.jetstream()
        await js.add_stream(name="ORDERS", subjects=["orders.*"])
        acks = await asyncio.gather(*(js.publish(f"orders.{n}", b"%d" % n) for n in range(200)))
        assert sorted(ack.seq for ack in acks) == list(range(1, 201))
        again = await js.publish("orders.1", b"x", headers={"Nats-Msg-Id": "a"})
        duplicate = await js.publish("orders.1", b"x", headers={"Nats-Msg-Id": "a"})
        assert (duplicate.seq, duplicate.duplicate) == (again.seq, True)
        with pytest.raises(nats.js.errors.APIError) as refused:
            await js.publish("orders.1", b"", headers={"Nats-Expected-Last-Sequence": "7"})
        assert refused.value.err_code == 10071
        puller = await js.pull_subscribe("orders.*", "worker")
        seen = []
        while len(seen) < 201:
            # Not for more than there are, or it would wait for them.
            for message in await puller.fetch(min(50, 201 - len(seen)), timeout=60):
                seen.append(message.metadata.sequence.stream)
                await message.ack_sync()
        assert seen == list(range(1, 202))
        with pytest.raises(nats.errors.TimeoutError):
            await puller.fetch(1, timeout=0.3)
        info = await js.consumer_info("ORDERS", "worker")
        assert (info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq) == (0, 0, 201)

    run(session)


def test_nak_term_and_redelivery(run):
    async def session(client):
        js = client.jetstream()
        await js.add_stream(name="W", subjects=["w"], retention=api.RetentionPolicy.WORK_QUEUE)
        for n in range(3):
            await js.publish("w", b"%d" % n)
        puller = await js.pull_subscribe("w", "d", config=api.ConsumerConfig(ack_wait=30))
        first, second, third = await puller.fetch(3, timeout=20)
        await first.nak()
        await second.term()
        await third.in_progress()
        (again,) = await puller.fetch(1, timeout=20)
        assert (again.data, again.metadata.num_delivered) == (b"0", 2)
        await again.ack_sync()
        await third.ack_sync()
        assert (await js.stream_info("W")).state.messages == 0

    run(session)


def test_push_and_ordered_consumers(run):
    async def session(client):
        js = client.jetstream()
        await js.add_stream(name="P", subjects=["p.>"])
        for n in range(300):
            await js.publish("p.x", b"%d" % n)
        pushed = await js.subscribe("p.>", durable="push", manual_ack=True)
        for n in range(300):
            message = await pushed.next_msg(20)
            assert message.data == b"%d" % n
            await message.ack()
        ordered = await js.subscribe("p.>", ordered_consumer=True)
        assert [int((await ordered.next_msg(20)).data) for _ in range(300)] == list(range(300))

    run(session)


def test_stream_management(run):
    async def session(client):
        js = client.jetstream()
        config = api.StreamConfig(name="M", subjects=["m.*"], max_msgs=5)
        info = await js.add_stream(config)
        assert info.config.max_msgs == 5
        for n in range(8):
            await js.publish(f"m.{n % 2}", b"%d" % n)
        info = await js.stream_info("M", subjects_filter=">")
        assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (5, 4, 8)
        assert info.state.subjects == {"m.0": 2, "m.1": 3}
        assert (await js.get_msg("M", 5)).data == b"4"
        assert (await js.get_last_msg("M", "m.0")).data == b"6"
        await js.delete_msg("M", 6)
        with pytest.raises(nats.js.errors.NotFoundError):
            await js.get_msg("M", 6)
        await js.purge_stream("M", subject="m.1")
        assert (await js.stream_info("M")).state.messages == 2
        await js.update_stream(config.evolve(max_msgs=10))
        assert (await js.stream_info("M")).config.max_msgs == 10
        with pytest.raises(nats.js.errors.BadRequestError):
            await js.add_stream(name="N", subjects=["m.1"])
        assert await js.delete_stream("M")

    run(session)


def test_drain_delivers_and_closes(run):
    async def session(client):
        got = await client.subscribe("a")
        await client.publish("a", b"1")
        assert (await got.next_msg(20)).data == b"1"
        await client.drain()

    run_ignoring_close(run, session)


def run_ignoring_close(run, session):
    """A drained client is closed; the clean-up that follows cannot use it."""
    with pytest.raises(nats.errors.ConnectionClosedError):
        run(session)
