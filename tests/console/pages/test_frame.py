"""Each page while the server is away: it says so in place, and comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jetstream_console.asking import link
from jetstream_console.asking import overview as looks
from jetstream_console.asking.errors import RefusedError, UnansweredError, UnreachableError
from jetstream_console.asking.object_stores import place_of
from jetstream_console.pages import consumer, frame, overview, queries
from jetstream_console.pages.frame import RefusalRow, answered, load
from nicegui import ui
from nicegui.testing import user_simulation

from tests import patient_client
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
    client = await patient_client.connect(f"nats://all:all@127.0.0.1:{port}")
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


@pytest.mark.parametrize("is_writable", [False, True])
def test_every_page_leads_to_the_others_and_says_when_it_changes_nothing(
    run: Callable[..., None], bundled_server: Served, is_writable: bool
) -> None:
    async def work() -> None:
        async with browsing(bundled_server, is_writable=is_writable) as (user, _):
            await user.open("/stores")
            links = {each.props["href"] for each in user.find(kind=ui.link).elements}
            pages = {path for path in PAGES if path.count("/") == 1}
            assert links == pages | ({"/publish"} if is_writable else set())
            sees = user.should_not_see if is_writable else user.should_see
            await sees("Read only; --writable allows changes.")

    run(work())


async def number() -> int:
    return 5


async def refused(error: Exception) -> int:
    raise error


def test_a_refusal_stays_beside_what_is_there_or_takes_its_place(run: Callable[..., None]) -> None:
    async def work() -> None:
        async with user_simulation(lambda: None) as user:
            places: list[ui.column] = []

            @ui.page("/")
            def page() -> None:
                with ui.column() as place:
                    ui.label("here")
                places.append(place)

            await user.open("/")
            [place] = places

            def said() -> list[str]:
                return [each.words if isinstance(each, RefusalRow) else "here" for each in place]

            assert await answered(place, number()) == 5
            for at in (1, 2):
                assert await answered(place, refused(RefusedError("no"))) is None
                assert said() == ["here"] + ["no"] * at
            assert await answered(place, refused(RefusedError("no")), clears=True) is None
            assert said() == ["no"]
            [row] = place
            await answered(place, refused(RefusedError("no")), clears=True)
            assert list(place) == [row], "what was read out is read out again"
            await answered(place, refused(RefusedError("never")), clears=True)
            assert said() == ["never"]
            assert await answered(place, number()) == 5 and said() == ["never"]
            assert await answered(place, number(), clears=True) == 5 and said() == []

    run(work())


def test_a_change_without_an_answer_may_have_been_made(run: Callable[..., None]) -> None:
    async def work() -> None:
        async with user_simulation(lambda: None) as user:
            places: list[ui.column] = []
            ui.page("/")(lambda: places.append(ui.column()))
            await user.open("/")
            [place] = places
            for error, changes in (
                (UnansweredError("late"), False),
                (UnansweredError("late"), True),
                (RefusedError("no"), True),
            ):
                await answered(place, refused(error), changes=changes)
            words = [each.words for each in place if isinstance(each, RefusalRow)]
            unknown = "late Whether it was done is not known: look before you do it again."
            assert words == ["late", unknown, "no"]

    run(work())


def test_a_place_is_filled_again_until_there_is_a_server_and_not_after_that(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "_AGAIN_S", 0.01)
    filled: list[int | None] = []
    ticks: list[int] = []
    places: list[ui.column] = []

    async def work() -> None:
        async with user_simulation(lambda: None) as user:

            @ui.page("/")
            def page() -> None:
                words = ui.column()
                places.append(ui.column())

                async def fill() -> None:
                    asked = number() if len(filled) > 1 else refused(UnreachableError("away"))
                    filled.append(await answered(words, asked, clears=True))

                load(places[0], fill)
                ui.timer(0.01, lambda: ticks.append(len(filled)))

            await user.open("/")
            await until(lambda: ticks.count(3) == 5)
            assert filled == [None, None, 5]
            assert list(places[0]) == [], "something is still coming"

    run(work())
