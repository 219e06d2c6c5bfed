"""Watching a stream: what comes is seen once, in order, and what is too much is passed over."""

from __future__ import annotations

import pytest
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.watch import BEHIND_MAX, Arrivals, Watch


def numbers(arrivals: Arrivals) -> list[int]:
    return [message.sequence for message in arrivals.messages]


def test_what_comes_is_seen_once_whatever_happens_to_the_stream(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"before"])
            watch = Watch(world.api, name, f"{name}.a")
            assert await watch.look() == await watch.look() == Arrivals()
            await world.js.publish(f"{name}.a", b"2")
            await world.js.publish(f"{name}.b", b"3")
            await world.js.publish(f"{name}.a", b"4")
            assert numbers(await watch.look()) == [2, 4]
            assert await watch.look() == Arrivals()
            await world.js.delete_stream(name)
            with pytest.raises(RefusedError, match="stream not found"):
                await watch.look()
            await world.stream(name, [b"1", b"2"])
            again = await watch.look()
            assert again.is_remade and numbers(again) == [1, 2]
            assert await watch.look() == Arrivals()

    run(work())


class PlayedStream:
    payload_max = 1 << 20
    """An API with a stream that has everything up to an end, and sometimes does not answer."""

    def __init__(self):
        self.end = 1
        self.is_silent = False

    async def ask(self, what, body=None):
        if what.startswith("STREAM.INFO"):
            return {"created": "once", "state": {"first_seq": 1, "last_seq": self.end - 1}}
        if self.is_silent:
            raise AskingError("silence")
        if body["seq"] >= self.end:
            raise RefusedError("no message found", 404)
        return {"message": {"seq": body["seq"]}}


def test_a_burst_is_read_in_pieces_and_a_flood_is_passed_over(run):
    async def work():
        stream = PlayedStream()
        watch = Watch(stream, "S")
        await watch.look()
        stream.end, stream.is_silent = 301, True
        with pytest.raises(AskingError, match="silence"):
            await watch.look()
        stream.is_silent = False
        assert numbers(await watch.look()) == [*range(1, 201)]
        assert numbers(await watch.look()) == [*range(201, 301)]
        stream.end = 301 + 10 * BEHIND_MAX
        flood = await watch.look()
        assert flood.skipped == 9 * BEHIND_MAX
        assert numbers(flood)[0] == 301 + 9 * BEHIND_MAX and len(flood.messages) == 200

    run(work())
