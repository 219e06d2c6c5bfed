"""What is sent: bounded, whether its length is announced or not, and given up half way."""

from __future__ import annotations

import httpx
from jetstream_console.body_limit import BodyLimit
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

LIMIT = 1_000


def test_no_more_is_taken_than_that(run):
    taken = []

    async def behind(scope, receive, send):
        taken.append(0)
        async for piece in Request(scope, receive).stream():
            taken[-1] += len(piece)
        await PlainTextResponse("behind")(scope, receive, send)

    async def pieces(count):
        for _ in range(count):
            yield b"x" * 100

    async def work():
        transport = httpx.ASGITransport(BodyLimit(behind, LIMIT))
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            assert (await client.post("/", content=b"x" * LIMIT)).text == "behind"
            assert (await client.post("/", content=pieces(10))).text == "behind"
            assert taken == [LIMIT, LIMIT]
            assert (await client.post("/", content=b"x" * (LIMIT + 1))).status_code == 413
            for length in ("-1", "x", "9" * 5_000, "²"):
                headers = {"Content-Length": length.encode()}
                assert (await client.post("/", headers=headers)).status_code == 413
            assert len(taken) == 2
            answer = await client.post("/", content=pieces(1_000))
            assert (answer.status_code, taken) == (413, [LIMIT] * 3)

    run(work())


def test_who_goes_away_half_way_is_no_fault(run):
    async def behind(scope, receive, send):
        raise ClientDisconnect

    async def work():
        scope = {"type": "http", "method": "POST", "headers": []}
        sent = []

        async def send(message):
            sent.append(message.get("status"))

        # Some of what stands around it takes it for a fault if there is no answer.
        await BodyLimit(behind, LIMIT)(scope, None, send)
        assert sent == [400, None]

    run(work())
