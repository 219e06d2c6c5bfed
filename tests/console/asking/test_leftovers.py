"""What an upload left behind when the server went away is removed when it is back."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.asking.errors import AskingError, RefusedError, UnreachableError
from jetstream_console.asking.leftovers import KEPT_MAX, Leftovers
from jetstream_console.asking.object_stores import ObjectWriter, store_detail

from tests.console.conftest import until, world_of


class Away:
    """A server that answers once it is back."""

    def __init__(self) -> None:
        self.is_away = True
        self.asked: list[tuple[str, str]] = []

    async def ask(self, what: str, body: dict[str, str]) -> dict[str, int]:
        if self.is_away:
            raise UnreachableError("There is no connection to a server.")
        if "REFUSED" in what:
            raise RefusedError("stream not found")
        self.asked.append((what, body["filter"]))
        return {}


def test_it_is_tried_again_until_there_is_an_answer(run):
    async def work():
        server, sleeps = Away(), []

        async def sleep(seconds):
            sleeps.append(seconds)
            server.is_away = len(sleeps) < 3
            await asyncio.sleep(0)

        left = Leftovers(server, sleep)
        for stream, subject in (("A", "a"), ("REFUSED", "b"), ("B", "c")):
            assert "once there is an answer" in await left.remove(stream, subject)
        await until(lambda: len(server.asked) == 2)
        assert server.asked == [("STREAM.PURGE.A", "a"), ("STREAM.PURGE.B", "c")]
        assert len(sleeps) == 3
        assert await left.remove("A", "d") == ""
        assert await left.remove("REFUSED", "d") == "stream not found"
        server.is_away = True
        assert "once" in await left.remove("A", "e")
        sleeps.clear()
        await until(lambda: server.asked[-1] == ("STREAM.PURGE.A", "e"))
        await left.close()

    run(work())


def test_no_more_is_kept_than_some_and_nothing_once_it_is_closed(run):
    async def work():
        server = Away()
        left = Leftovers(server, lambda seconds: asyncio.sleep(3600))
        for number in range(KEPT_MAX + 5):
            await left.remove("A", str(number))
        assert len(left._kept) == KEPT_MAX
        await left.close()
        assert left._removing.done()

    run(work())


def test_an_upload_that_a_killed_server_cuts_off_leaves_nothing(run, own_server):
    async def work():
        async with world_of(own_server) as world:
            await world.js.create_object_store("FILES")
            store = await store_detail(world.api, "FILES")
            writer = ObjectWriter(world.api, store, world.console.leftovers)

            async def pieces():
                for number in range(100):
                    if number == 5:
                        own_server.kill()
                    yield bytes(128 << 10)

            with pytest.raises(AskingError):
                await writer.put("a", pieces(), None, lambda done: None)
            await asyncio.to_thread(own_server.start)
            await until(lambda: world.console.link.state.is_connected)
            state = (await world.api.ask("STREAM.INFO.OBJ_FILES"))["state"]
            assert state["last_seq"] > 0
            while state["messages"]:
                await asyncio.sleep(0.05)
                state = (await world.api.ask("STREAM.INFO.OBJ_FILES"))["state"]

    run(work())
