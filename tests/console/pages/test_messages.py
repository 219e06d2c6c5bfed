"""Messages, as a browser gets them from both servers."""

from __future__ import annotations

import asyncio
import json

from tests.console.conftest import until

EVIL = b'{"text": "<script>alert(1)</script>", "n": 1}'


def said(user, marker: str) -> str:
    [label] = user.find(marker).elements
    return label.text


def choose(user, marker: str, value: str) -> None:
    [element] = user.find(marker).elements
    element.value = value


def sequences(user) -> list[int]:
    """Return which messages are shown, from the top down."""
    lines = sorted(user.find(marker="message").elements, key=lambda each: each.id)
    return [int(each.text.partition(" ")[0]) for each in lines]


def test_the_newest_is_at_the_top_unless_somebody_begins_elsewhere(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"x"] * 60)
            await user.open(f"/streams/{name}/messages")
            await user.should_see("50 messages, 11 to 60")
            assert sequences(user) == [*range(60, 10, -1)]
            user.find("Older").click()
            await user.should_see("10 messages, 1 to 10")
            assert sequences(user) == [*range(10, 0, -1)]
            choose(user, "start", "oldest")
            user.find("Show").click()
            await user.should_see("50 messages, 1 to 50")
            assert sequences(user) == [*range(1, 51)]
            user.find("Newer").click()
            await user.should_see("10 messages, 51 to 60")
            assert sequences(user) == [*range(51, 61)]

    run(work())


def test_pages_are_turned_both_ways(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"%d" % number for number in range(1, 121)])
            await user.open(f"/streams/{name}/messages")
            await user.should_see("50 messages, 71 to 120", retries=50)
            user.find("Older").click()
            await user.should_see("50 messages, 21 to 70", retries=50)
            user.find("Older").click()
            await user.should_see("20 messages, 1 to 20", retries=50)
            user.find("Older").click()
            await user.should_see("There are none before.", retries=50)
            user.find("Newer").click()
            await user.should_see("50 messages, 21 to 70", retries=50)
            await world.js.publish(f"{name}.b", b"b")
            for start, value, words in (
                ("oldest", "", "50 messages, 1 to 50"),
                ("sequence", "119", "3 messages, 119 to 121"),
                ("last", f"{name}.b", "1 messages, 121 to 121"),
                ("time", "2026-01-01", "50 messages, 1 to 50"),
                ("time", "2999-01-01T00:00:00", "There are none."),
            ):
                choose(user, "start", start)
                user.find("value").clear().type(value).trigger("keydown.enter")
                await user.should_see(words, retries=50)
            for start, words in (("sequence", "is no sequence"), ("time", "is no time")):
                choose(user, "start", start)
                user.find("value").clear().type("<b>").trigger("keydown.enter")
                await user.should_see(f"'<b>' {words}", retries=50)
            choose(user, "start", "newest")
            user.find("read-subjects").clear().type(f"{name}.b").trigger("keydown.enter")
            await user.should_see("1 messages, 121 to 121", retries=50)

    run(work())


def test_a_message_opens_with_headers_json_text_hex_and_a_download(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name)
            await world.js.publish(f"{name}.<b>", EVIL, headers={"Evil": "<i>"})
            await world.js.publish(f"{name}.a", b"\xff\x00" * 100_000)
            await user.open(f"/streams/{name}/messages")
            await user.should_see("2 messages, 1 to 2", retries=50)
            for line in sorted(user.find("message").elements, key=lambda each: each.text):
                line.value = True
            await user.should_see("as-json", retries=50)
            await user.should_see("<i>")
            [structured] = user.find("as-json").elements
            assert structured.text.startswith('{\n  "text": "<script>')
            assert any(
                each.text.startswith("00000000  ff 00") for each in user.find("as-hex").elements
            )
            await user.should_see("The first 64.0 KiB of 195.3 KiB.")
            first = min(each.props["href"] for each in user.find("download").elements)
            answer = await user.http_client.get(first)
            assert answer.content == EVIL
            assert answer.headers["content-disposition"] == f'attachment; filename="{name}-1.bin"'
            assert answer.headers["content-security-policy"] == "sandbox"
            absent = await user.http_client.get(f"/streams/{name}/messages/9/payload")
            assert (absent.status_code, absent.text) == (404, "no message found")

    run(work())


