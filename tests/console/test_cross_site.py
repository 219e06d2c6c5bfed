"""Pages of other places: they may lead here, and nothing else."""

from __future__ import annotations

import httpx
import pytest
from jetstream_console.cross_site import CrossSite
from starlette.responses import PlainTextResponse

SHOWN = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("method", "headers", "is_let"),
    [
        ("GET", {}, True),
        ("POST", {}, True),
        ("POST", {"Sec-Fetch-Site": "same-origin"}, True),
        ("GET", {"Sec-Fetch-Site": "none"}, True),
        ("GET", SHOWN, True),
        ("POST", SHOWN, False),
        ("GET", SHOWN | {"Sec-Fetch-Dest": "iframe"}, False),
        ("GET", {"Sec-Fetch-Site": "cross-site"}, False),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, False),
        ("GET", {"Sec-Fetch-Site": "something new"}, False),
    ],
)
def test_what_is_let_through(run, method, headers, is_let):
    async def work():
        transport = httpx.ASGITransport(CrossSite(PlainTextResponse("behind")))
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            answer = await client.request(method, "/", headers=headers)
            assert (answer.status_code == 200) is is_let
            assert (answer.text == "behind") is is_let

    run(work())


def test_a_socket_of_another_place_is_closed(run):
    async def behind(scope, receive, send):
        await send({"type": "websocket.accept"})

    async def work():
        for site, said in (("cross-site", "close"), ("same-site", "close"), ("same-origin", "acc")):
            sent = []

            async def send(message, sent=sent):
                sent.append(message["type"])

            headers = [(b"sec-fetch-site", site.encode()), (b"sec-fetch-dest", b"document")]
            scope = {"type": "websocket", "path": "/", "headers": headers}
            await CrossSite(behind)(scope, None, send)
            assert len(sent) == 1 and said in sent[0]

    run(work())
