"""Requests of the API, those in pages among them."""

from __future__ import annotations

import pytest
from jetstream_console.asking.answers import texts
from jetstream_console.asking.api import is_absent, token
from jetstream_console.asking.errors import RefusedError, UnreachableError


def test_an_error_of_the_api_is_in_the_words_of_the_server(run, connected):
    async def work():
        async with connected() as world:
            with pytest.raises(RefusedError, match=r"^stream not found$") as caught:
                await world.api.ask("STREAM.INFO.NONE")
            assert is_absent(caught.value)
            assert not is_absent(RefusedError("no", 500))
            assert not is_absent(UnreachableError("no"))

    run(work())


def test_all_pages_are_asked_for_up_to_a_number(run, connected):
    async def work():
        async with connected() as world:
            for number in range(4):
                await world.js.add_stream(name=f"PAGES{number}", subjects=[f"pages.{number}"])
            asked = []
            ask = world.api.ask

            async def in_small_pages(what, body=None):
                asked.append(body["offset"])
                answer = await ask(what, body)
                return answer | {"streams": answer["streams"][:2]}

            world.api.ask = in_small_pages
            wanted = {"subject": "pages.*"}
            size = lambda page: len(texts(page, "streams"))  # noqa: E731
            pages, total = await world.api.ask_all("STREAM.NAMES", wanted, size, 100)
            names = [name for page in pages for name in page["streams"]]
            assert names == [f"PAGES{number}" for number in range(4)]
            assert (total, asked) == (4, [0, 2])
            pages, total = await world.api.ask_all("STREAM.NAMES", wanted, size, 2)
            assert (len(pages), total) == (1, 4)
            for number in range(4):
                await world.js.delete_stream(f"PAGES{number}")

    run(work())


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a\r\nPUB x 0"])
def test_what_cannot_be_a_name_is_not_sent(name):
    with pytest.raises(RefusedError, match="cannot be a name"):
        token(name)
    assert token("ORDERS-1_ü") == "ORDERS-1_ü"
