"""Each page while the server is away: it says so in place, and comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from jetstream_console.asking import link
from jetstream_console.asking import overview as looks
from jetstream_console.asking.object_stores import place_of
from jetstream_console.pages import consumer, frame, overview, queries

from tests.connector.command.conftest import MadeCheckpoint, line
from tests.console.conftest import Served, browsing, until

# Each page, and what it shows of the servers.
PAGES = {
    "/": "no limit",
    "/streams": "3 of 3 streams",
    "/streams/S": "Removed between",
    "/streams/S/messages": "1 messages, 1 to 1",
    "/streams/S/consumers/C": '"durable_name": "C"',
    "/buckets": "1 of 1 buckets",
    "/buckets/B": "1 keys",
    "/buckets/B/key?name=k": "history-table",
    "/stores": "1 of 1 stores",
    "/stores/O": "1 objects",
    f"/stores/O/object?at={place_of('a')}": "7 B, in 1 chunks",
    "/queries": "shop",
    "/connections": "connection-table",
    "/advisories": "0 came",
    "/server": "May publish",
}


async def fill(port: int) -> None:
    """Make something for each page."""
    client = await nats.connect(f"nats://all:all@127.0.0.1:{port}")
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["S.>"])
    await js.publish("S.a", b"x")
    await js.add_consumer("S", durable_name="C")
    await (await js.create_key_value(bucket="B")).put("k", b"value")
    await (await js.create_object_store("O")).put("a", b"content")
    await client.close()


def refusals(user: Any) -> list[str]:
    try:
        return [each.text for each in user.find("refusal").elements]
    except AssertionError:
        return []


async def shown(user: Any, words: str) -> None:
    """Wait for what a page shows, with nothing refused beside it."""
    if words == "shop":
        [table] = user.find("reads").elements
        await until(lambda: [row["lag"] for row in table.rows] == [0])
    else:
        await user.should_see(words)
    await until(lambda: refusals(user) == [])


def test_pages_say_that_the_server_is_away_and_come_back_by_themselves(
    run: Callable[..., None],
    served: Callable[[str], Served],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = served("genuine")
    for where, name, seconds in (
        (frame, "_AGAIN_S", 0.5),
        (overview, "REFRESH_S", 1.0),
        (consumer, "REFRESH_S", 1.0),
        (queries, "REFRESH_S", 1.0),
        (looks, "_EVERY_S", 0.5),
        (link, "_RECONNECT_WAIT_S", 0.1),
    ):
        monkeypatch.setattr(where, name, seconds)

    async def work() -> None:
        settings: dict[str, Any] = {"is_writable": True, "checkpoints": str(tmp_path)}
        async with browsing(server, **settings) as (user, world):
            await fill(server.port)
            created = (await world.api.ask("STREAM.INFO.S"))["created"]
            MadeCheckpoint(tmp_path / "shop").add(0, line(created, S=2))
            pages = {}
            for path, words in PAGES.items():
                pages[path] = await user.open(path)
                await shown(user, words)
            pages["/publish"] = await user.open("/publish")
            server.kill()
            await until(lambda: not world.console.link.state.is_connected)
            for path, client in pages.items():
                user.client = client
                await until(lambda: any("no connection" in each for each in refusals(user)))
                if path == "/publish":
                    user.find("subject").type("S.b")
                    user.find("send").click()
                    await until(lambda: len(refusals(user)) == 2)
            begun = {}
            for path in PAGES:
                begun[path] = await user.open(path)
                # One above all pages, one in place: of the servers, or of their monitoring.
                await until(lambda: len(refusals(user)) >= 2)
            await asyncio.to_thread(server.start)
            for path, words in PAGES.items():
                for user.client in (begun[path], pages[path]):
                    await shown(user, words)
            user.client = pages["/publish"]
            await until(lambda: len(refusals(user)) == 1)
            state = (await world.api.ask("STREAM.INFO.S"))["state"]
            assert state["last_seq"] == 1

    run(work())
