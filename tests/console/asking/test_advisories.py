"""Advisories: they come live, in floods, and may say anything."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.asking.advisories import (
    DEEDS,
    KEPT_MAX,
    REQUESTS,
    Advisories,
    Advisory,
    read_advisory,
)
from jetstream_console.asking.errors import RefusedError


def test_what_happens_is_told_until_it_is_closed(run, connected, name):
    async def work():
        async with connected() as world:
            advisories = Advisories(world.console.link)
            await advisories.open((DEEDS,))
            await world.stream(name)
            await world.js.add_consumer(name, durable_name="C", ack_policy="explicit")
            await world.js.delete_consumer(name, "C")

            # The server tells as well what other tests have left to it.
            def own() -> list[Advisory]:
                return [each for each in advisories.newest() if each.about.startswith(name)]

            while len(own()) < 3:
                await asyncio.sleep(0.005)
            found = own()
            assert [(each.kind, each.about, each.words) for each in reversed(found)] == [
                ("stream_action", name, "create"),
                ("consumer_action", f"{name} > C", "create"),
                ("consumer_action", f"{name} > C", "delete"),
            ]
            assert found[0].time is not None and found[0].content["action"] == "delete"
            newest = advisories.newest()[0].number
            assert advisories.newest(after=newest) == []
            await advisories.open((REQUESTS,))
            await world.console.api.ask("INFO")
            while not (found := advisories.newest(after=newest)):
                await asyncio.sleep(0.005)
            assert [(each.kind, each.words) for each in found] == [("api_audit", "$JS.API.INFO")]
            assert advisories.is_open
            await advisories.close()
            count = advisories.count
            # Not before: the genuine server tells of it nearly always, but not always.
            await world.js.delete_stream(name)
            await world.stream(name)
            await world.client.flush()
            await world.console.link.client.flush()
            assert advisories.count == count and not advisories.is_open
        async with connected(user="few") as world:
            advisories = Advisories(world.console.link)
            with pytest.raises(RefusedError, match="for subscription to"):
                await advisories.open((DEEDS,))
            assert not advisories.is_open

    run(work())


def test_a_flood_costs_what_is_kept(run, connected):
    async def work():
        async with connected() as world:
            advisories = Advisories(world.console.link)
            await advisories.open((DEEDS,))
            for _ in range(3 * KEPT_MAX):
                await world.client.publish("$JS.EVENT.ADVISORY.X.Y", b"{}")
            while advisories.count < 3 * KEPT_MAX:
                await asyncio.sleep(0.005)
            count = advisories.count
            found = advisories.newest()
            assert [each.number for each in found] == [*range(count, count - KEPT_MAX, -1)]
            await advisories.close()

    run(work())


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "no JSON object"),
        (b"\xff", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"{" + b" " * (1 << 20), "too large"),
        (b'{"type": 7, "stream": [], "bytes": true, "paused": "x", "reason": "<b>"}', "<b>"),
        (b'{"error": {"description": "mine"}}', "mine"),
        (b'{"stream_seq": 5, "deliveries": 3, "paused": true}', "sequence 5, deliveries 3, paused"),
    ],
    ids=range(7),
)
def test_what_anybody_may_publish_is_read(payload, words):
    found = read_advisory(1, "$JS.EVENT.ADVISORY.X", payload)
    assert words in found.words and found.time is None


def test_who_asks_twice_at_once_hears_each_of_them_once(run, connected, name):
    async def work():
        async with connected() as world:
            advisories = Advisories(world.console.link)
            begin = (advisories.open((DEEDS, REQUESTS)) for _ in range(3))
            opening = asyncio.gather(*begin)
            await asyncio.sleep(0)
            assert advisories.is_changing
            await opening
            assert not advisories.is_changing
            client = world.console.link.client
            # Of the client itself there is none yet: nobody has asked for an answer.
            assert sorted(each.subject for each in client._subs.values()) == [DEEDS, REQUESTS]
            await asyncio.gather(advisories.open((DEEDS,)), advisories.close())
            assert not advisories.is_open and not client._subs

    run(work())
