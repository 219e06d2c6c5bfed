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
            assert world.console.link._asked == {}

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
