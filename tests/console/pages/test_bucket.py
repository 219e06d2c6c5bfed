"""One bucket, from a browser to both servers: its keys, what comes, and new ones."""

from __future__ import annotations

from typing import Any

from tests import patient_client
from tests.console.conftest import browsing, until


def said(user, marker: str) -> str:
    [label] = user.find(marker).elements
    return label.text


def test_keys_in_pages_with_and_without_deleted_ones(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_key_value(bucket=name, history=3)
            for number in range(55):
                await made.put(f"k.{number}", b"<script>%d</script>" % number)
            await made.delete("k.54")
            await user.open(f"/buckets/{name}")
            await user.should_see("50 keys, there may be more", retries=50)
            await user.should_not_see("New key")
            [table] = user.find("key-table").elements
            assert table.rows[0]["key"] == "k.53"
            assert table.rows[0]["value"] == "<script>53</script>"
            assert table.rows[0]["address"] == f"/buckets/{name}/key?name=k.53"
            user.find("Older").click()
            await until(lambda: said(user, "keys-said") == "4 keys")
            user.find("Older").click()
            await user.should_see("There are none that were written before.", retries=50)
            user.find("shows-gone").click()
            user.find("pattern").clear().type("k.54").trigger("keydown.enter")
            await until(lambda: said(user, "keys-said") == "1 keys")
            [table] = user.find("key-table").elements
            assert table.rows[0]["value"] == "(deleted)"
            user.find("pattern").clear().type("a b").trigger("keydown.enter")
            await user.should_see("is no pattern of keys", retries=50)

    run(work())


def test_what_is_written_is_seen_until_the_bucket_is_gone(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_key_value(bucket=name)
            await made.put("before", b"0")
            await user.open(f"/buckets/{name}")
            await user.should_see("1 keys", retries=50)
            [switch] = user.find("watching").elements
            switch.value = True
            await until(lambda: said(user, "watch-said") == "Watching.")
            await world.client.flush()
            await made.put("a", b"<b>")
            await made.delete("a")
            world.client._transport.write(f"PUB $KV.{name}.".encode() + b"\xff 2\r\nhi\r\n")
            [table] = user.find("watch-table").elements
            await until(lambda: len(table.rows) >= 2)
            await until(lambda: table.rows[0]["key"] == "�")
            assert "revision=" in table.rows[0]["address"]
            assert table.rows[1]["value"] == "(deleted)"
            await world.js.delete_key_value(name)
            await user.should_see("stream not found", retries=50)
            assert not switch.value
            user.find("Show keys").click()
            await user.should_see("stream not found", retries=50)

    run(work())


def refusals(user) -> set:
    try:
        return user.find("refusal").elements
    except AssertionError:
        return set()


def test_a_watch_goes_on_where_it_was_when_its_connection_breaks(run, own_server):
    async def work():
        played: Any = browsing(own_server)
        async with played as (user, world):
            made = await world.js.create_key_value(bucket="B")
            await user.open("/buckets/B")
            await user.should_see("0 keys")
            [switch] = user.find("watching").elements
            switch.value = True
            await until(lambda: said(user, "watch-said") == "Watching.")
            own_server.kill()
            await user.should_see("There is no connection to a server")
            own_server.start()
            client = await patient_client.connect(f"nats://all:all@127.0.0.1:{own_server.port}")
            made = await client.jetstream().key_value("B")
            await made.put("after", b"1")
            [table] = user.find("watch-table").elements
            await until(lambda: [row["key"] for row in table.rows] == ["after"])
            await until(lambda: not any("no connection" in each.text for each in refusals(user)))
            assert switch.value
            await client.close()

    run(work())


def test_a_new_key_is_made_once(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            made = await world.js.create_key_value(bucket=name)
            await user.open(f"/buckets/{name}")
            await user.should_see("new-key", retries=50)
            user.find("new-key").type("a/b")
            user.find("new-value").type("grün")
            user.find("create").click()
            await user.should_see("Written as revision 1:", retries=50)
            assert (await made.get("a/b")).value == "grün".encode()
            user.find("create").click()
            await user.should_see("'a/b' is there already, at revision 1.", retries=50)
            user.find("new-key").clear().type("a b")
            user.find("create").click()
            await user.should_see("cannot be a key", retries=50)

    run(work())


def test_a_bucket_that_is_not_there_is_said_by_the_server(run, browse):
    async def work():
        async with browse() as (user, _):
            for path, words in (("NONE", "stream not found"), ("a.b", "cannot be a name")):
                await user.open(f"/buckets/{path}")
                await user.should_see(words, retries=50)

    run(work())