def test_each_header_of_a_name_is_shown(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name)
            block = b"NATS/1.0\r\nTwice: first\r\nTwice: second\r\n\r\n"
            line = f"HPUB {name}.a {len(block)} {len(block)}\r\n".encode()
            world.client._transport.write(line + block + b"\r\n")
            await world.settle()
            await user.open(f"/streams/{name}/messages")
            await user.should_see("1 messages, 1 to 1")
            [message] = user.find(marker="message").elements
            message.value = True
            await user.should_see("first")
            await user.should_see("second")

    run(work())


def test_ten_megabytes_are_shown_cut_and_saved_whole(run, browse, name):
    async def work():
        async with browse() as (user, world):
            large = b'{"text": "' + b"<b>" * 3_500_000 + b'"}'
            await world.stream(name)
            for _ in range(3):
                await world.js.publish(f"{name}.a", large, timeout=30)
            await user.open(f"/streams/{name}/messages")
            # A page holds eight mebibytes and one more message: the newest, or the newest two.
            await until(lambda: said(user, "page-said"))
            assert said(user, "page-said") in ("1 messages, 3 to 3", "2 messages, 2 to 3")
            for line in user.find("message").elements:
                line.value = True
            await user.should_see("The first 64.0 KiB of 10.0 MiB.")
            [*texts] = user.find("as-text").elements
            assert all(len(each.text) == 64 << 10 for each in texts)
            with user:
                written = json.dumps([each._to_dict() for each in user.client.elements.values()])
            assert len(written) < (1 + len(texts)) * (256 << 10)
            [*links] = user.find("download").elements
            answer = await user.http_client.get(links[-1].props["href"])
            assert answer.content == large

    run(work())


def test_a_search_shows_what_it_finds(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"x%d" % number for number in range(300)])
            await user.open(f"/streams/{name}/messages")
            user.find("needle").type("X29")
            user.find("begin-search").click()
            await user.should_see("11 found among 300. That is all.", retries=100)
            [bar] = user.find("progress").elements
            assert bar.value == 1
            [begin], [end] = (user.find(f"{each}-search").elements for each in ("begin", "end"))
            await until(lambda: begin.enabled)
            assert not end.enabled

    run(work())


def test_a_search_is_stopped_by_its_button_and_by_a_tab_that_is_closed(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"x"] * 300)
            asked = []
            ask = world.api.ask

            async def slow(what, body=None):
                asked.append(what)
                if (body or {}).get("seq", 0) > 260:
                    await asyncio.sleep(3600)
                return await ask(what, body)

            for end in ("button", "tab"):
                await user.open(f"/streams/{name}/messages")
                await user.should_see("50 messages", retries=50)
                world.api.ask = slow
                user.find("needle").clear().type("y")
                user.find("begin-search").click()
                await until(lambda: "among 256" in said(user, "search-said"))
                if end == "button":
                    user.find("end-search").click()
                    await user.should_see("among 256. Stopped.", retries=50)
                else:
                    for handler in user.client.disconnect_handlers:
                        user.client.safe_invoke(handler)
                    await until(lambda: "Stopped" in said(user, "search-said"))
                world.api.ask = ask
                before = len(asked)
                await asyncio.sleep(0.02)
                assert len(asked) == before

    run(work())


def test_what_is_not_there_or_not_allowed_is_said_in_place(run, browse, name):
    async def work():
        async with browse(user="few") as (user, world):
            await world.stream(name, [b"x"])
            await user.open("/streams/NONE/messages")
            await user.should_see("stream not found", retries=50)
            await user.open("/streams/a.b/messages")
            await user.should_see("cannot be a name", retries=50)
            await user.open(f"/streams/{name}/messages")
            await user.should_see("ermissions violation for publish", retries=50)

    run(work())
