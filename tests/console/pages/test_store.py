"""One object store, from a browser to both servers: objects in pages, and files put into it."""

from __future__ import annotations

import asyncio

from nicegui.elements.upload_files import SmallFileUpload

from tests.console.conftest import until


def said(user, marker: str) -> str:
    [label] = user.find(marker).elements
    return label.text


def test_objects_in_pages_with_and_without_deleted_ones(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_object_store(name)
            for number in range(52):
                await made.put(f"<b>{number}", b"x")
            await made.delete("<b>0")
            await world.js.publish(f"$O.{name}.M.odd", b"<i>")
            await user.open(f"/stores/{name}")
            await user.should_see("50 objects, there may be more", retries=50)
            await user.should_not_see("Upload")
            [table] = user.find("object-table").elements
            assert "cannot be read" in table.rows[0]["what"] and table.rows[0]["size"] is None
            assert (table.rows[1]["name"], table.rows[1]["size"]) == ("<b>51", 1)
            assert table.rows[1]["digest"].startswith("SHA-256=")
            user.find("Older").click()
            await until(lambda: said(user, "objects-said") == "2 objects")
            user.find("shows-gone").click()
            user.find("needle").type("<B>0").trigger("keydown.enter")
            await until(lambda: said(user, "objects-said") == "1 objects")
            [table] = user.find("object-table").elements
            assert table.rows[0]["what"] == "deleted"
            await world.js.delete_object_store(name)
            user.find("Show objects").click()
            await user.should_see("stream not found", retries=50)

    run(work())


def test_a_file_is_put_and_replaces_another_only_by_name(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            made = await world.js.create_object_store(name)
            await user.open(f"/stores/{name}")
            await user.should_see("chosen-file", retries=50)
            [upload] = user.find("chosen-file").elements
            await upload.handle_uploads([SmallFileUpload("a<b>", "", b"1" * 200_000)])
            await user.should_see("done", retries=50)
            assert (await made.get("a<b>")).data == b"1" * 200_000
            await until(lambda: said(user, "progress-said").endswith("That is all."))
            await upload.handle_uploads([SmallFileUpload("a<b>", "", b"2")])
            await user.should_see("confirm-name", retries=50)
            user.find("confirm-name").type("A<b>")
            user.find("Cancel").click()
            await user.should_see("The name was not given.", retries=50)
            assert (await made.get("a<b>")).data == b"1" * 200_000
            await upload.handle_uploads([SmallFileUpload("a<b>", "", b"2")])
            await user.should_see("confirm-name", retries=50)
            user.find("confirm-name").type("a<b>")
            user.find("confirm").click()
            await user.should_see("done", retries=50)
            assert (await made.get("a<b>")).data == b"2"

    run(work())


def test_an_upload_is_stopped_by_its_button(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            await world.js.create_object_store(name)
            await user.open(f"/stores/{name}")
            await user.should_see("chosen-file", retries=50)
            request, begun, goes_on = world.console.link.request, asyncio.Event(), asyncio.Event()

            async def slow(subject, payload=b"", headers=None):
                if ".C." in subject and not subject.startswith("$JS"):
                    begun.set()
                    await goes_on.wait()
                return await request(subject, payload, headers)

            world.console.link.request = slow
            [upload] = user.find("chosen-file").elements
            await upload.handle_uploads([SmallFileUpload("a", "", bytes(3 << 20))])
            await begun.wait()
            await upload.handle_uploads([SmallFileUpload("b", "", b"x")])
            await user.should_see("Another file is under way.", retries=50)
            user.find("stop").click()
            goes_on.set()
            await user.should_see("It was stopped.", retries=50)
            assert (await world.js.stream_info(f"OBJ_{name}")).state.messages == 0

    run(work())
