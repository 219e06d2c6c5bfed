"""The monitoring of both servers, and what is no monitoring."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.asking.errors import RefusedError, UnreachableError
from jetstream_console.asking.monitor import Monitor


def test_the_server_and_its_clients(run, connected):
    async def work():
        async with connected() as world:
            monitor = world.console.monitor
            await world.console.link.client.publish("said", b"before")
            await world.console.link.client.flush()
            vitals = await monitor.vitals()
            assert vitals.health == "ok" and vitals.version and vitals.uptime
            assert vitals.connections >= 2 and vitals.in_messages > 0 and vitals.memory > 1 << 20
            found = await monitor.connections("cid", 0, 1024)
            assert len(found.rows) == found.total >= 2
            [mine] = [
                each for each in found.rows if each.cid == world.console.link.client.client_id
            ]
            assert (mine.name, mine.user) == ("jetstream-console", "all")
            assert mine.place.startswith("127.0.0.1:")
            assert mine.language.startswith("python")
            one = await monitor.connections("cid", 1, 1)
            assert one.rows[0].cid == found.rows[1].cid
            assert "$G" in [each["acc"] for each in await monitor.accounts()]
            with pytest.raises(RefusedError, match="status 400"):
                await monitor.connections("nonsense", 0, 1)

    run(work())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "status 200"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}", "status 404"),
        (b"nonsense\r\n\r\n", "does not answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (33 << 20), "too much"),
    ],
)
def test_what_is_no_monitoring_is_said(run, answer, words):
    async def speak(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def work():
        async with await asyncio.start_server(speak, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            monitor = Monitor(f"http://127.0.0.1:{port}/")
            with pytest.raises((RefusedError, UnreachableError), match=words):
                await monitor.vitals()
            await monitor.close()

    run(work())


def test_nobody_is_there(run):
    async def work():
        with pytest.raises(UnreachableError, match="does not answer"):
            await Monitor("http://127.0.0.1:1").vitals()

    run(work())
