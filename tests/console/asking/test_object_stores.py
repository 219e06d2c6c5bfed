"""Object stores: objects in pages, content with its digest, and what a put leaves behind."""

from __future__ import annotations

import dataclasses
from hashlib import sha256

import pytest
from jetstream_console.asking.errors import AskingError, RefusedError, UnreachableError
from jetstream_console.asking.object_stores import (
    ObjectReader,
    ObjectWriter,
    all_stores,
    place_of,
    store_detail,
)
from nats.js.api import StreamSource

from jetstream_spark.object_info import digest_text, info_subject


async def reader_of(world, name: str) -> ObjectReader:
    return ObjectReader(world.api, await store_detail(world.api, name))


async def writer_of(world, name: str) -> ObjectWriter:
    store = await store_detail(world.api, name)
    return ObjectWriter(world.api, store, world.console.leftovers)


async def in_pieces(content: bytes, size: int = 100_000):
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def read(reader: ObjectReader, name: str) -> bytes:
    found = await reader.find_named(name)
    return b"".join([piece async for piece in reader.content(found.info)])


def test_the_stores_of_an_account_and_their_objects(run, connected, name):
    async def work():
        async with connected() as world:
            made = await world.js.create_object_store(name, description="<b>")
            await world.js.add_stream(name=f"OBJ_{name}m", mirror=StreamSource(name=f"OBJ_{name}"))
            for number in range(55):
                await made.put(f"file {number}/<b>.txt", b"x" * number)
            await made.put("file 3/<b>.txt", b"again")
            await made.delete("file 54/<b>.txt")
            found = await all_stores(world.api)
            rows = [row for row in found.rows if row.name.startswith(name)]
            assert [row.name for row in rows] == [name, f"{name}m"] and found.unseen == 0
            assert (rows[0].description, rows[0].origin, rows[1].origin) == ("<b>", "", name)
            reader = await reader_of(world, name)
            first = await reader.objects(await reader.end())
            assert [each.name for each in first.rows[:2]] == [
                "file 3/<b>.txt",
                "file 53/<b>.txt",
            ]
            assert first.rows[0].info.size == 5 and first.has_more
            second = await reader.objects(first.start)
            names = {each.name for each in (*first.rows, *second.rows)}
            assert len(names) == 54 and len(second.rows) == 4
            page = await reader.objects(await reader.end(), "FILE 54", shows_gone=True)
            assert [each.is_gone for each in page.rows] == [True]
            assert (await reader.find(first.rows[0].place)) == first.rows[0]
            assert await read(reader, "file 3/<b>.txt") == b"again"
            assert await reader.find_named("none") is None
            with pytest.raises(RefusedError, match="mirror"):
                await writer_of(world, f"{name}m")

    run(work())


def test_an_object_is_put_replaced_and_deleted(run, connected, name):
    async def work():
        async with connected() as world:
            made = await world.js.create_object_store(name)
            writer, reader = await writer_of(world, name), await reader_of(world, name)
            content, sent = bytes(range(256)) * 2000, []
            assert await writer.put("a/ü", in_pieces(content), None, sent.append) == ""
            assert sent[-1] == len(content) and sent[0] == 128 << 10
            assert (await made.get("a/ü")).data == content == await read(reader, "a/ü")
            before = await reader.find_named("a/ü")
            await writer.put("a/ü", in_pieces(b"small"), before, sent.append)
            assert (await made.get("a/ü")).data == b"small"
            for change in (
                lambda: writer.put("a/ü", in_pieces(b"late"), before, sent.append),
                lambda: writer.put("a/ü", in_pieces(b"late"), None, sent.append),
                lambda: writer.delete(before),
            ):
                with pytest.raises(RefusedError, match="Somebody has changed 'a/ü' meanwhile"):
                    await change()
            assert (await world.js.stream_info(f"OBJ_{name}")).state.messages == 2
            now = await reader.find_named("a/ü")
            assert await writer.delete(now) == ""
            gone = await reader.find_named("a/ü")
            assert gone.is_gone and (await world.js.stream_info(f"OBJ_{name}")).state.messages == 1
            await writer.put("a/ü", in_pieces(b""), gone, sent.append)
            assert await read(reader, "a/ü") == b""

    run(work())


