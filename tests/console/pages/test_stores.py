"""The table of object stores, as a browser gets it from both servers."""

from __future__ import annotations

from jetstream_console.pages.stores import content_address, object_address

from tests.console.conftest import until


def test_stores_are_listed_and_filtered(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_object_store(name, description="<b>")
            await made.put("a", b"12345")
            await world.stream(f"{name}x")
            await user.open("/stores")
            [table] = user.find("store-table").elements
            await until(lambda: table.rows)
            user.find("filter").type(name)
            [row] = table.rows
            assert (row["name"], row["kind"], row["description"]) == (name, "file", "<b>")
            assert row["bytes"] > 5 and row["address"] == f"/stores/{name}"
        async with browse(user="few") as (user, _):
            await user.open("/stores")
            await user.should_see("ermissions violation for publish", retries=50)

    run(work())


def test_addresses_hold_any_name():
    assert object_address("a/b", "c==") == "/stores/a%2Fb/object?at=c%3D%3D"
    assert content_address("B", "c", "p") == "/stores/B/content?at=c&progress=p"
