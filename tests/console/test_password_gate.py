"""The password: asked for everything, and not to be tried by the thousand."""

from __future__ import annotations

import asyncio

import httpx
from jetstream_console.password_gate import PasswordGate
from starlette.responses import PlainTextResponse


async def behind(scope, receive, send):
    if scope["type"] == "http":
        await PlainTextResponse("behind")(scope, receive, send)
    else:
        await send({"type": "websocket.accept"})


def browser(gate: PasswordGate) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://console")


def test_nobody_gets_past_without_it_and_whoever_has_it_stays(run):
    async def work():
        gate = PasswordGate(behind, "sësame", sleep=lambda s: asyncio.sleep(0))
        async with browser(gate) as client:
            for path in ("/", "/streams/A", "/_nicegui/x.js", "/login"):
                answer = await client.get(path)
                assert answer.status_code == 401 and "behind" not in answer.text
            assert (await client.post("/other")).status_code == 401
            answer = await client.post("/login", data={"password": "wrong<b>"})
            assert answer.status_code == 401 and "not it" in answer.text
            assert "<b>" not in answer.text and not client.cookies
            answer = await client.post("/login", data={"password": "sësame"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            cookie = answer.headers["set-cookie"].lower()
            assert "httponly" in cookie and "samesite=strict" in cookie
            assert (await client.get("/streams/A")).text == "behind"
            kept = client.cookies["jetstream_console"]
            assert len(kept) >= 32
        async with browser(gate) as other:
            headers = {"Cookie": "jetstream_console=ä".encode()}
            assert (await other.get("/", headers=headers)).status_code == 401
        # After a restart nobody is known.
        async with browser(PasswordGate(behind, "sësame")) as again:
            given = {"Cookie": f"jetstream_console={kept}"}
            assert (await again.get("/", headers=given)).status_code == 401

    run(work())


def test_a_socket_needs_it_as_well(run):
    async def work():
        gate = PasswordGate(behind, "sesame")
        sent = []

        async def send(message):
            sent.append(message["type"])

        async def receive():
            return {"type": "websocket.connect"}

        await gate({"type": "websocket", "path": "/", "headers": []}, receive, send)
        cookie = (b"cookie", f"jetstream_console={gate._key}".encode())
        await gate({"type": "websocket", "path": "/", "headers": [cookie]}, receive, send)
        assert sent == ["websocket.close", "websocket.accept"]

    run(work())


def test_wrong_ones_are_answered_one_after_the_other(run):
    async def work():
        under_way = [0, 0]

        async def sleep(seconds):
            assert seconds >= 1
            under_way[0] += 1
            under_way[1] = max(under_way)
            await asyncio.sleep(0.001)
            under_way[0] -= 1

        gate = PasswordGate(behind, "sesame", sleep)
        async with browser(gate) as client:
            tries = [client.post("/login", data={"password": "x"}) for _ in range(50)]
            codes = [answer.status_code for answer in await asyncio.gather(*tries)]
            assert under_way[1] == 1
            assert set(codes) == {401, 429} and codes.count(401) <= 20
            answer = await client.post("/login", content=b"password=" + b"x" * 100_000)
            assert answer.status_code == 413

    run(work())
