"""The connection: whose words say what is wrong, and that it comes back."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.asking.errors import RefusedError, UnreachableError
from jetstream_console.asking.link import Link, Target

from tests.console.conftest import world_of


def test_a_server_is_asked_and_known(run, connected, server):
    async def work():
        async with connected() as world:
            state = world.console.link.state
            assert (state.is_connected, state.place) == (True, f"127.0.0.1:{server.port}")
            assert state.server_version and state.max_payload == 8 << 20
            assert b'"streams"' in await world.console.link.request("$JS.API.INFO")

    run(work())


def test_nobody_listens(run, connected):
    async def work():
        async with connected() as world:
            with pytest.raises(UnreachableError, match="Nobody listens to 'nobody'"):
                await world.console.link.request("nobody")
            with pytest.raises(UnreachableError):
                await world.console.link.request("with space")
            with pytest.raises(RefusedError, match="too long"):
                await world.console.link.request("s" * 5_000)
            await world.console.link.request("$JS.API.INFO")
            assert world.console.link._asked == {}
            assert world.console.link.client.stats["reconnects"] == 0

    run(work())


def test_an_answer_that_does_not_come_is_given_up(run, connected):
    async def work():
        async with connected(request_timeout_s=0.05) as world:
            await world.client.subscribe("silent")
            await world.client.flush()
            with pytest.raises(UnreachableError, match=r"no answer within 0.05 s"):
                await world.console.link.request("silent")

    run(work())


def test_what_the_user_may_not_is_said_at_once_in_the_words_of_the_server(run, connected):
    async def work():
        async with connected(user="few", request_timeout_s=50) as world:
            asked = [world.console.link.request("$JS.API.STREAM.LIST") for _ in range(2)]
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(answer, RefusedError)
                assert str(answer).lower() == (
                    'permissions violation for publish to "$js.api.stream.list"'
                )
            assert b'"streams"' in await world.console.link.request("$JS.API.INFO")

    run(work())


def test_a_server_that_goes_away_comes_back(run, own_server):
    async def work():
        async with world_of(own_server) as world:
            link = world.console.link
            own_server.kill()
            while link.state.is_connected:
                await asyncio.sleep(0.01)
            with pytest.raises(UnreachableError, match="no connection to a server"):
                await link.request("$JS.API.INFO")
            await asyncio.to_thread(own_server.start)
            while not link.state.is_connected:
                await asyncio.sleep(0.01)
            assert b'"streams"' in await link.request("$JS.API.INFO")

    run(work())


def test_a_connection_that_the_server_ends_is_made_anew(run, connected, server):
    async def work():
        async with connected() as world:
            link = world.console.link
            first, heard = link.client, []
            listening = await link.listen("news", lambda *each: heard.append(each))
            first._transport.write(b"PUB " + b"s" * 5_000 + b" 0\r\n\r\n")
            while link.client is first or not link.state.is_connected:
                await asyncio.sleep(0.01)
            assert not listening.is_open
            await listening.close()
            assert b'"streams"' in await link.request("$JS.API.INFO")

    run(work())


def test_what_is_listened_to_is_handed_over_until_it_is_closed(run, connected):
    async def work():
        async with connected() as world:
            link, heard = world.console.link, []
            listening = await link.listen("news.*", lambda *each: heard.append(each))
            await world.client.publish("news.a", b"\xff")
            while not heard:
                await asyncio.sleep(0.001)
            assert heard == [("news.a", b"\xff")] and listening.is_open
            await listening.close()
            await listening.close()
            await world.client.publish("news.a", b"late")
            await world.client.flush()
            await link.client.flush()
            assert len(heard) == 1 and not listening.is_open
            with pytest.raises(UnreachableError):
                await link.listen("a b", print)
            await link.close()
            with pytest.raises(UnreachableError, match="no connection"):
                await link.listen("news", print)
        async with connected(user="few") as world:
            with pytest.raises(RefusedError, match='ermissions violation for subscription to "ne'):
                await world.console.link.listen("news.*", print)
            assert world.console.link._asked == {}
            assert b'"streams"' in await world.console.link.request("$JS.API.INFO")

    run(work())


def test_a_server_that_is_not_there_yet_is_waited_for(run):
    async def work():
        link = Link(Target(("nats://127.0.0.1:1",)))
        link.open()
        while "Connect call failed" not in link.state.words:
            await asyncio.sleep(0.01)
        await link.close()

    run(work())


def test_no_place_shows_a_secret():
    target = Target(("nats://me:secret@host:1", "other", "tls://[::1]:2", "nats://x:99999"))
    assert target.places == ("host:1", "other:4222", "[::1]:2", "x:4222")
    assert Target((), domain="hub").api_prefix == "$JS.hub.API"