def test_what_is_stopped_or_fails_leaves_nothing(run, connected, name):
    async def work():
        async with connected() as world:
            await world.js.create_object_store(name)
            writer = await writer_of(world, name)

            async def stopped():
                yield bytes(300_000)
                raise AskingError("It was stopped.")

            with pytest.raises(AskingError, match="stopped"):
                await writer.put("a", stopped(), None, lambda done: None)
            assert (await world.js.stream_info(f"OBJ_{name}")).state.messages == 0
            with pytest.raises(AskingError, match="too long"):
                await writer.put("n" * 5_000, in_pieces(b"x"), None, lambda done: None)
            with pytest.raises(RefusedError, match="has a name"):
                place_of("")
            assert (await world.js.stream_info(f"OBJ_{name}")).state.messages == 0
            await world.js.delete_object_store(name)
            with pytest.raises(UnreachableError, match="Nobody listens"):
                await writer.put("a", in_pieces(b"x"), None, lambda done: None)

    run(work())


def test_a_lost_answer_is_looked_for(run, connected, name):
    async def work():
        async with connected() as world:
            await world.js.create_object_store(name)
            writer, reader = await writer_of(world, name), await reader_of(world, name)
            request = world.console.link.request
            is_sent = True

            async def lost(subject, payload=b"", headers=None):
                if ".M." not in subject or subject.startswith("$JS"):
                    return await request(subject, payload, headers)
                if is_sent:
                    await request(subject, payload, headers)
                raise UnreachableError("There was no answer.")

            world.console.link.request = lost
            assert await writer.put("a", in_pieces(b"there"), None, lambda done: None) == ""
            assert await read(reader, "a") == b"there"
            is_sent = False
            with pytest.raises(UnreachableError, match="is not known; what was sent of it stays"):
                await writer.put("b", in_pieces(b"not"), None, lambda done: None)
            assert (await world.js.stream_info(f"OBJ_{name}")).state.messages == 3

    run(work())


def test_content_that_is_not_what_it_should_be_is_never_whole(run, connected, name):
    async def work():
        async with connected() as world:
            made = await world.js.create_object_store(name)
            reader = await reader_of(world, name)
            content = b"x" * 300_000
            info = await made.put("a", content)
            found = (await reader.find_named("a")).info
            wrong = digest_text(sha256(b"other").digest())
            for bad, words in (
                (dataclasses.replace(found, digest=wrong), "is damaged"),
                (dataclasses.replace(found, size=len(content) + 1), "only 300000 are stored"),
                (dataclasses.replace(found, size=1000), "More is stored than the 1000 bytes"),
            ):
                received = b""
                with pytest.raises(RefusedError, match=words):
                    async for piece in reader.content(bad):
                        received += piece
                assert len(received) < bad.size
            bare = dataclasses.replace(found, digest="")
            assert b"".join([piece async for piece in reader.content(bare)]) == content
            await world.js.publish(f"$O.{name}.C.{info.nuid}", b"more")
            with pytest.raises(RefusedError, match="More is stored"):
                await read(reader, "a")

    run(work())


def test_what_describes_no_object_is_shown_as_such(run, connected, name):
    async def work():
        async with connected() as world:
            await world.js.create_object_store(name)
            await world.js.publish(info_subject(name, "bad"), b'{"name": 7}')
            await world.js.publish(f"$O.{name}.M.not-base64", b"\xff")
            reader = await reader_of(world, name)
            page = await reader.objects(await reader.end())
            odd, bad = page.rows
            assert (odd.info, odd.name, bad.name) == (None, "not-base64", place_of("bad"))
            assert "cannot be read" in bad.words
            with pytest.raises(RefusedError, match="cannot be deleted as an object"):
                await (await writer_of(world, name)).delete(odd)
        async with connected(user="few") as world:
            with pytest.raises(RefusedError, match="ermissions violation"):
                await all_stores(world.api)

    run(work())
