"""One key, from a browser to both servers: what it holds, held, and is changed to."""

from __future__ import annotations

EVIL = b'{"text": "<script>alert(1)</script>"}'


async def confirm(user, written: str) -> None:
    await user.should_see("confirm-name", retries=50)
    user.find("confirm-name").type(written)
    user.find("confirm").click()


def test_its_value_its_history_and_a_download(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_key_value(bucket=name, history=3)
            await made.put("a/b.c", b"first")
            await made.put("a/b.c", EVIL)
            await user.open(f"/buckets/{name}/key?name=a%2Fb.c")
            await user.should_see("history-table", retries=50)
            await user.should_not_see("Edit")
            [structured] = user.find("as-json").elements
            assert structured.text.startswith('{\n  "text": "<script>')
            [table] = user.find("history-table").elements
            assert [(row["revision"], row["what"]) for row in table.rows] == [
                (2, "written"),
                (1, "written"),
            ]
            [link] = user.find("download").elements
            assert (await user.http_client.get(link.props["href"])).content == EVIL
            await user.open(table.rows[1]["address"])
            await user.should_see("first", retries=50)
            for asked, words in (("none", "no message found"), ("a b", "cannot be a key")):
                await user.open(f"/buckets/{name}/key?name={asked}")
                await user.should_see(words, retries=50)

    run(work())


def test_a_change_that_somebody_else_was_quicker_with_is_told_in_place(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            made = await world.js.create_key_value(bucket=name, history=5)
            await made.put("k", b"one\r\n")
            page = f"/buckets/{name}/key?name=k"
            await user.open(page)
            await user.should_see("what is written here replaces it", retries=50)
            user.find("edited").type("mine")
            await made.put("k", b"theirs")
            user.find(content="Update").click()
            await user.should_see("Somebody has changed 'k' after revision 1", retries=50)
            user.find(content="Delete").click()
            await confirm(user, "k")
            await user.should_see("Somebody has changed 'k' after revision 1", retries=50)
            assert (await made.get("k")).value == b"theirs"
            await user.open(page)
            await user.should_see("edited", retries=50)
            [value] = user.find("edited").elements
            assert value.value == "theirs"
            user.find("edited").clear().type("mine")
            user.find(content="Update").click()
            await user.should_see("Written as revision 3.", retries=50)
            assert (await made.get("k")).value == b"mine"

    run(work())


def test_who_destroys_writes_the_name(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            made = await world.js.create_key_value(bucket=name, history=5)
            for button, payload, revision in (
                ("Put", b"old", 2),
                ("Delete", b"2", 4),
                ("Purge", b"3", 6),
            ):
                await made.put("k", payload)
                await user.open(f"/buckets/{name}/key?name=k")
                await user.should_see("edited", retries=50)
                user.find(content=button).click()
                await user.should_see("confirm-name", retries=50)
                user.find("confirm-name").type("K")
                [yes] = user.find("confirm").elements
                assert not yes.enabled
                user.find("confirm-name").clear().type("k")
                user.find("confirm").click()
                await user.should_see(f"Written as revision {revision}.", retries=50)
            assert (await world.js.stream_info(f"KV_{name}")).state.messages == 1

    run(work())
