"""The look at everything: shared, not more often than needed, whole where something fails."""

from __future__ import annotations

import asyncio

from jetstream_console.asking.api import Api
from jetstream_console.asking.overview import Overview


def test_a_look_serves_all_who_want_one_and_grows_old(run, connected, name):
    async def work():
        async with connected() as world:
            now = [1000.0]
            overview = Overview(world.api, world.console.monitor, lambda: now[0])
            first, second = await asyncio.gather(overview.refresh(), overview.refresh())
            assert first is second and first.words == ()
            await world.stream(name, [b""] * 20)
            now[0] += 1
            assert await overview.refresh() is first
            now[0] += 4
            look = await overview.refresh()
            assert look.streams.messages == first.streams.messages + 20
            assert look.account.total.streams == first.account.total.streams + 1
            assert look.vitals.in_messages > first.vitals.in_messages
            assert overview.samples.latest_rate("stored") == 4.0
            assert overview.samples.latest_rate("in_messages") > 4.0
            now[0] -= 100_000
            assert await overview.refresh() is not look

    run(work())


def test_what_cannot_be_seen_is_said_beside_what_can(run, connected):
    async def work():
        async with connected(user="few") as world:
            look = await world.console.overview.refresh()
            assert look.streams is None and look.vitals is not None
            [words] = look.words
            assert "permissions violation" in words.lower()

    run(work())


def test_looks_become_rarer_where_they_take_long(run, connected):
    async def work():
        async with connected() as world:
            now = [1000.0]

            class Slow:
                async def ask(self, *args):
                    now[0] += 5
                    return await world.api.ask(*args)

                async def ask_all(self, *args):
                    return await Api.ask_all(self, *args)

            overview = Overview(Slow(), None, lambda: now[0])
            look = await overview.refresh()
            assert look.vitals is None and now[0] == 1010
            now[0] += 99
            assert await overview.refresh() is look
            now[0] += 2
            assert await overview.refresh() is not look

    run(work())
