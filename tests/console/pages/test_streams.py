"""The table of streams, as a browser gets it from both servers."""

from __future__ import annotations

from nicegui import ui

from tests.console.conftest import until

HOSTILE = "<img/src=x>"


def test_streams_are_listed_filtered_and_summed_up(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"12345"] * 3)
            await world.js.add_stream(name=f"{name}X", subjects=[f"other-{name}.{HOSTILE}"])
            await user.open("/streams")
            [table] = user.find(ui.table).elements
            await until(lambda: len(table.rows) >= 2)
            user.find("filter").type(name)
            assert [row["name"] for row in table.rows] == [name, f"{name}X"]
            first, second = table.rows
            assert (first["messages"], first["kind"]) == (3, "file, limits")
            assert first["address"] == f"/streams/{name}"
            assert second["subjects"] == f"other-{name}.{HOSTILE}"
            await user.should_see(f"{3} messages")
            user.find("filter").clear().type(f"other-{name}")
            assert [row["name"] for row in table.rows] == [f"{name}X"]
            await world.js.delete_stream(f"{name}X")
            user.find("Look again").click()
            await until(lambda: not table.rows)

    run(work())


def test_two_browsers_see_what_each_has_asked_for(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name)
            tables = []
            for text in (name, "no such"):
                await user.open("/streams")
                [table] = user.find(ui.table).elements
                await until(lambda table=table: table.rows)  # type: ignore[misc]
                user.find("filter").type(text)
                tables.append(table)
            assert [len(table.rows) for table in tables] == [1, 0]

    run(work())


def test_what_is_forbidden_is_said_in_place(run, browse):
    async def work():
        async with browse(user="few") as (user, _):
            await user.open("/streams")
            await user.should_see(
                'ermissions violation for publish to "$js.api.stream.list"', retries=50
            )

    run(work())
