"""The table of buckets, as a browser gets it from both servers."""

from __future__ import annotations

from jetstream_console.pages.buckets import bucket_address, key_address
from nats.js.api import StreamConfig

from tests.console.conftest import until


def test_buckets_are_listed_and_filtered(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_key_value(bucket=name, history=2, description="<b>")
            await made.put("a", b"12345")
            await world.js.add_stream(StreamConfig(name=f"{name}x", subjects=[name]))
            await user.open("/buckets")
            [table] = user.find("bucket-table").elements
            await until(lambda: table.rows)
            user.find("filter").type(name)
            [row] = table.rows
            assert (row["name"], row["keys"], row["entries"]) == (name, 1, 1)
            assert (row["history"], row["age"], row["description"]) == (2, "no limit", "<b>")
            assert row["address"] == f"/buckets/{name}"

    run(work())


def test_what_is_forbidden_is_said_in_place(run, browse):
    async def work():
        async with browse(user="few") as (user, _):
            await user.open("/buckets")
            await user.should_see("ermissions violation for publish", retries=50)

    run(work())


def test_addresses_hold_any_name():
    assert bucket_address("a/b?") == "/buckets/a%2Fb%3F"
    assert key_address("B", "a/b&c=d#", 5) == "/buckets/B/key?name=a%2Fb%26c%3Dd%23&revision=5"
