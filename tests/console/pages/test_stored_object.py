"""One object, from a browser to both servers: its content as a file, and its end."""

from __future__ import annotations

from jetstream_console.asking.object_stores import place_of

from jetstream_spark.object_info import info_subject
from tests.console.conftest import until


def test_its_content_is_saved_and_watched(run, browse, name):
    async def work():
        async with browse() as (user, world):
            made = await world.js.create_object_store(name)
            content = bytes(range(256)) * 4000
            await made.put("a/<b>", content)
            await user.open(f"/stores/{name}/object?at={place_of('a/<b>')}")
            await user.should_see("a/<b>", retries=50)
            await user.should_not_see("Delete")
            user.find("download").click()
            answer = await user.download.next(timeout=20)
            assert answer.content == content
            assert answer.headers["content-disposition"] == 'attachment; filename="a__b_"'
            assert answer.headers["content-security-policy"] == "sandbox"
            [said] = user.find("progress-said").elements
            await until(lambda: said.text == "1000.0 KiB of 1000.0 KiB. That is all.")
            assert world.console.downloads == {}
            again = await user.http_client.get(f"/stores/{name}/content?at={place_of('a/<b>')}")
            assert again.content == content
            await made.delete("a/<b>")
            for place, words in ((place_of("a/<b>"), "It has no content."), ("none", "no message")):
                absent = await user.http_client.get(f"/stores/{name}/content?at={place}")
                assert absent.status_code == 404 and words in absent.text

    run(work())


def test_what_is_no_object_or_not_there_is_said(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.js.create_object_store(name)
            await world.js.publish(info_subject(name, "bad"), b"<script>")
            for path, words in (
                (f"{name}/object?at={place_of('bad')}", "cannot be read"),
                (f"{name}/object?at=none", "no message found"),
                (f"{name}/object?at=a.b", "cannot be a name"),
                ("NONE/object?at=a", "stream not found"),
            ):
                await user.open(f"/stores/{path}")
                await user.should_see(words, retries=50)

    run(work())


def test_who_deletes_it_writes_its_name(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            made = await world.js.create_object_store(name)
            await made.put("a/<b>", b"x")
            await user.open(f"/stores/{name}/object?at={place_of('a/<b>')}")
            await user.should_see("a/<b>", retries=50)
            user.find(content="Delete").click()
            await user.should_see("confirm-name", retries=50)
            [yes] = user.find("confirm").elements
            assert not yes.enabled
            user.find("confirm-name").type("a/<b>")
            user.find("confirm").click()
            await user.should_see("It was deleted.", retries=50)
            assert (await world.js.stream_info(f"OBJ_{name}")).state.messages == 1

    run(work())
