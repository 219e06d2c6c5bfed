"""The password: asked for everything, and not to be tried by the thousand."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
from jetstream_console.password_gate import PasswordGate
from starlette.responses import PlainTextResponse

from tests.console.conftest import until


async def behind(scope, receive, send):
    if scope["type"] == "http":
        await PlainTextResponse("behind")(scope, receive, send)
    else:
        await send({"type": "websocket.accept"})


def browser(gate: PasswordGate, address: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(gate, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://console")


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
        cookie = (b"cookie", f"jetstream_console={gate._begin()}".encode())
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
            assert set(codes) == {401, 429} and codes.count(401) == 5
            answer = await client.post("/login", content=b"password=" + b"x" * 100_000)
            assert answer.status_code == 413
            # Nothing is kept of those who are through.
            assert gate._lines == {}

    run(work())


def test_whoever_knows_it_elsewhere_waits_for_nobody(run):
    async def work():
        asleep, wakes = [], asyncio.Event()

        async def sleep(seconds):
            asleep.append(seconds)
            await wakes.wait()

        gate = PasswordGate(behind, "sesame", sleep)
        guesser, household = "10.0.0.1", "2001:db8::"
        tries = []
        async with contextlib.AsyncExitStack() as stack:

            async def at(address):
                return await stack.enter_async_context(browser(gate, address))

            async def code(address, password):
                answer = await (await at(address)).post("/login", data={"password": password})
                return answer.status_code

            for number in range(20):
                for address in (guesser, f"::ffff:{guesser}", f"{household}{number + 1:x}"):
                    tries.append(asyncio.create_task(code(address, "wrong")))
            await until(lambda: len(asleep) == 2 and sum(map(asyncio.Task.done, tries)) == 50)
            assert await code("10.0.0.2", "sesame") == 303
            assert await code("2001:db8:0:1::1", "sesame") == 303
            assert await code("an unknown place", "sesame") == 303
            # Where many try, not even who knows it is let in: it would be a try at once.
            assert await code(guesser, "sesame") == 429
            # Whoever has a thousand addresses has no thousand tries.
            others = [asyncio.create_task(code(f"10.1.0.{n}", "wrong")) for n in range(50)]
            await until(lambda: len(asleep) == 20 and sum(map(asyncio.Task.done, others)) == 32)
            wakes.set()
            codes = await asyncio.gather(*tries, *others)
            assert codes.count(401) == 2 * 5 + 18 and codes.count(429) == 50 + 32
            assert gate._lines == {}

    run(work())


def test_a_session_ends_with_its_cookie_and_its_sockets(run):
    async def work():
        heard = []

        async def application(scope, receive, send):
            if scope["type"] == "http":
                await behind(scope, receive, send)
                return
            while (message := await receive())["type"] != "websocket.disconnect":
                heard.append(message["text"])
            heard.append("gone")

        gate = PasswordGate(application, "sesame")
        async with browser(gate) as one, browser(gate) as other:
            for client in (one, other):
                await client.post("/login", data={"password": "sesame"})
            kept = one.cookies["jetstream_console"]
            assert kept != other.cookies["jetstream_console"]
            said = asyncio.Queue()
            headers = [(b"cookie", f"jetstream_console={kept}".encode())]
            scope = {"type": "websocket", "path": "/", "headers": headers}
            socket = asyncio.create_task(gate(scope, said.get, None))
            await said.put({"type": "websocket.receive", "text": "a"})
            await until(lambda: heard == ["a"])
            assert (await one.get("/logout")).text == "behind"
            answer = await one.post("/logout")
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            await socket
            assert heard == ["a", "gone"] and not one.cookies
            headers = {"Cookie": f"jetstream_console={kept}"}
            for method in ("GET", "POST"):
                answer = await one.request(method, "/logout", headers=headers)
                assert answer.status_code == 401
            assert (await other.get("/")).text == "behind"

    run(work())


def test_of_sessions_only_the_newest_are_kept(run):
    async def work():
        gate = PasswordGate(behind, "sesame")
        keys = [gate._begin() for _ in range(1_001)]
        for key, status in ((keys[0], 401), (keys[1], 200), (keys[-1], 200)):
            async with browser(gate) as client:
                headers = {"Cookie": f"jetstream_console={key}"}
                assert (await client.get("/", headers=headers)).status_code == status

    run(work())
